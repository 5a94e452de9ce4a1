"""The functions that users of a generated module call: signatures, docstrings, and checks of the arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from symgrad.spec.model import Hyperparameter, Tensor
from symgrad.targets.literals import literal, quoted
from symgrad.targets.naming import Names
from symgrad.targets.torch.dispatch import is_nonlinear, reads_overwritten
from symgrad.targets.torch.docs import escaped, listed, summary, wrapped
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
    if _is_number_friendly(layout):
        parts.append({"float": "float", "int": "int", "bool": "bool"}[tensor.dtype])
    if tensor.default is not None:
        parts.append("None")
    return " | ".join(parts)


def hyperparameter_type(h: Hyperparameter) -> str:
    """The annotation of a hyperparameter."""
    if h.type == "str" and h.choices:
        return f"Literal[{', '.join(literal(c) for c in h.choices)}]"
    return h.type


def signature(layout: Layout, overwritten: str | None = None) -> str:
    """Tensors, then hyperparameters with their defaults; without a default they come as keywords.

    What is `overwritten` is no number.
    """
    parts = [
        f"{t.name}: {'Tensor' if t.name == overwritten else tensor_type(t, layout)}"
        f"{' = None' if may_be_left_out(t, layout) else ''}"
        for t in layout.spec.tensors
    ]
    optional = any(part.endswith("= None") for part in parts)
    for h in layout.spec.hyperparameters:
        if h.default is None and optional and "*" not in parts:
            parts.append("*")
        optional = optional or h.default is not None
        default = "" if h.default is None else f" = {literal(h.default)}"
        parts.append(f"{h.name}: {hyperparameter_type(h)}{default}")
    return ", ".join(parts)


def may_be_left_out(tensor: Tensor, layout: Layout) -> bool:
    """An optional tensor has the default None if no required tensor follows it."""
    tensors = layout.spec.tensors
    return all(t.default is not None for t in tensors[tensors.index(tensor) :])


def method_signature(layout: Layout) -> str:
    """The arguments of forward, by their local names."""
    tensors = [
        f"{layout.arguments[t.name]}: Tensor{' | None' if t.default is not None else ''}" for t in layout.spec.tensors
    ]
    return ", ".join([*tensors, *(f"{layout.arguments[h.name]}: {h.type}" for h in layout.spec.hyperparameters)])


def functions(layout: Layout) -> list[PublicFunction]:
    """The function, and its in-place variant where the spec asks for one."""
    spec = layout.spec
    bodies = _bodies(layout, layout)
    documented = {spec.op: _docstring(layout)}
    if spec.options.inplace:
        documented[f"{spec.op}_"] = f"Write the result of ``{spec.op}`` over ``{spec.options.inplace}`` and return it."
    overwritten = {f"{spec.op}_": spec.options.inplace}
    found = [
        PublicFunction(n, signature(layout, overwritten.get(n)), text, tuple(bodies[n]))
        for n, text in documented.items()
    ]
    return [part for function in found for part in _sheltered(function, layout)]


def _sheltered(function: PublicFunction, layout: Layout) -> list[PublicFunction]:
    """The function; where an argument hides what its body needs, a shell around a body with other names."""
    code = re.sub(r'"[^"]*"', "", "\n".join(function.body))
    hidden = {*re.findall(r"(?<![.\w])(\w+)\(", code), "float", "int", "bool", "str", "torch"}
    if not hidden & set(layout.argument_names):
        return [function]
    program = layout.operation.program
    local = layout.arguments
    spec = replace(
        layout.spec,
        tensors=tuple(replace(t, name=local[t.name]) for t in layout.spec.tensors),
        hyperparameters=tuple(replace(h, name=local[h.name]) for h in layout.spec.hyperparameters),
    )
    inner = Layout(replace(layout.operation, program=replace(program, spec=spec)))
    name = f"_checked_{function.name}"
    while name in layout.argument_names:
        name += "_"
    body = _bodies(inner, layout)[function.name]
    call = f"return {name}({', '.join(layout.argument_names)})"
    written = local[layout.spec.options.inplace or ""] if function.name == f"{layout.spec.op}_" else None
    text = f"Check the arguments of ``{function.name}`` and call it."
    return [replace(function, body=(call,)), PublicFunction(name, signature(inner, written), text, tuple(body))]


def _bodies(layout: Layout, original: Layout) -> dict[str, list[str]]:
    """The bodies by function, with the argument names of `layout`."""
    spec = original.spec
    bodies = {spec.op: _body(layout, spec.op, "_apply", original)}
    if spec.options.inplace:
        name = f"{spec.op}_"
        body = bodies[name] = _body(layout, name, "_apply_inplace", original)
        own = dict(zip(original.argument_names, layout.argument_names, strict=True))[spec.options.inplace]
        target = Names(layout.argument_names).reserve("target")
        copied = [
            f"{own}, {target} = {own}.clone(), {own}  # derivatives need what is overwritten",
            f"return {target}.copy_(_apply({', '.join(layout.argument_names)}))",
        ]
        if reads_overwritten(original):
            body[-1:] = copied
        else:
            body[-1:] = ["if _forward_mode():", *(f"    {line}" for line in copied), body[-1]]
    return bodies


def _docstring(layout: Layout) -> str:
    spec = layout.spec
    parts = [summary(layout)]
    arguments: tuple[Tensor | Hyperparameter, ...] = (*spec.tensors, *spec.hyperparameters)
    said = [_said(x) for x in arguments] + [f"{o.name}: {o.doc}" for o in spec.outputs if o.doc]
    if any(said):
        parts.append("\n".join(wrapped(text, 90).replace("\n", "\n    ") for text in said if text))
    notes = []
    if len(spec.tensors) > 1 and not any(t.shape for t in spec.tensors):
        notes.append("The tensors broadcast; any of them may be a number.")
    notes.append(_raises(layout))
    parts.append(wrapped(" ".join(notes), 92))
    return escaped("\n\n".join(parts))


def _said(argument: Tensor | Hyperparameter) -> str:
    """What a docstring says of an argument: its domain and its meaning, as far as the spec has them."""
    domain = "" if argument.domain is None else f" in {argument.domain}"
    meaning = f": {argument.doc}" if argument.doc else ""
    return f"{argument.name}{domain}{meaning}" if domain or meaning else ""


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


_PYTHON_TYPES = {"float": "(float, int)", "int": "int", "bool": "bool", "str": "str"}


def _body(layout: Layout, op: str, apply: str, original: Layout) -> list[str]:
    spec = layout.spec
    renamed = dict(zip(original.argument_names, layout.argument_names, strict=True))
    told = {own: name for name, own in renamed.items()}
    groups = [] if op != original.spec.op else [[renamed[t] for t in g] for g in read_as_floats(original.operation)]
    lines = _tensor_checks(layout, op, groups, told)
    lines += _dtype_checks(layout, op, told)
    for h in spec.hyperparameters:
        lines += _hyperparameter_checks(h, op, told[h.name])
    if shape_check(layout):
        lines.append(f"_check_shapes({', '.join(t.name for t in spec.tensors if t.shape is not None)})")
    lines += [f'_dimension("{op}", "{told[h]}", {h}, {rank})' for h, rank in rank_checks(original, renamed)]
    if is_nonlinear(original):
        lines.append(f'_refuse_compilers("{op}")')
    arguments = ", ".join(layout.argument_names)
    return [*lines, f"return {apply}({arguments})"]


def _tensor_checks(layout: Layout, op: str, groups: list[list[str]], told: Mapping[str, str]) -> list[str]:
    """What is no tensor becomes one or is refused; of each of the groups, one tensor at least is made a float.

    `told` are the names that messages use: those of the spec.
    """
    spec = layout.spec
    names = [t.name for t in spec.tensors]
    floats = {t for group in groups for t in group}
    kinds = {t: "_is_float" if t in floats else "_is_real" for t in names}
    casts = []
    for group in groups:
        targets = ", ".join(group) if len(group) > 1 else f"({group[0]},)"
        casts.append(f"    {targets} = _promoted({', '.join(group)})")
    if not _is_number_friendly(layout):
        (name,) = names
        refusal = f'raise TypeError(f"{op}: expected a real tensor, not {{_kind({name})}}")'
        if not casts:
            return [f"if not _is_real({name}):", f"    {refusal}"]
        cast = f"{name} = {name}.to(torch.get_default_dtype())"
        return [f"if not _is_float({name}):", f"    if not _is_real({name}):", f"        {refusal}", f"    {cast}"]
    fits = [
        f"({t.name} is None or _is_real({t.name}))" if t.default is not None else f"{kinds[t.name]}({t.name})"
        for t in spec.tensors
    ]
    everyone = f"({' and '.join(fits)})"
    if len(names) > 3 and not layout.optional and not casts:
        everyone = f"all(map(_is_real, ({', '.join(names)})))"
    optional = "".join(f'"{told[t.name]}", ' for t in spec.tensors if t.default is not None)
    values = ", ".join(f"{told[n]}={n}" for n in names)
    made = f'    {", ".join(names)} = _tensors("{op}", ({optional.rstrip()}), {values})'
    return [f"if not {everyone}:", made, *casts]


def _dtype_checks(layout: Layout, op: str, told: Mapping[str, str]) -> list[str]:
    lines = []
    for t in layout.spec.tensors:
        if t.dtype == "int":
            lines.append(f'_integral("{op}", "{told[t.name]}", {t.name})')
        elif t.dtype == "bool":
            lines.append(f'_boolean("{op}", "{told[t.name]}", {t.name})')
    return lines


def _hyperparameter_checks(h: Hyperparameter, op: str, told: str) -> list[str]:
    lines = [f'_typed("{op}", "{told}", {h.name}, {_PYTHON_TYPES[h.type]})']
    if h.choices:
        allowed = literal(h.choices)
        text = listed([str(c) for c in h.choices]).replace(" and ", " or ")
        text = quoted(text)[1:-1].replace("{", "{{").replace("}", "}}")  # inside of an f-string
        lines += [
            f"if {h.name} not in {allowed}:",
            f'    raise ValueError(f"{op}: {told} must be {text}, not {{{h.name}!r}}")',
        ]
    if h.domain is not None:
        test = _inside(h)
        if test:
            lines += [
                f"if not {test}:",
                f'    raise ValueError(f"{op}: {told} must be in {h.domain}, not {{{h.name}}}")',
            ]
    return lines


def _inside(h: Hyperparameter) -> str:
    """The test that a value lies in its domain; NaN does not."""
    d = h.domain
    assert d is not None
    low = f"{_bound(d.lower)} {'<' if d.lower_open else '<='} " if d.lower > float("-inf") else ""
    high = f" {'<' if d.upper_open else '<='} {_bound(d.upper)}" if d.upper < float("inf") else ""
    if low and not high:
        return f"{h.name} {'>' if d.lower_open else '>='} {_bound(d.lower)}"
    return f"{low}{h.name}{high}" if low or high else ""


def _bound(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
