"""Sums of products inside or outside of what their terms have in common: g * (a + b), or g * a + g * b, as is cheaper.

A product summed to a tensor's shape has in common with others what broadcasts from that tensor alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological
from symgrad.ops.tensors.shapes import same_shape, shape_sources

Estimate = Callable[[list[Expr]], float]


def distribute_cotangents(gradients: list[Expr], estimate: Estimate) -> list[Expr]:
    """The gradients, each with its common factors inside or outside of the sum they multiply, as is cheaper in all.

    What is estimated are a gradient and those that have an operation in common with it: the others cost what they do.
    """
    best, inside = list(gradients), [_operations(g) for g in gradients]
    for i, gradient in enumerate(best):
        for other in (_distributed(gradient), _collected(gradient)):
            if other is not gradient:
                own = inside[i] | _operations(other)
                near = [k for k, theirs in enumerate(inside) if k == i or not own.isdisjoint(theirs)]
                price = estimate([other if k == i else best[k] for k in near])
                if price < estimate([best[k] for k in near]):
                    best[i], inside[i] = other, own
    return best


def _operations(root: Expr) -> set[Expr]:
    return {n for n in topological(root) if n.args and not n.is_static}


def _distributed(gradient: Expr) -> Expr:
    if gradient.op == "sum_to":
        return make("sum_to", _distributed(gradient.args[0]), gradient.args[1])
    if gradient.op != "mul":
        return gradient
    sums = [f for f in gradient.args if f.op == "add" and not f.is_static]
    if len(sums) != 1:
        return gradient
    others = [f for f in gradient.args if f is not sums[0]]
    return ex.add(*(ex.mul(term, *others) for term in sums[0].args))


def _collected(gradient: Expr) -> Expr:
    """What two terms have in common, of the gradient's own shape, outside of their sum."""
    if gradient.op != "add" or len(gradient.args) != 2:
        return gradient
    terms = [_Term.of(t) for t in gradient.args]
    like = next((t.like for t in terms if t.like is not None), None)
    first, second = (t.powers for t in terms)
    common = {
        base: min(first[base], second[base])
        for base in first
        if base in second and (like is None or shape_sources(base) == shape_sources(like))
    }
    if not common:
        return gradient
    outside = ex.mul(*(ex.power(base, n) for base, n in common.items()))
    result = ex.mul(outside, ex.add(*(t.without(common) for t in terms)))
    return result if same_shape(shape_sources(result), gradient) else gradient


@dataclass(frozen=True)
class _Term:
    """A product, perhaps summed to the shape of `like`: the whole positive powers of its factors, and the others."""

    powers: Mapping[Expr, Fraction]
    others: tuple[Expr, ...]
    like: Expr | None

    @staticmethod
    def of(term: Expr) -> _Term:
        """The factors of a term."""
        product, like = term.args if term.op == "sum_to" else (term, None)
        powers: dict[Expr, Fraction] = {}
        others: list[Expr] = []
        for factor in product.factors:
            base, exponent = ex.split_power(factor)
            n = exponent.number
            if factor.is_static or n is None or n.denominator != 1 or n < 0:
                others.append(factor)
            else:
                powers[base] = n
        return _Term(powers, tuple(others), like)

    def without(self, common: Mapping[Expr, Fraction]) -> Expr:
        """The term divided by common powers; what is left may be smaller than what it was summed to."""
        left = (ex.power(base, n - common.get(base, 0)) for base, n in self.powers.items())
        rest = ex.mul(*left, *self.others)
        return rest if self.like is None else make("conform", rest, self.like)
