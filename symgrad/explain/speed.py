"""Where backward is estimated slower than the composite's, why, and what helps: by costs, not by the clock."""

from __future__ import annotations

from collections.abc import Iterator

from symgrad.accuracy.cost import is_product
from symgrad.compiler.operation import Operation, Variant
from symgrad.differentiate.modes import vjp
from symgrad.differentiate.symbols import cotangent
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import is_index
from symgrad.plan.composite import backward_cost
from symgrad.plan.saving import remaining_cost

__all__ = ["slow"]

_SLOW = 1.3  # times the composite's backward
_WIDE = 3  # times what a pass in float32 takes
_PACKING = 6  # passes for each value: 4 million numbers in eight bits beside an addition
_UNSEEN = 2.0  # passes that nobody sees beside a product


def slow(operation: Operation, *, fuses: bool = True) -> Iterator[str]:
    """A line for each variant whose eager backward is estimated slower, or for what is packed; none where passes serve.

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
        if variant.overrides or not composite or own <= _SLOW * composite:
            continue
        multiplies = any(map(is_product, topological(*variant.formulas.values())))
        if multiplies and more <= _UNSEEN:
            continue
        which = f"backward [{', '.join(path)}]" if path else "backward"
        beside = " beside the products" if multiplies else ""
        told = f"{own:.1f} passes over memory{beside} where the composite's takes {composite:.1f}"
        yield f"{which} is estimated at {told}: {_why(variant, spec.options.save, more, fuses)}"


def _costs(operation: Operation, variant: Variant) -> tuple[float, float]:
    """What our backward and the composite's cost beside what both do alike, unless ours repeats a product.

    The composite's is what the gradients of the formulas as written cost with all of forward at hand, in the measure of
    our own; the planner's figure is a lower bound of it.
    """
    program, repeats = operation.program, variant.plan.repeated > 0
    formulas = [variant.formulas[o.name] for o in program.spec.outputs if o.grad]
    seeds = {variant.formulas[o.name]: cotangent(o.name) for o in program.spec.outputs if o.grad}
    symbols = [program.symbols[t.name] for t in program.spec.tensors if t.grad and t.dtype == "float"]
    derived = list(vjp(seeds, symbols).values())
    at_hand = frozenset(n for n in topological(*formulas) if n.args)
    operands = {n.args for n in at_hand}
    at_hand |= {n for n in topological(*derived) if is_index(n) and n.args in operands}  # a sort gives both
    saved = frozenset(s.value for s in variant.plan.saved)
    own = remaining_cost(variant.accumulated.forms, saved, everything=repeats)
    written = remaining_cost(derived, at_hand, everything=repeats)
    composite = max(backward_cost(formulas, program.fixed, products=repeats), written)
    return own * (_WIDE if variant.wide_slopes else 1), composite


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
