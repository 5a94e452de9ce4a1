"""Where backward is estimated slower than the composite's, why, and what helps: by costs, not by the clock."""

from __future__ import annotations

from collections.abc import Iterator

from symgrad.compiler.operation import Operation, Variant
from symgrad.differentiate.modes import vjp
from symgrad.differentiate.symbols import cotangent
from symgrad.ir.traversal import topological
from symgrad.plan.saving import remaining_cost

__all__ = ["slow"]

_SLOW = 1.3  # times the composite's backward
_WIDE = 2  # times what a pass in float32 takes


def slow(operation: Operation, *, fuses: bool = True) -> Iterator[str]:
    """A line for each variant whose eager backward is estimated slower; none where passes serve it, or bytes matter.

    Passes are recommended where it `fuses`, as far as that is known.
    """
    spec = operation.program.spec
    if spec.options.fused or spec.options.packed:
        return
    for path, variant in operation.variants():
        own, composite = variant.plan.cost, _composite_cost(operation, variant)
        own *= _WIDE if variant.wide_slopes else 1
        if variant.overrides or not composite or own <= _SLOW * composite:
            continue
        which = f"backward [{', '.join(path)}]" if path else "backward"
        told = f"{own:.1f} passes over memory where the composite's takes {composite:.1f}"
        yield f"{which} is estimated at {told}: {_why(variant, spec.options.save, own - composite, fuses)}"


def _composite_cost(operation: Operation, variant: Variant) -> float:
    """What the gradients of the formulas as written cost with all of forward at hand, in the measure of our own.

    The planner's figure for the composite is a lower bound of it.
    """
    program = operation.program
    formulas = [variant.formulas[o.name] for o in program.spec.outputs if o.grad]
    seeds = {variant.formulas[o.name]: cotangent(o.name) for o in program.spec.outputs if o.grad}
    symbols = [program.symbols[t.name] for t in program.spec.tensors if t.grad and t.dtype == "float"]
    gradients = list(vjp(seeds, symbols).values())
    at_hand = frozenset(n for n in topological(*formulas) if n.args)
    return max(variant.plan.composite_cost, remaining_cost(gradients, at_hand))


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
