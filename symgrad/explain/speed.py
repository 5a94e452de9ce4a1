"""Where eager calls are estimated slower than the composite's, why, and what helps: by costs, not by the clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symgrad.accuracy.cost import is_product
from symgrad.compiler.operation import Operation, Variant
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.plan.composite import backward_cost
from symgrad.plan.reading import remaining_cost

__all__ = ["slow"]

_SLOW = 1.25  # times the composite's forward and backward
_WIDE = 3  # times what a pass in float32 takes
_PACKING = 6  # passes for each value: 4 million numbers in eight bits beside an addition
_LEAST = 1.0  # passes that are worth a line
_UNSEEN = 2.0  # passes that nobody sees beside a product


def slow(operation: Operation, *, fuses: bool = True) -> Iterator[str]:
    """A line for each variant that is estimated slower in eager operations, forward and backward together, or for what
    is packed; none where passes serve.

    Passes are recommended where it `fuses`, as far as that is known.
    """
    spec = operation.program.spec
    if spec.options.packed:
        names = ", ".join(p.name for p in spec.options.packed)
        passes = f"takes about {_PACKING} passes over memory in forward, and as many in backward"
        yield f"packing {names} {passes}: it spares bytes, not time"
    if spec.options.fused or spec.options.packed:
        return
    for path, variant in operation.variants():
        own, composite = _costs(operation, variant)
        more = own - composite
        if variant.overrides or own <= _SLOW * composite:
            continue
        multiplies = any(map(is_product, topological(*variant.formulas.values())))
        if more <= (_UNSEEN if multiplies else _LEAST):
            continue
        which = f"where {' and '.join(path)}, it is estimated at" if path else "it is estimated at"
        beside = " beside the products" if multiplies else ""
        told = f"{own:.1f} passes over memory{beside}, forward and backward, where the composite takes {composite:.1f}"
        yield f"{which} {told}: {_why(variant, spec.options.save, more, fuses)}"


def _costs(operation: Operation, variant: Variant) -> tuple[float, float]:
    """What forward and backward cost, ours and the composite's, beside what both do alike, unless ours repeats a
    product."""
    program, repeats = operation.program, variant.plan.repeated > 0
    formulas = [variant.formulas[o.name] for o in program.spec.outputs if o.grad]
    saved = frozenset(s.value for s in variant.plan.saved)
    backward = remaining_cost(variant.accumulated.forms, saved, everything=repeats)
    own = _forward([*variant.outputs.values()]) * (_WIDE if variant.wide_values else 1)
    own += backward * (_WIDE if variant.wide_slopes else 1)
    return own, _forward([*variant.formulas.values()]) + backward_cost(formulas, program.fixed, products=repeats)


def _forward(values: Sequence[Expr]) -> float:
    return remaining_cost(values, frozenset(), everything=False)


def _why(variant: Variant, save: str, more: float, fuses: bool) -> str:
    """What most of the difference is spent on, and the cure."""
    cure = "which a narrower `domain` or `options: {precision: fast}` may spare"
    wide = [f"d{y}/d{x}" for (y, x), c in variant.slope_choices.items() if c.chosen.wide]
    if wide:
        return f"{wide[0]} is computed in float64, {cure}"
    dearer = {f"d{y}/d{x}": c.chosen.cost - c.candidates[0].cost for (y, x), c in variant.slope_choices.items()}
    worst = max(dearer, key=dearer.__getitem__, default="")
    if worst and dearer[worst] > more / 2:
        return f"the accurate form of {worst} costs {dearer[worst]:.1f} more, {cure}"
    if save == "memory":
        return "it computes again what autograd keeps; `options: {save: speed}` keeps more"
    again = "it computes again what autograd keeps"
    return f"{again}; `options: {{kernels: all}}` makes it one pass" if fuses else again
