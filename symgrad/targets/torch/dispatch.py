"""The ways into an operation: which Function serves which call, the form for compilers, and the in-place Function."""

from __future__ import annotations

from typing import Any

from symgrad.accuracy.machine import machine
from symgrad.compiler.operation import Variant
from symgrad.differentiate.symbols import tangent
from symgrad.ir import expr as ex
from symgrad.spec.model import Hyperparameter, Tensor
from symgrad.targets.literals import quoted
from symgrad.targets.torch.conditionals import branches
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.printer import Printer
from symgrad.targets.torch.schedule import Scope, Target, statements


def entry(layout: Layout, kernels: str = "") -> str:
    """The arguments of `rt.entry`."""
    parts = [f"{layout.class_name}Function"]
    if len(layout.outputs) > 1:
        parts.append(f"outputs={len(layout.outputs)}")
    if layout.keeps:
        parts.append(f"residuals={layout.keeps}")
    if surrogate(layout):
        parts.append(f"surrogate={layout.class_name}Function.surrogate")
    if kernels:
        parts.append(f"kernels={kernels}")
    if layout.spec.options.library:
        parts.append("exported=_operator")
    return ", ".join(parts)


def operator(layout: Layout) -> str:
    """The arguments of `_library.operator`, empty where the spec names no operator."""
    spec = layout.spec
    if spec.options.library is None:
        return ""
    given = []
    arguments: tuple[Tensor | Hyperparameter, ...] = (*spec.tensors, *spec.hyperparameters)
    for k, argument in enumerate(arguments):
        own = layout.arguments[argument.name]
        name = own if own.isascii() else f"argument{k}"  # schemas have no other names
        if isinstance(argument, Hyperparameter):
            given.append(f"{argument.type} {name}")
        else:
            given.append(f"Tensor{'' if argument.default is None else '?'} {name}")
    results = ", ".join(["Tensor"] * len(spec.outputs))
    schema = f"({', '.join(given)}) -> {results if len(spec.outputs) == 1 else f'({results})'}"
    parts = [quoted(spec.options.library), quoted(schema), f"{layout.class_name}Function"]
    parts += [f"outputs={len(spec.outputs)}"] if len(spec.outputs) > 1 else []
    parts += [f"residuals={layout.keeps}"] if layout.keeps else []
    return ", ".join(parts)


def is_nonlinear(layout: Layout) -> bool:
    """Whether some gradient is overridden by a rule that is not linear in the cotangent."""
    return any(o.transposed is None for v in layout.variants for o in v.overrides.values())


def surrogate(layout: Layout) -> list[str]:
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
    count = len(layout.outputs)
    shown = "" if not layout.keeps else "[0]" if count == 1 else f"[:{count}]"
    symbols = layout.symbols()
    fixed = {layout.symbol(t): name for t, name in held.items()}
    live = {tangent(t.name): layout.arguments[t.name] for t in layout.spec.tensors}
    known = {**symbols, **fixed, **live}

    def leaf(variant: Variant) -> list[str]:
        surrogates = []
        for output in layout.spec.outputs:
            terms = [
                (o.transposed or {})[output.name]
                for o in variant.overrides.values()
                if output.name in (o.transposed or {})
            ]
            rest = [t for t in layout.differentiable if (output.name, t) in variant.gradients]
            if terms and not rest and len(layout.spec.outputs) == 1:
                result = f"return rt.straight_through({forward}({call}){shown}, {{value}})"
                return statements([Target("", ex.add(*terms), template=result)], Scope(names, known), layout.constants)
            texts = [Printer(known, layout.constants)(e) for e in machine(terms)]
            if rest:
                arguments = [
                    layout.arguments[a] if a in rest or a not in held else held[a] for a in layout.argument_names
                ]
                value = f"{forward}({', '.join(arguments)}){shown}"
                index = layout.spec.outputs.index(output)
                texts.append(value if len(layout.spec.outputs) == 1 else f"{value}[{index}]")
            surrogates.append(" + ".join(texts))
        if len(surrogates) == 1:
            value = f"{forward}({call}){shown}"
            return [
                f"return rt.straight_through({value}, {surrogates[0]})" if surrogates[0] else f"return {value}.detach()"
            ]
        pairs = [
            f"rt.straight_through(values[{k}], {s})" if s else f"values[{k}].detach()" for k, s in enumerate(surrogates)
        ]
        return [f"values = {forward}({call}){shown}", f"return {', '.join(pairs)}"]

    body = branches(layout.operation.body, leaf, Printer(symbols, layout.constants))
    used = [(t, h) for t, h in zip(tensors, held.values(), strict=True) if any(h in line for line in body)]
    optional = {layout.arguments[t.name] for t in layout.spec.tensors if t.default is not None}
    fixing = [f"{h} = {f'None if {t} is None else ' if t in optional else ''}{t}.detach()" for t, h in used]
    return [*fixing, *body]


def inplace(layout: Layout) -> dict[str, Any] | None:
    """The parts of the in-place Function, where no derivative reads the tensor that is overwritten.

    It serves reverse mode. The others copy the result over the tensor: a tangent cannot always be written over.
    """
    tensor = layout.spec.options.inplace
    if tensor is None or reads_overwritten(layout):
        return None
    output = next(iter(layout.outputs.values()))
    return {
        "tensor": layout.arguments[tensor],
        "call": written_over(layout) or _copied_over(layout),
        "setup": [f"{layout.class_name}Function.setup_context(ctx, inputs, {_with_nothing(output, layout.keeps)})"],
    }


def written_over(layout: Layout) -> str:
    """The formula as a method that overwrites the tensor; empty where it is none."""
    own = layout.symbol(layout.spec.options.inplace or "")
    if layout.widens or len(layout.variants) > 1:
        return ""
    (form,) = machine(list(layout.variants[0].outputs.values()))
    method = {"add": "add_", "sub": "sub_", "mul": "mul_", "div": "div_"}.get(form.op)
    operands = list(form.args)
    if method in ("add_", "mul_") and operands[1] is own:
        operands.reverse()
    if method is None or operands[0] is not own or own in operands[1].symbols:
        return ""
    printer = Printer(layout.symbols(), layout.constants)
    return f"{printer(own)}.{method}({printer(operands[1])})"


def _copied_over(layout: Layout) -> str:
    """The result of forward, copied over the tensor."""
    own = layout.arguments[layout.spec.options.inplace or ""]
    call = ", ".join(layout.arguments[a] for a in layout.argument_names)
    shown = "[0]" if layout.keeps else ""
    return f"rt.overwrite({own}, {layout.class_name}Function.forward({call}){shown})"


def reads_overwritten(layout: Layout) -> bool:
    """Whether backward needs the tensor that the in-place variant overwrites."""
    tensor = layout.spec.options.inplace
    assert tensor is not None
    own = layout.symbol(tensor)
    return any(own in s.value.symbols for v in layout.variants for s in v.plan.base if s.source != "output")


def _with_nothing(output: str, residuals: int) -> str:
    return f"({', '.join([output, *['None'] * residuals])})" if residuals else output
