"""Approximations where no exact form is accurate: rational functions around a point at which a formula cancels.

With v the distance from the point, the formula is v**k * p(z) / q(z), z = v or v**2, interpolated at Chebyshev nodes to
the precision of float64. The leading coefficient is the exact limit, so that the value at the point itself is right.
The point may be infinity, from which 1/x is the distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import mpmath as mp
from flint import arb_mat

from symgrad.accuracy.balls import ball, precision, to_mpf
from symgrad.accuracy.evaluate import Exact
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import ONE, ZERO, Expr, make, symbol
from symgrad.ir.traversal import substitute, topological
from symgrad.ir.truth import compare, where
from symgrad.rules.algebra import common_factor

__all__ = ["Interval", "Target", "groups", "is_readable", "near", "readings"]

_BITS = 700
_SOLVE = 400
_SO_NEAR = 2400  # bits for values so near the point that most digits cancel
_NEAR = mp.mpf(2) ** -200
_PRECISION = mp.mpf(2) ** -55
_ENOUGH = mp.mpf(2) ** -52  # where rounding the coefficients to doubles alone costs more than that
_LEAST = mp.mpf(2) ** -40  # a forecast that is worth trying
_WIDEST = 1 << 12  # bits before or behind the point, beyond which a limit is no number of any format
_ORDERS = ((1, 0), (2, 0), (3, 0), (4, 0), (2, 2), (6, 0), (3, 3), (8, 0), (4, 4), (5, 5), (6, 6), (7, 7), (9, 9))

_MOST_PARTS = 24  # subexpressions that are tried as the variable

V = symbol("_v")


@dataclass(frozen=True)
class Target:
    """A function `of` the symbol V, where V is the distance of `variable` from `point`, which is infinity if None."""

    of: Expr
    variable: Expr
    point: Fraction | None

    @classmethod
    def about(cls, point: Fraction | None, function: Expr, variable: Expr) -> Target:
        """A function of V, where V is the variable itself."""
        moved = ex.power(V, -1) if point is None else V + ex.num(point)
        return cls(substitute(function, {V: moved}), variable, point)

    @property
    def distance(self) -> Expr:
        return ex.power(self.variable, -1) if self.point is None else self.variable - ex.num(self.point)

    def within(self, interval: Interval) -> Expr:
        """The condition that the variable lies at the distances of an interval."""
        if self.point is not None:
            return interval.holds(self.distance)
        if interval.low == -interval.high:
            return compare("gt", make("abs", self.variable), ex.num(1 / interval.high))
        bound = interval.high or interval.low
        return compare("gt" if bound > 0 else "lt", self.variable, ex.num(1 / bound))

    def values(self, at: Sequence[Any], bits: int = _BITS) -> list[Any]:
        """Exact values at distances."""
        return Exact([{V: v} for v in at], bits)(self.of)


@dataclass(frozen=True)
class Interval:
    """Distances from a point: from `low`, not above 0, to `high`."""

    low: Fraction
    high: Fraction

    @classmethod
    def around(cls, radius: Fraction) -> Interval:
        """Both sides alike."""
        return cls(-radius, radius)

    def holds(self, distance: Expr) -> Expr:
        """The condition that a distance lies inside."""
        if self.low == -self.high:
            return compare("lt", make("abs", distance), ex.num(self.high))
        return truth.logical(
            "and", compare("gt", distance, ex.num(self.low)), compare("lt", distance, ex.num(self.high))
        )


@lru_cache(maxsize=512)  # partials of one operation cancel at the same places
def approximation(target: Target, interval: Interval) -> Expr | None:
    """An approximation in an interval to the precision of float64, as an expression in `target.variable`."""
    with mp.workprec(_SOLVE):
        shape = _shape(target, interval)
        if shape is None or (shape.even and interval.low != -interval.high):
            return None
        own = target.distance
        best = _smallest(target, shape, interval)
        if best is None:
            return None
        over, under = (_polynomial(c, shape.argument(own)) for c in (best.over, best.under))
        return ex.mul(ex.power(own, shape.power), over, ex.power(under, -1))


def _smallest(target: Target, shape: _Shape, interval: Interval) -> _Fit | None:
    """The approximation of the first order that is precise enough; else of the first that was seen to be nearly so.

    An order that has a pole is too low, or too high where a lower one has none.
    """
    low, high = 0, len(_ORDERS)
    best = nearly = latest = None
    while low < high:
        middle = (low + high) // 2
        fitted = _fit(target, shape, interval, _ORDERS[middle])
        latest = fitted or latest
        if fitted is None and latest is not None:
            high = middle
        elif fitted is not None and fitted.error <= _PRECISION:
            best, high = fitted, middle
        else:
            low = middle + 1
            if fitted is not None and fitted.error <= _ENOUGH:
                nearly = nearly or fitted
            elif fitted is not None and not _promising(fitted, _ORDERS[middle]):
                break
    return best or nearly


def _promising(fitted: _Fit, order: tuple[int, int]) -> bool:
    """Whether the highest order may be precise enough, as errors fall like a power with the order."""
    gain = (sum(_ORDERS[-1]) + 1) / (sum(order) + 1)
    return bool(fitted.error < 1 and fitted.error**gain < _LEAST)


@dataclass(frozen=True)
class _Shape:
    """v**power * limit * (1 + ...), a series in v**2 if `even`; `sides` are the signs of v where it is defined."""

    power: int
    limit: Any
    even: bool
    sides: tuple[int, ...]

    def argument(self, v: Expr) -> Expr:
        return v**2 if self.even else v


def _shape(target: Target, interval: Interval) -> _Shape | None:
    h = _NEAR
    at = [h, 2 * h, -h, -2 * h]
    ahead, twice, behind, twice_behind = target.values(at, _SO_NEAR)
    beside = ((1, interval.high, (ahead, twice)), (-1, -interval.low, (behind, twice_behind)))
    sides = tuple(side for side, reach, pair in beside if reach > 0 and all(map(_usable, pair)))
    if not sides or any(
        _is_somewhere(target, side * reach) for side, reach, _ in beside if reach > 0 and side not in sides
    ):
        return None
    first, second = (ahead, twice) if sides[0] == 1 else (behind, twice_behind)
    ratio = second / first
    if ratio <= 0:
        return None
    power = int(mp.nint(mp.log(ratio) / mp.log(2)))
    if abs(ratio - mp.mpf(2) ** power) > mp.mpf(2) ** -150 * ratio or not -8 <= power <= 8:
        return None  # no power law: a logarithm, or a kink
    limit = first / (sides[0] * h) ** power
    if abs(mp.mag(limit)) > _WIDEST:
        return None
    even = False
    if len(sides) == 2:
        sign = -1 if power % 2 else 1
        if abs(behind * sign - ahead) > abs(ahead) * mp.mpf(2) ** -100:
            return None  # different on both sides
        probe = mp.mpf(1) / 8
        right, left = target.values([probe, -probe])
        even = _usable(right) and _usable(left) and abs(left * sign - right) <= abs(right) * mp.mpf(2) ** -100
    return _Shape(power, _recognised(limit), even, sides)


def _is_somewhere(target: Target, reach: Fraction) -> bool:
    """Whether a function is defined on a side: also one that overflows, or is 0, next to the point."""
    end = mp.mpf(reach.numerator) / reach.denominator
    return any(map(mp.isfinite, target.values([end / 2**k for k in range(5)])))


def _usable(value: Any) -> bool:
    return bool(mp.isfinite(value) and value != 0)


def _recognised(value: Any) -> Any:
    """A nearby simple rational, if the value is one to all digits that a tiny step leaves."""
    exactly = _fraction(value)
    simple = exactly.limit_denominator(10**6)
    return mp.mpf(simple.numerator) / simple.denominator if abs(exactly - simple) < Fraction(1, 2**150) else value


@dataclass(frozen=True)
class _Fit:
    """Coefficients of numerator and denominator, and the worst relative error."""

    over: list[Any]
    under: list[Any]
    error: Any


def _fit(target: Target, shape: _Shape, interval: Interval, order: tuple[int, int]) -> _Fit | None:
    """The approximation of one order; None where it has a pole or the function is not defined."""
    count = order[0] + order[1]
    nodes = list(_chebyshev(count, interval, shape))
    values = _scaled(target, shape, nodes)
    if values is None:
        return None
    rows, right = [], []
    with precision(_SOLVE):
        for v, y in zip(map(ball, nodes), map(ball, values), strict=True):
            z = v * v if shape.even else v
            powers = [z ** (k + 1) for k in range(max(order))]
            rows.append([*powers[: order[0]], *(-y * p for p in powers[: order[1]])])
            right.append([y - ball(shape.limit)])
        try:
            solution = [to_mpf(row[0]) for row in arb_mat(rows).solve(arb_mat(right)).tolist()]
        except ZeroDivisionError:  # singular, as far as balls can tell
            return None
    over = [shape.limit, *map(_double, solution[: order[0]])]
    under = [mp.mpf(1), *map(_double, solution[order[0] :])]
    checks = list(_chebyshev(2 * count + 10, interval, shape))  # an even number: not at the point itself
    truths = _scaled(target, shape, checks)
    if truths is None:
        return None
    error = mp.mpf(0)
    for v, y in zip(checks, truths, strict=True):
        z = v * v if shape.even else v
        bottom = mp.polyval(under[::-1], z)
        if bottom < mp.mpf(1) / 16:
            return None
        error = max(error, abs(mp.polyval(over[::-1], z) / bottom - y) / abs(y))
    return _Fit(over, under, error)


def _scaled(target: Target, shape: _Shape, at: Sequence[Any]) -> list[Any] | None:
    """The function divided by its leading power."""
    values = target.values(at)
    if not all(map(_usable, values)):
        return None
    return [y / v**shape.power for v, y in zip(at, values, strict=True)]


def _chebyshev(count: int, interval: Interval, shape: _Shape) -> Iterator[Any]:
    """Chebyshev nodes in z."""
    low, high = (mp.mpf(end.numerator) / end.denominator for end in (interval.low, interval.high))
    if len(shape.sides) == 1:
        low, high = (mp.mpf(0), high) if shape.sides[0] == 1 else (low, mp.mpf(0))
    for k in range(count):
        c = mp.cos(mp.pi * (2 * k + 1) / (2 * count))
        if shape.even:
            yield max(high, -low) * mp.sqrt((1 + c) / 2)
        else:
            yield (low + high) / 2 + (high - low) / 2 * c


def _double(value: Any) -> Any:
    return mp.mpf(float(value))


def _polynomial(coefficients: Sequence[Any], z: Expr) -> Expr:
    """Horner's scheme, without the normalising constructors that would multiply it out."""
    total: Expr = ZERO
    for c in reversed(coefficients):
        constant = _number(c)
        total = constant if total is ZERO else ex.add(ex.mul(z, total), constant)
    return total


