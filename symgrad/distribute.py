"""Cotangents inside or outside of the sums that they multiply: g * (a + b), or g * a + g * b, as is cheaper."""

from __future__ import annotations

from collections.abc import Callable

from symgrad import expr as ex
from symgrad.expr import Expr, make

Estimate = Callable[[list[Expr]], float]


def distribute_cotangents(gradients: list[Expr], estimate: Estimate) -> list[Expr]:
    """The gradients, each with its cotangent inside or outside of the sum it multiplies, as is cheaper in all."""
    best = list(gradients)
    spent = estimate(best)
    for i, gradient in enumerate(best):
        inside = _distributed(gradient)
        if inside is not gradient:
            candidate = [*best[:i], inside, *best[i + 1 :]]
            price = estimate(candidate)
            if price < spent:
                best, spent = candidate, price
    return best


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
