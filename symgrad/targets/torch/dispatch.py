"""The ways into an operation: which Function serves which call, the form for compilers, and the in-place Function."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.accuracy.machine import machine
from symgrad.compiler.operation import Variant
from symgrad.differentiate.symbols import tangent
from symgrad.ir import expr as ex
from symgrad.lower.code import Code, code, constant, joined, name, tuple_of
from symgrad.lower.conditionals import branches
from symgrad.lower.program import Assign, Do, Program, Return, Statement, reads, returned
from symgrad.lower.schedule import Scope, Target, statements
from symgrad.spec.model import Hyperparameter, Tensor
from symgrad.targets.literals import quoted
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.printer import Printer


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
    if layout.spec.extern is not None:
        parts.append("extern=_extern_functions")
    if layout.spec.options.library:
        parts.append("exported=_operator")
    return ", ".join(parts)


def extern(layout: Layout) -> str:
    """The arguments of `_extern.Extern`, empty where the spec names no functions."""
    spec = layout.spec
    if spec.extern is None:
        return ""
    differentiable = set(layout.differentiable)
    places = tuple(k for k, t in enumerate(spec.tensors) if t.name in differentiable)
    named = [f"{key}={quoted(path)}" for key, path in spec.extern.named.items()]
    cotangents = tuple(k for k, o in enumerate(spec.outputs) if o.grad)
    if cotangents != (0,):
        named.insert(0, f"cotangents={cotangents!r}")
    return ", ".join([quoted(spec.op), str(len(spec.tensors)), repr(places), *named])


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


def surrogate(layout: Layout) -> Program:
    """The outputs with their gradients in a form that compilers cannot differentiate otherwise.

    The value comes from forward, detached; the derivative from a surrogate: each overridden tensor under its transposed
    rule, and the formula itself for the others, each with the rest held fixed.
    """
    if not layout.operation.is_linear or not any(v.overrides for v in layout.variants):
        return ()
    names = layout.names()
    held = {t.name: names.reserve(f"fixed_{layout.arguments[t.name]}") for t in layout.spec.tensors}
    value = shown_of(layout, [layout.arguments[a] for a in layout.argument_names])
    symbols = layout.symbols()
    fixed = {layout.symbol(t): name for t, name in held.items()}
    live = {tangent(t.name): layout.arguments[t.name] for t in layout.spec.tensors}
    known = {**symbols, **fixed, **live}

    def leaf(variant: Variant) -> Program:
        surrogates: list[list[Code]] = []
        for output in layout.spec.outputs:
            terms = [
                (o.transposed or {})[output.name]
                for o in variant.overrides.values()
                if output.name in (o.transposed or {})
            ]
            rest = [t for t in layout.differentiable if (output.name, t) in variant.gradients]
            if terms and not rest and len(layout.spec.outputs) == 1:

                def result(differentiated: Code) -> Statement:
                    return Return(_through(value, [differentiated]))

                return statements(
                    [Target("", ex.add(*terms), (), result)], Scope(names, dict(known)), layout.printing()
                )
            parts = [Printer(known, layout.constants)(e) for e in machine(terms)]
            if rest:
                own = shown_of(
                    layout,
                    [layout.arguments[a] if a in rest or a not in held else held[a] for a in layout.argument_names],
                )
                index = layout.spec.outputs.index(output)
                parts.append(own if len(layout.spec.outputs) == 1 else code("{0}[{1}]", own, index))
            surrogates.append(parts)
        if len(surrogates) == 1:
            return (returned([_through(value, surrogates[0])]),)
        outputs = [_through(code("values[{0}]", k), parts) for k, parts in enumerate(surrogates)]
        return (Assign("values", value), returned(outputs))

    body = branches(layout.operation.body, leaf, Printer(symbols, layout.constants))
    read = reads(body)
    fixing = [
        Assign(held[t.name], code(_FIXED if t.default is None else _FIXED_IF_THERE, layout.arguments[t.name]))
        for t in layout.spec.tensors
        if held[t.name] in read
    ]
    return (*fixing, *body)


_FIXED, _FIXED_IF_THERE = "{0}.detach()", "None if {0} is None else {0}.detach()"


def _through(value: Code, parts: Sequence[Code]) -> Code:
    """A value with the derivative of a sum, or with none."""
    return code("rt.straight_through({0}, {1})", value, joined("+", parts)) if parts else code("{0}.detach()", value)


def shown_of(layout: Layout, arguments: Sequence[str]) -> Code:
    """A call of forward without the residuals that follow the outputs."""
    call = code(f"{layout.class_name}Function.forward({{0}})", arguments)
    if not layout.keeps:
        return call
    count = len(layout.outputs)
    return code("{0}[0]", call) if count == 1 else code("{0}[:{1}]", call, count)


def inplace(layout: Layout) -> dict[str, Program] | None:
    """The methods of the in-place Function, where no derivative reads the tensor that is overwritten.

    It serves reverse mode. The others copy the result over the tensor: a tangent cannot always be written over.
    """
    tensor = layout.spec.options.inplace
    if tensor is None or reads_overwritten(layout):
        return None
    output = next(iter(layout.outputs.values()))
    results = tuple_of([output, *[constant(None)] * layout.keeps]) if layout.keeps else name(output)
    return {
        "forward": (Return(written_over(layout) or _copied_over(layout)),),
        "setup": (
            Do(code("ctx.mark_dirty({0})", output)),
            Do(code(f"{layout.class_name}Function.setup_context(ctx, inputs, {{0}})", results)),
        ),
    }


def written_over(layout: Layout) -> Code | None:
    """The formula as a method that overwrites the tensor; None where it is none."""
    own = layout.symbol(layout.spec.options.inplace or "")
    if layout.widens or len(layout.variants) > 1:
        return None
    (form,) = machine(list(layout.variants[0].outputs.values()))
    method = {"add": "add_", "sub": "sub_", "mul": "mul_", "div": "div_"}.get(form.op)
    operands = list(form.args)
    if method in ("add_", "mul_") and operands[1] is own:
        operands.reverse()
    if method is None or operands[0] is not own or own in operands[1].symbols:
        return None
    printer = Printer(layout.symbols(), layout.constants)
    return code(f"{{0}}.{method}({{1}})", printer(own), printer(operands[1]))


def _copied_over(layout: Layout) -> Code:
    """The result of forward, copied over the tensor."""
    own = layout.arguments[layout.spec.options.inplace or ""]
    value = shown_of(layout, [layout.arguments[a] for a in layout.argument_names])
    return code("rt.overwrite({0}, {1})", own, value)


def reads_overwritten(layout: Layout) -> bool:
    """Whether backward needs the tensor that the in-place variant overwrites."""
    tensor = layout.spec.options.inplace
    assert tensor is not None
    own = layout.symbol(tensor)
    return any(own in s.value.symbols for v in layout.variants for s in v.plan.base if s.source != "output")
