"""What is kept where only one gradient is wanted: no more than the composite keeps then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from symgrad.accuracy.cost import is_product, total
from symgrad.analysis.sizes import Sizes
from symgrad.ir.expr import Expr
from symgrad.plan.composite import composite_bytes
from symgrad.plan.reading import read_by, remaining_cost
from symgrad.plan.saving import Plan, Saved, bytes_beside


def spared(
    plan: Plan,
    formulas: Mapping[str, Expr],
    gradients: Mapping[Expr, Sequence[Expr]],
    fixed: frozenset[Expr],
) -> Plan:
    """The plan with the gradients, named by their tensors, for which alone an intermediate is not worth its bytes.

    `gradients` are all formulas of the gradient of each tensor, `fixed` the tensors that are never differentiated.

    An intermediate is kept for all gradients that read it. If one of them is wanted alone and the composite keeps less
    for it, in all as well as beside inputs and outputs, those that are cheapest to compute again are not kept for it,
    as far as no product or the like is repeated.
    """
    sizes = Sizes.of(formulas.values())
    readers = {e: {t for t, own in gradients.items() if e.value in _read(own, plan.saved)} for e in plan.extras}
    without: dict[Saved, set[Expr]] = {e: set() for e in plan.extras}
    for tensor, own in gradients.items() if plan.extras else ():
        theirs = composite_bytes(formulas.values(), fixed | gradients.keys() - {tensor}, sizes)
        base = [s for s in plan.base if s.value in _read(own, plan.base)]
        kept = [e for e in plan.extras if tensor in readers[e] and e.packing is None]
        while _is_more([*base, *kept], theirs):
            left = {e: frozenset(s.value for s in (*base, *kept) if s is not e) for e in kept}
            others = [e for e in kept if readers[e] - without[e] > {tensor} and not _multiplies(e.value, left[e])]
            if not others:
                break
            cheapest = min(others, key=lambda e: remaining_cost(own, left[e], sizes))
            kept.remove(cheapest)
            without[cheapest].add(tensor)
    names = {e: frozenset(t.name for t in tensors) for e, tensors in without.items()}
    return replace(plan, saved=tuple(replace(s, without=names[s]) if names.get(s) else s for s in plan.saved))


def _multiplies(value: Expr, kept: frozenset[Expr]) -> bool:
    """Whether a value takes a product, a convolution or the like to compute from those that are kept."""
    return any(is_product(n) for n in read_by([value], kept) if n not in kept)


def _read(gradients: Sequence[Expr], saved: Iterable[Saved]) -> set[Expr]:
    return read_by(gradients, frozenset(s.value for s in saved))


def _is_more(kept: Sequence[Saved], theirs: tuple[float, float]) -> bool:
    """Whether values take more bytes, counted in either way."""
    return total(s.bytes for s in kept) > theirs[0] and bytes_beside(kept) > theirs[1]
