"""From a parsed spec to an operation: its branches taken apart, and each variant compiled."""

from __future__ import annotations

from functools import partial

from symgrad.accuracy.cost import total
from symgrad.compiler.operation import Operation, leaves, map_leaves
from symgrad.compiler.pivoted import through_pivots
from symgrad.compiler.variant import compile_variant
from symgrad.compiler.workbench import Memory
from symgrad.ir.branches import absent, split
from symgrad.ir.expr import Expr
from symgrad.ops.tensors.shapes import Extent, extent
from symgrad.parse import Program
from symgrad.parse.absence import whether_given
from symgrad.plan.pivot import find_pivots, with_outputs
from symgrad.plan.saving import readable


def compile_operation(program: Program) -> Operation:
    """Differentiate, stabilise and plan a parsed spec."""
    plain = _compile(program)
    if program.spec.options.kernels:  # computing again what is in a register costs no pass over memory
        return plain
    saved = {s.value.name for _, v in plain.variants() for s in v.plan.base if s.source == "input"}
    pivots = find_pivots(program, saved)
    if pivots is None:
        return plain
    inner = _compile(pivots.inner)
    extended = with_outputs(program, pivots)
    keeping = Operation(extended, map_leaves(inner.body, partial(through_pivots, extended, pivots, True)))
    through = Operation(
        program, map_leaves(inner.body, partial(through_pivots, program, pivots, False)), keeping, plain.memory
    )
    if _shapes(through) != _shapes(plain):  # of what is absent, these were known by the operands of the sums
        return plain
    if _bytes(keeping) >= _bytes(plain) or not (_serves_jvp(keeping) and _serves_jvp(through)):
        return plain
    return through


def _serves_jvp(operation: Operation) -> bool:
    """Whether jvp can read what backward has saved: in a tangent the sum may have merged with other terms."""
    return all(
        readable(frozenset(s.value for s in v.plan.base), list(v.tangents.values())) for _, v in operation.variants()
    )


def _shapes(operation: Operation) -> list[Extent]:
    """What is known of the shapes of the outputs, in all variants."""
    return [extent(formula) for _, variant in operation.variants() for formula in variant.formulas.values()]


def _bytes(operation: Operation) -> float:
    return total(variant.plan.bytes for _, variant in operation.variants())


def _compile(program: Program) -> Operation:
    spec = program.spec
    roots: dict[str, Expr] = {**program.outputs, **{f"grad of {t}": g for t, g in program.gradients.items()}}
    for tensor, value in program.optional.items():
        roots = {n: whether_given(r, tensor, value, program.given) for n, r in roots.items()}
    texts = [h for h in spec.hyperparameters if h.type == "str"]
    choices = {program.symbols[h.name]: tuple(map(str, h.choices or ())) for h in texts}
    tree = split(roots, choices, {absent(tensor.name) for tensor in program.optional})
    memory = Memory()
    body = map_leaves(tree, partial(compile_variant, program, memory, True))
    if any(v.wide_values or v.wide_slopes for v in leaves(body)) and any(v.plan.extras for v in leaves(body)):
        body = map_leaves(tree, partial(compile_variant, program, memory, False))  # all are computed alike
    return Operation(program, body, memory=memory)
