"""Sums of products inside or outside of what their terms have in common: g * (a + b), or g * a + g * b, as is cheaper.

A product summed to a tensor's shape has in common with others what broadcasts from that tensor alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological
from symgrad.ops.tensors.extent import extent
from symgrad.ops.tensors.shapes import same_shape, shape_sources

Estimate = Callable[[list[Expr]], float]

_MOST_TERMS = 8  # of a sum that is looked at


def distribute_cotangents(gradients: list[Expr], estimate: Estimate) -> list[Expr]:
    """The gradients, each with its common factors inside or outside of the sum they multiply, as is cheaper in all.

    What is estimated are a gradient and those that have an operation in common with it: the others cost what they do.
    """
    best, inside = list(gradients), [_operations(g) for g in gradients]
    for i in range(len(best)):
        pending = [*_other_forms(best[i])]
        while pending:
            other = pending.pop(0)
            own = inside[i] | _operations(other)
            near = [k for k, theirs in enumerate(inside) if k == i or not own.isdisjoint(theirs)]
            price = estimate([other if k == i else best[k] for k in near])
            if price < estimate([best[k] for k in near]):
                best[i], inside[i] = other, own
                pending = [*_collected(other)]
    return best


def _other_forms(gradient: Expr) -> Iterator[Expr]:
    distributed = _distributed(gradient)
    if distributed is not gradient:
        yield distributed
    yield from _collected(gradient)


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


def _collected(gradient: Expr) -> Iterator[Expr]:
    """What some terms have in common, of the gradient's own shape, outside of their sum, which may be a factor."""
    if gradient.op == "mul":
        sums = [f for f in gradient.args if f.op == "add" and not f.is_static]
        for total in sums if len(sums) == 1 else ():
            others = [f for f in gradient.args if f is not total]
            yield from (ex.mul(*others, collected) for collected in _collected(total))
    if gradient.op != "add" or len(gradient.args) > _MOST_TERMS:
        return
    terms = [_Term.of(t) for t in gradient.args]
    shared = list(dict.fromkeys(b for t in terms for b in t.powers))
    for members in dict.fromkeys(frozenset(t for t in terms if base in t.powers) for base in shared):
        if len(members) < 2:
            continue
        least = {b: min(t.powers.get(b, Fraction(0)) for t in members) for b in shared}
        common = {b: n for b, n in least.items() if n}
        inside = ex.add(*(t.without(common) for t in terms if t in members))
        rest = [own for own, t in zip(gradient.args, terms, strict=True) if t not in members]
        result = ex.add(ex.mul(*(ex.power(b, n) for b, n in common.items()), inside), *rest)
        if same_shape(shape_sources(result), gradient):
            yield result
    for k, term in enumerate(gradient.args):
        rest = [*gradient.args[:k], *gradient.args[k + 1 :]]
        yield from (ex.add(own, *rest) for own in _collected(term) if term.op == "mul")


def _is_common(base: Expr, like: Expr | None) -> bool:
    """Whether a factor may stand outside of sums to a shape: it has that shape; a cotangent's sources do not tell."""
    if like is None:
        return True
    own = extent(base)
    if any(s.is_differential for s in base.symbols):
        return own.exact and own == extent(like)
    return shape_sources(base) == shape_sources(like)


@dataclass(frozen=True, eq=False)
class _Term:
    """A product, perhaps summed to the shape of `like`: the whole positive powers of those factors that may stand
    outside of that sum, and the others."""

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
            if factor.is_static or n is None or n.denominator != 1 or n < 0 or not _is_common(base, like):
                others.append(factor)
            else:
                powers[base] = n
        return _Term(powers, tuple(others), like)

    def without(self, common: Mapping[Expr, Fraction]) -> Expr:
        """The term divided by common powers; what is left may be smaller than what it was summed to."""
        left = (ex.power(base, n - common.get(base, 0)) for base, n in self.powers.items())
        rest = ex.mul(*left, *self.others)
        return rest if self.like is None else make("conform", rest, self.like)
