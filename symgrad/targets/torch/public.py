"""The functions that users of a generated module call: signatures, docstrings, and checks of the arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from symgrad.ir.traversal import topological
from symgrad.spec.model import Hyperparameter, Tensor
from symgrad.targets.literals import literal, quoted
from symgrad.targets.torch.dispatch import reads_overwritten, written_over
from symgrad.targets.torch.docs import function_docstring, listed
from symgrad.targets.torch.floats import read_as_floats
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.rank_check import rank_checks
from symgrad.targets.torch.shape_check import shape_check


@dataclass(frozen=True)
class PublicFunction:
    """Name, signature, docstring and body of a public function."""

    name: str
    signature: str
    docstring: str
    body: tuple[str, ...]


def exported(layout: Layout) -> list[str]:
    """The names of `__all__`, sorted."""
    names = [layout.spec.op, f"{layout.class_name}Function"]
    if layout.spec.options.inplace:
        names.append(f"{layout.spec.op}_")
        if not reads_overwritten(layout):
            names.append(f"{layout.class_name}InplaceFunction")
    if layout.spec.module is not None:
        names.append(layout.class_name)
    return sorted(names)


def returns(layout: Layout) -> str:
    """The return annotation."""
    count = len(layout.spec.outputs)
    return "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"


def _is_number_friendly(layout: Layout) -> bool:
    """Whether Python numbers are accepted for tensors: where there is another tensor to give the dtype."""
    return len(layout.spec.tensors) > 1


def tensor_type(tensor: Tensor, layout: Layout) -> str:
    """The annotation of a tensor argument."""
    parts = ["Tensor"]
    if _is_number_friendly(layout) and set(tensor.shape or ()) <= {"..."}:
        parts.append(tensor.dtype)
    if tensor.default is not None:
        parts.append("None")
    return " | ".join(parts)


def seeds(layout: Layout) -> frozenset[str]:
    """The hyperparameters that determine what is drawn: a generator may be given for one."""
    nodes = topological(*layout.formulas)
    return frozenset(s.name for n in nodes if n.op == "random_bits" for s in n.args[1].symbols if s["kind"] == "int")


def hyperparameter_type(h: Hyperparameter, is_seed: bool = False) -> str:
    """The annotation of a hyperparameter."""
    if is_seed:
        return "int | torch.Generator"
    if h.type == "str" and h.choices:
        return f"Literal[{', '.join(literal(c) for c in h.choices)}]"
    return h.type


def signature(layout: Layout, overwritten: str | None = None) -> str:
    """Tensors, then hyperparameters with their defaults; without a default they come as keywords.

    What is `overwritten` is no number.
    """
    parts = [
        f"{t.name}: {'Tensor' if t.name == overwritten else tensor_type(t, layout)}"
        f"{' = None' if may_be_left_out(t, layout.spec.tensors) else ''}"
        for t in layout.spec.tensors
    ]
    optional = any(part.endswith("= None") for part in parts)
    for h in layout.spec.hyperparameters:
        if h.default is None and optional and "*" not in parts:
            parts.append("*")
        optional = optional or h.default is not None
        default = "" if h.default is None else f" = {literal(h.default)}"
        parts.append(f"{h.name}: {hyperparameter_type(h, h.name in seeds(layout))}{default}")
    return ", ".join(parts)


def may_be_left_out(tensor: Tensor, tensors: Sequence[Tensor]) -> bool:
    """An optional tensor has the default None if no required one of the tensors follows it."""
    return all(t.default is not None for t in tensors[tensors.index(tensor) :])


def method_signature(layout: Layout) -> str:
    """The arguments of forward, by their local names."""
    tensors = [
        f"{layout.arguments[t.name]}: Tensor{' | None' if t.default is not None else ''}" for t in layout.spec.tensors
    ]
    if not layout.spec.hyperparameters:  # apply() may be called without what may be absent
        tensors = [
            f"{text} = None" if may_be_left_out(t, layout.spec.tensors) else text
            for t, text in zip(layout.spec.tensors, tensors, strict=True)
        ]
    return ", ".join([*tensors, *(f"{layout.arguments[h.name]}: {h.type}" for h in layout.spec.hyperparameters)])


_READ = frozenset({"rt", "torch", "math", "float", "int", "bool", "str", "ValueError"})  # by the bodies


def functions(layout: Layout) -> list[PublicFunction]:
    """The function, and its in-place variant where the spec asks for one."""
    spec = layout.spec
    found = [*_function(layout, spec.op, None, _docstring(layout))]
    if own := spec.options.inplace:
        text = f"Write the result of ``{spec.op}`` over ``{own}`` and return it."
        if reads_overwritten(layout) or not written_over(layout):
            text += "\n\nThe result is computed beside it and copied: this saves no memory while it is computed."
        found += _function(layout, f"{spec.op}_", own, text)
    return found


def _function(layout: Layout, name: str, overwritten: str | None, text: str) -> list[PublicFunction]:
    """A function; where an argument hides what its body reads, the body stands in another with names of its own."""
    own = {a: a for a in layout.argument_names}
    if not any(a in _READ or a.startswith("_call") for a in own):
        return [
            PublicFunction(name, signature(layout, overwritten), text, tuple(_body(layout, name, overwritten, own)))
        ]
    inner = f"_checked_{name}"
    while inner in own:
        inner += "_"
    local = layout.arguments
    return [
        PublicFunction(name, signature(layout, overwritten), text, (f"return {inner}({', '.join(own)})",)),
        PublicFunction(
            inner,
            ", ".join(f"{a}: Any" for a in local.values()),
            f"Check the arguments of ``{name}`` and call it.",
            tuple(_body(layout, name, overwritten, local)),
        ),
    ]


def _docstring(layout: Layout) -> str:
    spec = layout.spec
    notes = []
    if len(spec.tensors) > 1 and not any(t.shape for t in spec.tensors):
        notes.append("The tensors broadcast; any of them may be a number.")
    notes.append(_raises(layout))
    return function_docstring(layout, notes)


def _raises(layout: Layout) -> str:
    spec = layout.spec
    type_error = "a tensor is complex" if len(spec.tensors) > 1 else f"{spec.tensors[0].name} is no real tensor"
    if spec.hyperparameters:
        type_error += " or a hyperparameter has another type"
    text = f"Raises TypeError where {type_error}"
    checked = [h.name for h in spec.hyperparameters if h.domain is not None or h.choices]
    value_error = [f"{' or '.join(checked)} is out of range"] if checked else []
    if any(t.shape for t in spec.tensors):
        value_error.append("shapes do not fit")
    if value_error:
        text += f", ValueError where {' or '.join(value_error)}"
    dimensions = dict.fromkeys(h for h, _ in rank_checks(layout, {a: a for a in layout.argument_names}))
    if dimensions:
        text += f", IndexError where {' or '.join(dimensions)} is out of range"
    return text + "."


def _body(layout: Layout, op: str, overwritten: str | None, names: Mapping[str, str]) -> list[str]:
    """The checks and the call; `names` are those of the arguments in the body."""
    lines = _tensor_checks(layout, op, names)
    if overwritten is None:
        groups = [[names[t] for t in group] for group in read_as_floats(layout.operation)]
        lines += [f"{', '.join(g)}{',' * (len(g) == 1)} = rt.floats({', '.join(g)})" for g in groups]
    for t in layout.spec.tensors:
        if t.dtype in _WHOLE:
            check = "integral" if t.dtype == "int" else "boolean"
            lines.append(f'rt.{check}("{op}", "{t.name}", {names[t.name]})')
    for h in layout.spec.hyperparameters:
        lines += _hyperparameter_checks(h, op, names[h.name], h.name in seeds(layout))
    if shapes := shape_check(layout, names):
        lines += [f"if not {shapes.condition}:", f'    rt.refuse_shapes("{op}", {", ".join(shapes.declared)})']
    told = {local: name for name, local in names.items()}
    lines += [f'rt.dimension("{op}", "{told[h]}", {h}, {rank})' for h, rank in rank_checks(layout, names)]
    if not layout.operation.is_linear:
        exports = ", exports=True" if layout.spec.options.library else ""
        lines.append(f'rt.refuse_compilers("{op}"{exports})')
    return [*lines, *_calls(layout, overwritten, names)]


def _calls(layout: Layout, overwritten: str | None, names: Mapping[str, str]) -> list[str]:
    """The call; in place, where derivatives need what is overwritten, of a copy of it."""
    arguments = ", ".join(names.values())
    if overwritten is None:
        return [f"return _call({arguments})"]
    own = names[overwritten]
    copied = ", ".join(f"{a}.clone()" if a == own else a for a in names.values())
    copy = f"return rt.overwrite({own}, _call({copied}))"
    if reads_overwritten(layout):
        return [copy]
    return [
        "if rt.forward_mode():  # a tangent cannot always be written over",
        f"    {copy}",
        f"return _call_inplace({arguments})",
    ]


_WHOLE = ("int", "bool")


def _tensor_checks(layout: Layout, op: str, names: Mapping[str, str]) -> list[str]:
    """What is no tensor becomes one or is refused."""
    local = [names[t.name] for t in layout.spec.tensors]
    if not _is_number_friendly(layout):
        return [f'{local[0]} = rt.tensor("{op}", {local[0]})']
    optional = [t.name for t in layout.spec.tensors if t.default is not None]
    numbers = [t for t in layout.spec.tensors if t.dtype in _WHOLE and t.shape is None]
    whole = {t.name: t.dtype for t in numbers}
    told = f'"{op}", {literal(optional)}' if optional or whole else f'"{op}"'
    told += f", {literal(whole)}" if whole else ""
    given = ", ".join(f"{t.name}={names[t.name]}" for t in layout.spec.tensors)
    return [f"{', '.join(local)} = rt.tensors({told}, {given})"]


def _hyperparameter_checks(h: Hyperparameter, op: str, name: str, is_seed: bool) -> list[str]:
    lines = [f'{name} = rt.hyperparameter("{op}", "{h.name}", {name}, {h.type})']
    if is_seed:
        lines = [f'{name} = rt.seed("{op}", "{h.name}", {name})']
    if h.choices:
        text = listed([str(c) for c in h.choices]).replace(" and ", " or ")
        text = quoted(text)[1:-1].replace("{", "{{").replace("}", "}}")  # inside of an f-string
        lines += [
            f"if {name} not in {literal(h.choices)}:",
            f'    raise ValueError(f"{op}: {h.name} must be {text}, not {{{name}!r}}")',
        ]
    return [*lines, *domain_check(h, op, name)]


def domain_check(h: Hyperparameter, op: str, name: str) -> list[str]:
    """The statements that refuse what is outside of a hyperparameter's domain; `name` is what it is called there."""
    test = h.inside(name)
    text = f"{op}: {h.name} must be in {h.domain}, not {{{name}}}"
    return [f"if not {test}:", f'    raise ValueError(f"{text}")'] if test else []
