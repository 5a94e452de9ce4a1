"""Transformations of sums in which terms cancel exactly, though they are not written alike."""

from __future__ import annotations

import mpmath as mp

from symgrad.accuracy.evaluate import exact
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.rules.rule import Transformation

__all__ = ["CLAMP_COMPLEMENT", "EQUAL_CONSTANTS", "OPENED_SUM"]

_BITS = 600


def opened_sum(node: Expr) -> Expr | None:
    """a - (a - b) as b: a sum inside a sum is opened where terms of the two cancel."""
    for term in node.args:
        coefficient, inner = ex.split_coefficient(term)
        if inner.op == "add":
            others = [t for t in node.args if t is not term]
            opened = ex.add(*others, *(ex.mul(coefficient, t) for t in inner.args))
            if len(opened.terms) <= len(others) + len(inner.args) - 2:
                return opened
    return None


def clamp_complement(node: Expr) -> Expr | None:
    """1 - clamp(a, b, 1 - c) as clamp(1 - a, c, 1 - b): a bound that was rounded would cancel."""
    numbers = [t for t in node.args if t.is_static]
    for term in node.args:
        coefficient, inner = ex.split_coefficient(term)
        if numbers and coefficient == -1 and inner.op == "clamp":
            number, (x, *bounds) = ex.add(*numbers), inner.args
            least, most = (
                -b if b in (ex.OO, -ex.OO) else ex.add(number, *(-t for t in b.terms)) for b in reversed(bounds)
            )
            if any(own.size < b.size for own, b in zip((most, least), bounds, strict=True) if not b.number):
                others = (t for t in node.args if t is not term and not t.is_static)
                return ex.add(make("clamp", number - x, least, most), *others)
    return None


def equal_constants(node: Expr) -> Expr | None:
    """sqrt(2/pi)*x - 2*sqrt(1/(2*pi))*x as 0: multiples of one value whose constants are equal in another spelling."""
    multiples: dict[Expr, list[tuple[Expr, Expr]]] = {}
    for term in node.args:
        factors = term.factors
        constants = [f for f in factors if not f.symbols]
        rest = ex.mul(*(f for f in factors if f.symbols))
        multiples.setdefault(rest, []).append((term, ex.mul(*constants)))
    kept = [term for own in multiples.values() if not _vanishes([c for _, c in own]) for term, _ in own]
    return None if len(kept) == len(node.args) else ex.add(*kept)


def _vanishes(constants: list[Expr]) -> bool:
    if len(constants) < 2 or all(c.number is not None for c in constants):
        return False
    values = exact(constants, {}, _BITS)
    with mp.workprec(_BITS):
        return all(map(mp.isfinite, values)) and bool(
            abs(mp.fsum(values)) <= max(map(abs, values)) * mp.mpf(2) ** -(_BITS // 2)
        )


OPENED_SUM = Transformation("opened-sum", "add", opened_sum, "equal terms cancel")
CLAMP_COMPLEMENT = Transformation("clamp-complement", "add", clamp_complement, "a rounded bound cancels")
EQUAL_CONSTANTS = Transformation("equal-constants", "add", equal_constants, "equal terms cancel")