def _number(value: Any) -> Expr:
    """The simple rational that a value is, or the shortest decimal of the double nearest to it."""
    exactly = _fraction(value)
    simple = exactly.limit_denominator(999)
    return ex.num(simple if abs(exactly - simple) < Fraction(1, 2**150) else Fraction(repr(float(value))))


def _fraction(value: Any) -> Fraction:
    sign, mantissa, exponent, _ = value._mpf_
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent) * (-1 if sign else 1)


def near(target: Target, interval: Interval, factor: Expr, otherwise: Expr) -> Expr | None:
    """The approximation times `factor` in an interval, and `otherwise` beyond."""
    inside = approximation(target, interval)
    return None if inside is None else where(target.within(interval), ex.mul(factor, inside), otherwise)


def is_readable(node: Expr) -> bool:
    """Whether a node has a reading in which something may cancel: its function is no power of the variable."""
    functions = (ex.split_coefficient(own)[1] for _, _, own in readings(node))
    return any(ex.split_power(function)[0] is not V for function in functions)


@lru_cache(maxsize=1024)  # a part stands in many forms
def readings(node: Expr) -> tuple[tuple[Expr, Expr, Expr], ...]:
    """Readings of `node` as factor * function(variable): the factor, the variable, the function of V."""
    return tuple(_readings(node))


