"""Formulas that are rational in one exponential: of exp(k*t), sigmoid(t), tanh(softplus(t)) and the like.

Such a formula is a quotient of polynomials in e = exp(t). Cancelled, it needs one exponential where the atoms need one
each, and it loses no digits where all coefficients are positive. Where e would overflow, the quotient has reached its
limit: t is bounded there. The forms are candidates; what they are worth is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

from symgrad.accuracy import polynomial as poly
from symgrad.accuracy.polynomial import UNIT, VARIABLE, Polynomial
from symgrad.ir import expr as ex
from symgrad.ir.expr import ONE, Expr, make
from symgrad.ir.traversal import substitute, topological
from symgrad.rules.algebra import common_factor

__all__ = ["rational_forms"]

_BOUNDS = (20, 40)  # of t: exp(-2*20) and exp(-40) vanish beside 1 in float64
_VANISHED = 1000  # of -t: exp(-1000) is 0 in every format, and no multiple of t beside it overflows
_MOST_DEGREE = 12
_MOST_TERMS = 8
_ATOMS = {"exp": 1, "expm1": 1, "sigmoid": 1, "tanh": 2, "cosh": 1, "sinh": 1}  # exp of how many times the argument


class _Refused(Exception):
    """The formula is not rational in the exponential, or too large."""


@dataclass(frozen=True)
class _Fraction:
    """The sum of `over` (polynomials by what they are multiplied with) divided by the factors `under`."""

    over: dict[Expr, Polynomial]
    under: dict[Polynomial, int]

    def __add__(self, other: _Fraction) -> _Fraction:
        under = {d: max(self.under.get(d, 0), other.under.get(d, 0)) for d in (*self.under, *other.under)}
        over: dict[Expr, Polynomial] = {}
        for term in (self, other):
            missing = _product({d: n - term.under.get(d, 0) for d, n in under.items()})
            for own, p in term.over.items():
                over[own] = poly.add(over.get(own, ()), poly.mul(p, missing))
        return _checked(over, under)

    def __mul__(self, other: _Fraction) -> _Fraction:
        over: dict[Expr, Polynomial] = {}
        for a, p in self.over.items():
            for b, q in other.over.items():
                scale, own = ex.split_coefficient(ex.mul(a, b))
                over[own] = poly.add(over.get(own, ()), poly.mul((scale,), poly.mul(p, q)))
        under = dict(self.under)
        for d, n in other.under.items():
            under[d] = under.get(d, 0) + n
        return _checked(over, under)

    def inverse(self) -> _Fraction:
        """One divided by this, which must be a single term."""
        if len(self.over) != 1:
            raise _Refused
        ((own, p),) = self.over.items()
        scale, found = poly.factors(p)
        numerator = poly.mul((1 / scale,), _product(self.under))
        return _checked({ex.power(own, -1): numerator}, found)


def _product(factors: dict[Polynomial, int]) -> Polynomial:
    result = UNIT
    for d, n in factors.items():
        result = poly.mul(result, poly.power(d, n))
    return result


def _checked(over: dict[Expr, Polynomial], under: dict[Polynomial, int]) -> _Fraction:
    """The fraction with common factors cancelled."""
    over = {own: p for own, p in over.items() if p}
    if len(over) > _MOST_TERMS or any(len(p) > _MOST_DEGREE for p in over.values()):
        raise _Refused
    left: dict[Polynomial, int] = {}
    for d, n in under.items():
        while n and over:
            quotients = {own: poly.divided(p, d) for own, p in over.items()}
            if any(q is None for q in quotients.values()):
                break
            over, n = {own: q for own, q in quotients.items() if q is not None}, n - 1
        if n:
            left[d] = n
    return _Fraction(over, left)


# ------------------------------------------------------------------------------------------------ reading
def _terms(node: Expr) -> list[tuple[Fraction, Expr]]:
    return [ex.split_coefficient(t) for t in node.terms]


def _exponent(formula: Expr) -> Expr | None:
    """The t of which all exponentials of a formula are integer powers of exp(t); None where there is no such t."""
    multiples: dict[Expr, list[Fraction]] = {}
    for node in topological(formula):
        if node.op in _ATOMS:
            for c, rest in _terms(node.args[0]):
                inner = _terms(rest.args[0]) if rest.op == "softplus" else [(c * _ATOMS[node.op], rest)]
                for k, base in inner:
                    multiples.setdefault(base, []).append(k)
    if len(multiples) != 1:
        return None
    ((base, factors),) = multiples.items()
    if base.is_static:
        return None
    unit = Fraction(gcd(*(f.numerator for f in factors)), lcm(*(f.denominator for f in factors)))
    return ex.mul(unit, base)


class _Reader:
    """Reads formulas as fractions in exp(t)."""

    def __init__(self, t: Expr) -> None:
        self.t = t
        self.found: dict[Expr, _Fraction] = {}

    def __call__(self, root: Expr) -> _Fraction:
        for node in topological(root):
            self.found[node] = self._read(node)
        return self.found[root]

    def _read(self, node: Expr) -> _Fraction:
        if node.number is not None:
            return _Fraction({ONE: (node.number,)} if node.number else {}, {})
        if node.op in _ATOMS:
            return self._atom(node)
        if node.op in ("add", "mul"):
            total = self.found[node.args[0]]
            for argument in node.args[1:]:
                total = total + self.found[argument] if node.op == "add" else total * self.found[argument]
            return total
        if node.op == "pow" and (n := node.args[1].number) is not None and n.denominator == 1 and abs(n) <= 4:
            base = self.found[node.args[0]]
            if base.over.keys() != {node.args[0]}:
                base = base.inverse() if n < 0 else base
                total = base
                for _ in range(abs(int(n)) - 1):
                    total = total * base
                return total
        return _Fraction({node: UNIT}, {})

    def _atom(self, node: Expr) -> _Fraction:
        value = self._exponential(ex.mul(_ATOMS[node.op], node.args[0]))
        one = _Fraction({ONE: UNIT}, {})
        minus, half = (_Fraction({ONE: (c,)}, {}) for c in (Fraction(-1), Fraction(1, 2)))
        if node.op == "sigmoid":
            return value * (one + value).inverse()
        if node.op == "tanh":
            return (value + minus) * (one + value).inverse()
        if node.op in ("cosh", "sinh"):
            return half * (value + (one if node.op == "cosh" else minus) * value.inverse())
        return value + minus if node.op == "expm1" else value

    def _exponential(self, argument: Expr) -> _Fraction:
        result = _Fraction({ONE: UNIT}, {})
        for c, rest in _terms(argument):
            if rest.op == "softplus":
                base, n = _Fraction({ONE: UNIT}, {}) + self._exponential(rest.args[0]), c
            else:
                base, n = _Fraction({ONE: VARIABLE}, {}), self._multiple(ex.mul(c, rest))
            if n.denominator != 1 or abs(n) > _MOST_DEGREE:
                raise _Refused
            for _ in range(abs(int(n))):
                result = result * (base if n > 0 else base.inverse())
        return result

    def _multiple(self, term: Expr) -> Fraction:
        (c, rest), (unit, base) = ex.split_coefficient(term), ex.split_coefficient(self.t)
        if rest is not base:
            raise _Refused
        return c / unit


# ------------------------------------------------------------------------------------------------ writing
def rational_forms(formula: Expr) -> Iterator[tuple[Expr, bool]]:
    """Cancelled forms of a formula in one exponential, and whether each is an identity: bounded ones are not."""
    base = _exponent(formula)
    if base is None:
        return
    for t in (base, -base):
        try:
            fraction = _Reader(t)(formula)
        except _Refused:
            continue
        if fraction.under.keys() <= {VARIABLE}:
            continue  # a sum of exponentials: nothing saturates, and nothing cancels
        e = make("exp", t)
        for form in dict.fromkeys(write(fraction, e) for write in (_apart, _together, _nested)):
            yield form, True
            for bound in _BOUNDS:
                bounded = make("clamp", t, ex.num(-_VANISHED), ex.num(bound))
                yield substitute(form, {make(f, t): make(f, bounded) for f in ("exp", "expm1")}), False
                if _is_plain(t):
                    yield _everywhere(form, t, bounded), False


def _is_plain(t: Expr) -> bool:
    return ex.split_coefficient(t)[1].op == "sym"


def _everywhere(form: Expr, t: Expr, bounded: Expr) -> Expr:
    """The form with t bounded wherever it stands, not in the exponential alone."""
    scale, variable = ex.split_coefficient(t)
    return substitute(form, {t: bounded, variable: ex.mul(1 / scale, bounded)})


def _apart(fraction: _Fraction, e: Expr) -> Expr:
    """The terms as cancelled fractions of their own."""
    return ex.add(
        *(_term(own, p, fraction.under, e) for own, p in sorted(fraction.over.items(), key=lambda i: i[0].order))
    )


def _term(own: Expr, p: Polynomial, under: dict[Polynomial, int], e: Expr) -> Expr:
    alone = _checked({own: p}, under)
    return ex.mul(own, _written(alone.over[own], e), *(ex.power(_sum(d, e), -n) for d, n in alone.under.items()))


def _together(fraction: _Fraction, e: Expr) -> Expr:
    """The terms over their common denominator, what all numerators share standing before them."""
    split = {own: poly.factors(p) for own, p in fraction.over.items()}
    shared = {d: min(found.get(d, 0) for _, found in split.values()) for d in next(iter(split.values()), (0, {}))[1]}
    terms = []
    for own, (scale, found) in sorted(split.items(), key=lambda i: i[0].order):
        rest = {d: n - shared.get(d, 0) for d, n in found.items()}
        terms.append(ex.mul(own, scale, *(ex.power(_sum(d, e), n) for d, n in rest.items())))
    front = (ex.power(_sum(d, e), n) for d, n in shared.items())
    return ex.mul(ex.add(*terms), *front, *(ex.power(_sum(d, e), -n) for d, n in fraction.under.items()))


def _nested(fraction: _Fraction, e: Expr) -> Expr:
    """One numerator by Horner's scheme in the exponential, whose coefficients are small where the terms cancel."""
    size = max((len(p) for p in fraction.over.values()), default=0)
    rows = [
        ex.add(*(ex.mul(own, p[k]) for own, p in fraction.over.items() if k < len(p) and p[k])) for k in range(size)
    ]
    low = next((k for k, row in enumerate(rows) if row is not ex.ZERO), 0)
    total: Expr = ex.ZERO
    for row in reversed(rows[low:]):
        row = (common_factor(row) if row.op == "add" else None) or row
        total = row if total is ex.ZERO else ex.add(ex.mul(e, total), row)
    return ex.mul(ex.power(e, low), total, *(ex.power(_sum(d, e), -n) for d, n in fraction.under.items()))


def _written(p: Polynomial, e: Expr) -> Expr:
    scale, found = poly.factors(p)
    return ex.mul(scale, *(ex.power(_sum(d, e), n) for d, n in found.items()))


def _sum(p: Polynomial, e: Expr) -> Expr:
    """A factor; e - 1 by expm1, which keeps its digits."""
    if p == (Fraction(-1), Fraction(1)):
        return make("expm1", e.args[0])
    return poly.horner(p, e)
