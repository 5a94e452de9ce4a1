"""What users of a generated module call: typed functions, the in-place variant, the nn.Module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from symgrad.backends.torch.docs import escaped, listed, summary, wrapped
from symgrad.backends.torch.layout import Layout, branches
from symgrad.backends.torch.printer import Printer, quoted
from symgrad.machine import machine
from symgrad.naming import Names
from symgrad.operation import Variant, tangent
from symgrad.spec.model import Hyperparameter, Parameter, Tensor


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
        if not _reads_overwritten(layout):
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


def literal(value: Any) -> str:
    """A default as Python source."""
    return quoted(value) if isinstance(value, str) else repr(value)


def signature(layout: Layout) -> str:
    """Tensors, then hyperparameters with their defaults; without a default they come as keywords."""
    parts = [
        f"{t.name}: {tensor_type(t, layout)}{' = None' if _may_be_left_out(t, layout) else ''}"
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


def _may_be_left_out(tensor: Tensor, layout: Layout) -> bool:
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
    found = [PublicFunction(n, signature(layout), text, tuple(bodies[n])) for n, text in documented.items()]
    return [part for function in found for part in _sheltered(function, layout)]


def _sheltered(function: PublicFunction, layout: Layout) -> list[PublicFunction]:
    """The function; where an argument hides what its body needs, a shell around a body with other names."""
    code = re.sub(r'"[^"]*"', "", "\n".join(function.body))
    hidden = {*re.findall(r"(\w+)\(", code), "float", "int", "bool", "str", "torch"}
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
    text = f"Check the arguments of ``{function.name}`` and call it."
    return [replace(function, body=(call,)), PublicFunction(name, method_signature(layout), text, tuple(body))]


def _bodies(layout: Layout, original: Layout) -> dict[str, list[str]]:
    """The bodies by function, with the argument names of `layout`."""
    spec = original.spec
    bodies = {spec.op: _body(layout, spec.op, "_apply")}
    if spec.options.inplace:
        name = f"{spec.op}_"
        body = bodies[name] = _body(layout, name, "_apply_inplace")
        own = dict(zip(original.argument_names, layout.argument_names, strict=True))[spec.options.inplace]
        target = Names(layout.argument_names).reserve("target")
        copied = [
            f"{own}, {target} = {own}.clone(), {own}  # derivatives need what is overwritten",
            f"return {target}.copy_(_apply({', '.join(layout.argument_names)}))",
        ]
        if _reads_overwritten(original):
            body[-1:] = copied
        else:
            body[-1:] = ["if _forward_mode():", *(f"    {line}" for line in copied), body[-1]]
    return bodies


def _docstring(layout: Layout) -> str:
    spec = layout.spec
    parts = [summary(layout)]
    arguments: tuple[Tensor | Hyperparameter, ...] = (*spec.tensors, *spec.hyperparameters)
    documented = [(x.name, x.doc) for x in arguments if x.doc] + [(o.name, o.doc) for o in spec.outputs if o.doc]
    if documented:
        parts.append("\n".join(wrapped(f"{n}: {d}", 90).replace("\n", "\n    ") for n, d in documented))
    notes = []
    if len(spec.tensors) > 1 and not any(t.shape for t in spec.tensors):
        notes.append("The tensors broadcast; any of them may be a number.")
    notes += [_domain_note(x) for x in arguments if x.domain is not None]
    notes.append(_raises(layout))
    parts.append(wrapped(" ".join(notes), 92))
    return escaped("\n\n".join(parts))


def _domain_note(x: Tensor | Hyperparameter) -> str:
    return f"{x.name} lies in {x.domain}."


def _raises(layout: Layout) -> str:
    spec = layout.spec
    type_error = "a tensor is complex" if len(spec.tensors) > 1 else f"{spec.tensors[0].name} is no real tensor"
    if spec.hyperparameters:
        type_error += " or a hyperparameter has another type"
    text = f"Raises TypeError where {type_error}"
    checked = [h.name for h in spec.hyperparameters if h.domain is not None or h.choices]
    if checked:
        text += f", ValueError where {listed(checked)} {'is' if len(checked) == 1 else 'are'} out of range"
    if any(t.shape for t in spec.tensors):
        text += ", ValueError where shapes do not fit"
    return text + "."


_PYTHON_TYPES = {"float": "(float, int)", "int": "int", "bool": "bool", "str": "str"}


def _body(layout: Layout, op: str, apply: str) -> list[str]:
    spec = layout.spec
    names = [t.name for t in spec.tensors]
    lines = []
    if _is_number_friendly(layout):
        fits = [
            f"({t.name} is None or _is_real({t.name}))" if t.default is not None else f"_is_real({t.name})"
            for t in spec.tensors
        ]
        everyone = f"({' and '.join(fits)})"
        if len(names) > 3 and not layout.optional:
            everyone = f"all(map(_is_real, ({', '.join(names)})))"
        lines.append(f"if not {everyone}:")
        optional = "".join(f'"{t.name}", ' for t in spec.tensors if t.default is not None)
        values = ", ".join(f"{n}={n}" for n in names)
        lines.append(f'    {", ".join(names)} = _tensors("{op}", ({optional.rstrip()}), {values})')
    else:
        lines.append(f"if not _is_real({names[0]}):")
        lines.append(f'    raise TypeError(f"{op}: expected a real tensor, not {{_kind({names[0]})}}")')
    lines += _dtype_checks(layout, op)
    for h in spec.hyperparameters:
        lines += _hyperparameter_checks(h, op)
    lines += _shape_checks(layout, op)
    if is_nonlinear(layout):
        lines.append(f'_refuse_compilers("{op}")')
    arguments = ", ".join(layout.argument_names)
    return [*lines, f"return {apply}({arguments})"]


def _dtype_checks(layout: Layout, op: str) -> list[str]:
    lines = []
    for t in layout.spec.tensors:
        if t.dtype == "int":
            lines.append(f'_integral("{op}", "{t.name}", {t.name})')
        elif t.dtype == "bool":
            lines.append(f'_boolean("{op}", "{t.name}", {t.name})')
    return lines


def _hyperparameter_checks(h: Hyperparameter, op: str) -> list[str]:
    lines = [f'_typed("{op}", "{h.name}", {h.name}, {_PYTHON_TYPES[h.type]})']
    if h.choices:
        allowed = ", ".join(literal(c) for c in h.choices) + ("," if len(h.choices) == 1 else "")
        text = listed([str(c) for c in h.choices]).replace(" and ", " or ")
        text = quoted(text)[1:-1].replace("{", "{{").replace("}", "}}")  # inside of an f-string
        lines += [
            f"if {h.name} not in ({allowed}):",
            f'    raise ValueError(f"{op}: {h.name} must be {text}, not {{{h.name}!r}}")',
        ]
    if h.domain is not None:
        test = _inside(h)
        if test:
            lines += [
                f"if not {test}:",
                f'    raise ValueError(f"{op}: {h.name} must be in {h.domain}, not {{{h.name}}}")',
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


def _shape_checks(layout: Layout, op: str) -> list[str]:
    shaped = [t for t in layout.spec.tensors if t.shape is not None]
    if not shaped:
        return []
    lines = [f'_check_shapes("{op}", {{']
    for t in shaped:
        dims = ", ".join(literal(d) for d in t.shape or ())
        lines.append(f'    "{t.name}": ({t.name}, ({dims}{"," if len(t.shape or ()) == 1 else ""})),')
    return [*lines, "})"]


# ------------------------------------------------------------------------------------------------ variants
def dispatched(layout: Layout, *, fused: bool = False, plain: bool = False) -> str:
    """The arguments of `_dispatcher`."""
    name = f"{layout.class_name}Function"
    if fused:
        name += f", _{layout.class_name}Fused"
    if plain:
        name += f", _{layout.class_name}Plain"
    if layout.operation.keeping is not None:
        name += f", _{layout.class_name}Keeping, extra=True"
    if detached(layout):
        name += ", compiled=_detached"
    return name


def is_nonlinear(layout: Layout) -> bool:
    """Whether some gradient is overridden by a rule that is not linear in the cotangent."""
    return any(o.transposed is None for v in layout.variants for o in v.overrides.values())


def detached(layout: Layout) -> list[str]:
    """The outputs with their gradients in a form that compilers cannot differentiate otherwise.

    The value comes from forward, detached; the derivative from a surrogate: each overridden tensor under its transposed
    rule, and the formula itself for the others, each with the rest held fixed.
    """
    if is_nonlinear(layout) or not any(v.overrides for v in layout.variants):
        return []
    tensors = [layout.arguments[t.name] for t in layout.spec.tensors]
    names = layout.names()
    held = {t.name: names.reserve(f"fixed_{layout.arguments[t.name]}") for t in layout.spec.tensors}
    call = ", ".join(layout.arguments[a] for a in layout.argument_names)
    forward = f"{layout.class_name}Function.forward"
    symbols = layout.symbols()
    fixed = {layout.symbol(t): name for t, name in held.items()}
    live = {tangent(t.name): layout.arguments[t.name] for t in layout.spec.tensors}

    def leaf(variant: Variant) -> list[str]:
        surrogates = []
        for output in layout.spec.outputs:
            terms = [
                (o.transposed or {})[output.name]
                for o in variant.overrides.values()
                if output.name in (o.transposed or {})
            ]
            rest = [t for t in layout.differentiable if (output.name, t) in variant.gradients]
            texts = [Printer({**symbols, **fixed, **live}, layout.constants)(e) for e in machine(terms)]
            if rest:
                arguments = [
                    layout.arguments[a] if a in rest or a not in held else held[a] for a in layout.argument_names
                ]
                value = f"{forward}({', '.join(arguments)})"
                index = layout.spec.outputs.index(output)
                texts.append(value if len(layout.spec.outputs) == 1 else f"{value}[{index}]")
            surrogates.append(" + ".join(texts))
        if len(surrogates) == 1:
            value = f"{forward}({call})"
            return [
                f"return _straight_through({value}, {surrogates[0]})" if surrogates[0] else f"return {value}.detach()"
            ]
        pairs = [
            f"_straight_through(values[{k}], {s})" if s else f"values[{k}].detach()" for k, s in enumerate(surrogates)
        ]
        return [f"values = {forward}({call})", f"return {', '.join(pairs)}"]

    body = branches(layout.operation.body, leaf, Printer(symbols, layout.constants))
    used = [(t, h) for t, h in zip(tensors, held.values(), strict=True) if any(h in line for line in body)]
    return [*(f"{h} = {t}.detach()" for t, h in used), *body]


def inplace(layout: Layout) -> dict[str, Any] | None:
    """The parts of the in-place Function, where no derivative reads the tensor that is overwritten.

    It serves reverse mode. The others copy the result over the tensor: a tangent cannot always be written over.
    """
    tensor = layout.spec.options.inplace
    if tensor is None or _reads_overwritten(layout):
        return None
    output = next(iter(layout.outputs.values()))
    return {
        "tensor": layout.arguments[tensor],
        "setup": [f"{layout.class_name}Function.setup_context(ctx, inputs, {output})"],
    }


def _reads_overwritten(layout: Layout) -> bool:
    """Whether backward needs the tensor that the in-place variant overwrites."""
    tensor = layout.spec.options.inplace
    assert tensor is not None
    own = layout.symbol(tensor)
    return any(own in s.value.symbols for v in layout.variants for s in v.plan.base if s.source != "output")


# ------------------------------------------------------------------------------------------------ nn.Module
def module(layout: Layout) -> dict[str, Any] | None:
    """The parts of the nn.Module that owns the parameters."""
    spec = layout.spec
    if spec.module is None:
        return None
    parameters = spec.module.parameters
    owned = {p.tensor for p in parameters}
    sizes = list(dict.fromkeys(d for p in parameters for d in p.shape or () if isinstance(d, str)))
    hypers = spec.hyperparameters
    inputs = [t for t in spec.tensors if t.name not in owned]
    init = [*(f"self.{s} = {s}" for s in sizes), *(f"self.{h.name} = {h.name}" for h in hypers)]
    init += [f"self.initial_{p.tensor} = {p.tensor}" for p in parameters]
    for p in parameters:
        shape = ", ".join(str(d) for d in p.shape or ())
        shape = f"({shape},)" if len(p.shape or ()) == 1 else f"({shape})"
        init.append(f"self.{p.tensor} = torch.nn.Parameter(torch.empty({shape}, device=device, dtype=dtype))")
    if parameters:
        init.append("self.reset_parameters()")
    call = [t.name if t.name not in owned else f"self.{t.name}" for t in spec.tensors]
    call += [f"{h.name}=self.{h.name}" for h in hypers]
    shown = [*sizes, *(h.name for h in hypers)]
    pieces = [f"{s}={{self.{s}!r}}" for s in shown] + [f"{p.tensor}={{self.initial_{p.tensor}}}" for p in parameters]
    owns = listed([p.tensor for p in parameters])
    optional = " | None"
    return {
        "docstring": escaped(f"{summary(layout)[:-1]}, as a module{f' that owns {owns}' if owns else ''}."),
        "parameters": [{"name": p.tensor} for p in parameters],
        "signature": _module_signature(sizes, parameters, hypers),
        "init": init,
        "reset": [f"torch.nn.init.constant_(self.{p.tensor}, self.initial_{p.tensor})" for p in parameters],
        "inputs": "".join(
            f", {t.name}: Tensor{optional if t.default is not None else ''}"
            + (" = None" if _may_be_left_out(t, layout) else "")
            for t in inputs
        ),
        "call": f"{spec.op}({', '.join(call)})",
        "repr": f'f"{", ".join(pieces)}"' if pieces else '""',
    }


def _module_signature(sizes: Sequence[str], parameters: Sequence[Parameter], hypers: Sequence[Hyperparameter]) -> str:
    """Sizes, initial values, hyperparameters, then device and dtype."""
    required = [f"{s}: int" for s in sizes] + [
        f"{h.name}: {hyperparameter_type(h)}" for h in hypers if h.default is None
    ]
    optional = [f"{p.tensor}: float = {literal(float(p.init))}" for p in parameters]
    optional += [f"{h.name}: {hyperparameter_type(h)} = {literal(h.default)}" for h in hypers if h.default is not None]
    if parameters:
        optional += ["device: torch.device | str | None = None", "dtype: torch.dtype | None = None"]
    return ", ".join(["self", *required, *optional])