def _readings(node: Expr) -> Iterator[tuple[Expr, Expr, Expr]]:
    for part, place in _variables(node):
        if part is node or not _may_separate(node, place):
            continue
        factor, own = _separated(_read(node, place))
        if own is not None and not factor.symbols & {V, place[0]}:
            yield factor, part, own


@lru_cache(maxsize=1024)
def groups(node: Expr) -> tuple[Expr, ...]:
    """Some terms of a sum, but not all, that have a reading together: factor * function(variable)."""
    found: dict[Expr, None] = {}
    for _, place in dict.fromkeys(v for term in node.args for v in _variables(term)):
        own: dict[Expr, list[Expr]] = {}
        for term in node.args:
            if not _may_separate(term, place):
                continue
            factor, function = _separated(_read(term, place))
            if function is not None and not factor.symbols & {V, place[0]}:
                own.setdefault(ex.split_coefficient(factor)[1], []).append(term)
        found.update(dict.fromkeys(ex.add(*terms) for terms in own.values() if 1 < len(terms) < len(node.args)))
    return tuple(found)


_Place: TypeAlias = tuple[Expr, int, Expr]  # what is (V / divisor)**exponent, the exponent, the divisor


def _variables(node: Expr) -> Iterator[tuple[Expr, _Place]]:
    """Parts that may be the variable V, and what then stands for V: the part, or a symbol that is a factor of it."""
    parts = [p for p in topological(node) if p.tensors and not p.is_boolean]
    for part in parts[:_MOST_PARTS]:
        yield part, (part, 1, ONE)
        for factor in part.args if part.op == "mul" else ():
            base, exponent = ex.split_power(factor)
            if base.op == "sym" and base.tensors and exponent.number in (1, -1):
                yield part, (base, int(exponent.number), ex.mul(part, ex.power(factor, -1)))


def _read(node: Expr, place: _Place) -> Expr:
    """A formula where a symbol, its negative and its powers are those of (V / divisor)**exponent."""
    symbol_, exponent, divisor = place

    def scaled(power: Expr) -> Expr:
        return ex.mul(ex.power(V, power), ex.power(divisor, -power))

    own = scaled(ex.num(exponent))
    found = {symbol_: own, _negated(symbol_): -own}
    for power in (n for n in topological(node) if n.op == "pow" and n.args[0] is symbol_):
        if symbol_ not in power.args[1].symbols:
            found[power] = scaled(exponent * power.args[1])
    return substitute(node, found)


def _negated(value: Expr) -> Expr:
    """Its negative; b - a for a - b."""
    return ex.add(*(-t for t in value.args)) if value.op == "add" else -value


def _may_separate(node: Expr, place: _Place) -> bool:
    """Whether a formula may be a function of a variable times what is free of it: told before anything is rebuilt.

    Not where a factor depends on both, nor where the terms of a sum differ both in what is free of it and in what is
    not. The symbols of what V is divided by may vanish.
    """
    variable, _, divisor = place
    own, other = 1, 2
    leaves = variable, _negated(variable)
    depends = dict.fromkeys(leaves, own)
    for below in topological(node, leaves=leaves):
        if below not in depends:
            found = other if below.op == "sym" and below not in divisor.symbols else 0
            for argument in below.args:
                found |= depends[argument]
            depends[below] = found
    free: set[frozenset[Expr]] = set()
    bound: set[frozenset[Expr]] = set()
    for term in node.terms:
        factors = term.args if term.op == "mul" and term not in leaves else (term,)
        if any(depends[f] == own | other for f in factors):
            return False
        free.add(frozenset(f for f in factors if depends[f] == other))
        bound.add(frozenset(f for f in factors if depends[f] == own))
    return len(free) == 1 or len(bound) == 1


def _separated(inner: Expr) -> tuple[Expr, Expr | None]:
    """A formula as (what is free of V, what depends on V alone); None where it does not separate."""
    if inner.symbols == {V}:
        return ONE, inner
    if inner.op == "add":
        inner = common_factor(inner) or inner
    factors = inner.factors
    own = [f for f in factors if f.symbols == {V}]
    others = [f for f in factors if f.symbols != {V}]
    if not own or any(V in f.symbols for f in others):
        return ONE, None
    return ex.mul(*others), ex.mul(*own)
