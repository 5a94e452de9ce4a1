"""What an expression is worth over the reals: the reference for every accuracy figure.

Functions are computed in Arb where it has them (`balls.py`), else in mpmath.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from ctypes import c_float
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, reduce
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import mpmath as mp
from flint import arb

from symgrad.accuracy.balls import (
    BALLS,
    ball,
    is_narrow,
    midpoint,
    power_by,
    precision,
    quotient,
    rounded,
    rounded_product,
    rounded_sum,
    to_mpf,
)
from symgrad.accuracy.widening import DOUBLE, NARROW, SINGLE, WIDEN
from symgrad.ir.expr import COMPARISONS, Expr
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS, real

Environment = Mapping[Expr, Any]

_CONSTANTS: dict[str, Callable[[], Any]] = {
    "pi": lambda: +mp.pi,
    "E": lambda: +mp.e,
    "oo": lambda: mp.inf,
    "nan": lambda: mp.nan,
    "EulerGamma": lambda: +mp.euler,
    "GoldenRatio": lambda: +mp.phi,
    "Catalan": lambda: +mp.catalan,
}

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: significand bits and exponent range."""

    name: str
    precision: int
    largest: float
    min_exponent: int

    def ulp(self, value: Any) -> Any:
        """Distance between neighbours at `value`; below the normal range that of the smallest normal number."""
        return mp.ldexp(1, self.ulp_exponent(value))

    def ulp_exponent(self, value: Any) -> int:
        """Of which power of 2 one ulp is at `value`, a number of Python or of mpmath."""
        if not value:
            return self.min_exponent - self.precision
        if isinstance(value, mp.mpf):
            _, _, exponent, bits = value._mpf_
            return max(int(exponent + bits), self.min_exponent) - self.precision
        return max(math.frexp(value)[1], self.min_exponent) - self.precision

    def round(self, value: Any) -> float:
        """`value` (Python float or mpf) rounded to nearest in this format."""
        number = float(value)
        return c_float(number).value if self.precision == 24 else number


FLOAT32 = Format("float32", 24, 3.4028234663852886e38, -125)
FLOAT64 = Format("float64", 53, 1.7976931348623157e308, -1021)


def meaning(op: str) -> Callable[..., Any]:
    """The mpmath function of an operation."""
    found = _ARITHMETIC.get(op) or FUNCTIONS[op].meaning
    assert found is not None, op
    return found


def sum_of(*terms: Any) -> Any:
    """The sum from left to right, of numbers of any type."""
    return reduce(operator.add, terms)


def product_of(*factors: Any) -> Any:
    """The product from left to right, of numbers of any type."""
    return reduce(operator.mul, factors)


_ARITHMETIC: dict[str, Any] = {
    "add": sum_of,
    "mul": product_of,
    "pow": real.power,
    "not": lambda a: not a,
    "and": lambda *a: all(a),
    "or": lambda *a: any(a),
    "where": lambda c, a, b: a if c else b,
    "true": lambda: True,
    "false": lambda: False,
    **dict.fromkeys((WIDEN, DOUBLE, SINGLE), lambda a: a),
    "held": lambda a: a,
    "boundary": lambda a: a,
    **{narrow: FUNCTIONS[name].meaning for narrow, name in NARROW.items()},
    **COMPARE,
}

UNDEFINED = (ValueError, ZeroDivisionError, OverflowError, TypeError, NotImplementedError)


def leaf_value(node: Expr) -> Any:
    """The value of a constant, at mpmath's current precision."""
    if node.op == "num":
        fraction: Fraction = node["value"]
        return mp.mpf(fraction.numerator) / fraction.denominator
    if node.op == "const":
        return _CONSTANTS[node["name"]]()
    return node["value"] if node.op == "text" else node.op == "true"


@cache
def nearest(op: str) -> Callable[..., Any]:
    """An operation on numbers, to nearly as many bits as the current precision; NaN where undefined."""
    op = _MEANS_THE_SAME.get(op, op)
    if op in _EXACT:
        return _EXACT[op]
    function = BALLS.get(op)
    if function is None:
        return lambda *arguments: undecided(op, arguments)
    direct = _ARITHMETIC_OF_BALLS.get(op)

    def apply(*arguments: Any) -> Any:
        if direct is not None:
            result = direct(*arguments)
            if result.is_finite() or any(a.is_nan() for a in arguments):
                return result
        elif all(isinstance(a, bool | str) or a.is_finite() for a in arguments):
            result = midpoint(function, arguments)
            if result is not None:
                return result
        return undecided(op, arguments)

    return apply


def enclosed(op: str, columns: Sequence[Sequence[Any]], is_power: bool) -> list[Any]:
    """An operation on columns of balls; None where it is not told what holds its values.

    `is_power` says that the last column is one exponent.
    """
    op = _MEANS_THE_SAME.get(op, op)
    if op == "where":
        return [None if c is None else a if c else b for c, a, b in zip(*columns, strict=True)]
    if op not in BALLS and op not in _EXACT:
        return [None] * len(columns[0])
    if not any(type(None) in set(map(type, column)) for column in columns):
        return [_if_finite(value) for value in _on_columns(op, columns, is_power)]
    # A comparison of a ball with None takes longer than most operations on balls.
    known = [k for k, row in enumerate(zip(*columns, strict=True)) if not any(value is None for value in row)]
    found: list[Any] = [None] * len(columns[0])
    for k, value in zip(known, _on_columns(op, [[c[k] for k in known] for c in columns], is_power), strict=True):
        found[k] = _if_finite(value)
    return found


def _on_columns(op: str, columns: Sequence[Sequence[Any]], is_power: bool) -> Iterator[Any]:
    if op in _OF_TWO:
        return iter(reduce(lambda a, b: list(map(_OF_TWO[op], a, b)), columns))
    if is_power and columns[1]:
        return map(power_by(columns[1][0]), columns[0])
    return map(_EXACT.get(op) or BALLS[op], *columns)


def _if_finite(value: Any) -> Any:
    return value if type(value) is not arb or value.is_finite() else None


_OF_TWO: dict[str, Callable[[Any, Any], Any]] = {"add": operator.add, "mul": operator.mul}
_ARITHMETIC_OF_BALLS: dict[str, Callable[..., Any]] = {"add": rounded_sum, "mul": rounded_product}
_MEANS_THE_SAME = {**dict.fromkeys((WIDEN, DOUBLE, SINGLE), "held"), **NARROW}
_EXACT: dict[str, Callable[..., Any]] = {
    "held": lambda x: x,
    "where": lambda condition, a, b: a if condition else b,
    "not": lambda a: not a,
    "and": lambda *a: all(a),
    "or": lambda *a: any(a),
}


class Exact:
    """Values of expressions at fixed points with `bits` of precision; every node is computed once.

    NaN stands where a value is undefined over the reals.
    """

    def __init__(self, points: Sequence[Environment], bits: int) -> None:
        self.points = points
        self.bits = bits
        self._balls: dict[Expr, list[Any]] = {}  # without radius
        self._columns: dict[Expr, list[Any]] = {}  # the same in mpmath, where somebody asked for them
        self._moved: dict[Expr, Exact] = {}
        self._base: Exact | None = None
        self._symbol: Expr | None = None
        self.steps: list[Any] = []

    def with_moved(self, symbol: Expr) -> Exact:
        """The values with one symbol moved a little; what does not depend on it is read from here."""
        if symbol not in self._moved:
            moved = self._moved[symbol] = type(self)(self.points, self.bits)
            moved._base, moved._symbol = self, symbol
            with precision(self.bits):
                moved.steps = [abs(x) * _STEP for x in self.balls(symbol)]
        return self._moved[symbol]

    def __call__(self, root: Expr) -> list[Any]:
        """The value of `root` at each point."""
        if root not in self._columns:
            column = self.balls(root)
            # A constant stands at every point.
            once = bool(column) and not root.symbols
            self._columns[root] = [to_mpf(column[0])] * len(column) if once else [to_mpf(value) for value in column]
        return self._columns[root]

    def balls(self, root: Expr) -> list[Any]:
        """The value of `root` at each point as a ball without radius, or a truth value or text."""
        columns = self._balls
        if root not in columns:
            with mp.workprec(self.bits), precision(self.bits):
                for node in topological(root, leaves=columns.keys()):
                    if node not in columns:
                        columns[node] = self._column(node)
        return columns[root]

    def _column(self, node: Expr) -> list[Any]:
        if self._base is not None and node is self._symbol:
            return [x + step for x, step in zip(self._base.balls(node), self.steps, strict=True)]
        if self._base is not None and self._symbol not in node.symbols:
            return self._base.balls(node)
        if node.op == "sym":
            return [ball(point[node]) for point in self.points]
        if not node.args:
            return [_leaf_ball(node)] * len(self.points)
        columns = [self._balls[a] for a in node.args]
        if not node.symbols and self.points:
            return self._applied(node, [column[:1] for column in columns]) * len(self.points)
        return self._applied(node, columns)

    def _applied(self, node: Expr, columns: Sequence[Sequence[Any]]) -> list[Any]:
        """The operation of a node on columns."""
        return list(map(nearest(node.op), *columns))

    def saturated(self, root: Expr, index: int) -> bool:
        """Whether an operation of `root` is infinite at a point, so that a NaN there says nothing."""
        values = (self(node)[index] for node in topological(root))
        return any(not isinstance(v, bool | str) and bool(mp.isinf(v)) for v in values)

    def cancelled(self, root: Expr, index: int) -> bool:
        """Whether a value is 0 at a point because terms cancel, so that a small true value may be lost."""
        return _is_zero(self(root)[index]) and not self.plainly_zero(root, index)

    def plainly_zero(self, root: Expr, index: int) -> bool:
        """Whether a value that is 0 at a point is so by zeros among what it is made of, not by cancellation."""
        stack = [root]
        while stack:
            node = stack.pop()
            if not node.args:
                continue
            column = [self(a)[index] for a in node.args]
            if node.op == "where":
                stack.append(node.args[1 if column[0] else 2])
            elif node.op == "add" and any(column):
                return False
            elif node.op == "add":
                stack += node.args
            elif node.op != "relu" or not column[0] < 0:
                zero = next((a for a, v in zip(node.args, column, strict=True) if _is_zero(v)), None)
                if zero is None:
                    return False
                stack.append(zero)
        return True

    def slope(self, root: Expr, symbol: Expr) -> list[Any]:
        """The size of the derivative of `root` with respect to `symbol` at each point, to a few digits.

        NaN where an enclosure cannot be told.
        """
        moved = self.with_moved(symbol)
        ahead, here = moved.balls(root), self.balls(root)
        with precision(self.bits):
            return [_slope(a, b, step) for a, b, step in zip(ahead, here, moved.steps, strict=True)]


class Enclosed(Exact):
    """Balls that hold the values of expressions at points; None where they could not be told."""

    def _applied(self, node: Expr, columns: Sequence[Sequence[Any]]) -> list[Any]:
        return enclosed(node.op, columns, is_power=node.op == "pow" and not node.args[1].symbols)


_STEP = arb(2) ** -70  # of a symbol's value, by which it is moved


def _slope(ahead: Any, here: Any, step: Any) -> Any:
    """A float, or a number of mpmath where that would overflow."""
    if ahead is None or here is None:
        return math.nan
    if type(here) is not arb or step == 0:
        return 0.0
    difference = ahead - here
    if 0 in difference:
        return 0.0
    slope = abs(difference.mid() / step)
    size = float(slope)
    return size if size == 0 or 1e-290 < size < 1e290 else to_mpf(slope)


def _leaf_ball(node: Expr) -> Any:
    """The value of a constant, at Arb's current precision, without radius."""
    if node.op == "num":
        fraction: Fraction = node["value"]
        return quotient(fraction.numerator, fraction.denominator)
    return ball(leaf_value(node))


def undecided(op: str, arguments: Sequence[Any]) -> Any:
    """The value of an operation on balls without radius by mpmath, at the current precision of both."""
    values = [to_mpf(a) for a in arguments]
    if op in COMPARISONS and any(mp.isnan(a) for a in values if isinstance(a, mp.mpf)):
        return op == "ne"
    try:
        result = meaning(op)(*values)
    except UNDEFINED:
        return ball(mp.nan)
    return ball(mp.nan if isinstance(result, mp.mpc) else result)


def exact(roots: Sequence[Expr], environment: Environment, bits: int) -> list[Any]:
    """Values of the roots at one point in mpmath with `bits` of precision; NaN where undefined over the reals."""
    values = Exact([environment], bits)
    return [values(root)[0] for root in roots]


_PRECISIONS = (120, 240, 600, 1500)
_ENCLOSED = 288  # bits in which enclosures are computed
_ENOUGH = 230  # bits that an enclosure must tell
_AS_FLOAT = 100  # bits that a float is rounded from
_TOLD = 224  # bits that are kept of its midpoint, so that a value is 1 and not a little less
_NOTHING = 2.0**-_TOLD


@dataclass(frozen=True)
class Truth:
    """The true value of a formula at one point, as the ball that tells it, and the sizes of its derivatives by symbol.

    These are floats, or numbers of mpmath where a float would overflow.
    """

    ball: Any
    slopes: Mapping[Expr, Any]

    @cached_property
    def value(self) -> Any:
        """The number of mpmath that the ball tells."""
        return self.ball if isinstance(self.ball, bool | str) else to_mpf(rounded(self.ball, _TOLD))

    def parts(self) -> tuple[float, float, int]:
        """A number as the sum of two floats, and the power of 2 that is next above its size; 0 for 0.

        What is beyond the bits that a ball tells is nothing.
        """
        middle = self.ball.mid()
        high = float(middle)
        if not math.isfinite(high):
            return high, 0.0, 0
        low = float(middle - high)
        if abs(low) < abs(high) * _NOTHING:
            low = 0.0
        mantissa, exponent = math.frexp(high)
        below = abs(mantissa) == 0.5 and low * high < 0  # a little less than a power of 2
        return high, low, exponent - below


class Table:
    """Truth at fixed points, to at least 70 correct bits, by evaluation at growing precision.

    With `limits`, a formula that is undefined at a point alone, as 0 / 0 is, has its limit there; where a variable is
    at one of its `ends`, the limit from the side that its domain is on.
    """

    def __init__(
        self,
        points: Sequence[Environment],
        limits: bool = False,
        ends: Mapping[Expr, Collection[float]] = MappingProxyType({}),
    ) -> None:
        self.points = points
        self.limits = limits
        self.ends = ends
        self._balls = Enclosed(points, _ENCLOSED)
        self._exacts: dict[tuple[tuple[int, ...], int], Exact] = {}

    def at(self, indices: Sequence[int]) -> Exact:
        """Values at some of the points, in a precision that is high enough at most."""
        return self._exact(indices, _PRECISIONS[1])

    def floats(self, root: Expr) -> list[float]:
        """The value of an expression at each point as a float; NaN where it is a truth value or undefined."""
        column = self._balls.balls(root)
        found = [float(v) if type(v) is arb and is_narrow(v, _AS_FLOAT) else math.nan for v in column]
        pending = [k for k, value in enumerate(found) if value != value and not isinstance(column[k], (bool, str))]
        for k, value in zip(pending, self.at(pending)(root) if pending else (), strict=True):
            found[k] = math.nan if isinstance(value, (bool, str)) or mp.isnan(value) else float(value)
        return found

    def _exact(self, indices: Sequence[int], bits: int) -> Exact:
        """Values at some of the points; those of the low precisions are kept for other formulas."""
        key = tuple(indices), bits
        if key in self._exacts:
            return self._exacts[key]
        found = Exact([self.points[i] for i in indices], bits)
        if bits <= _PRECISIONS[1]:
            self._exacts[key] = found
        return found

    def _enclosed(self, formula: Expr, symbols: Sequence[Expr]) -> list[Truth | None]:
        """The truth where an enclosure is narrow enough; None where another way must be gone."""
        column = self._balls.balls(formula)
        slopes = {s: self._balls.slope(formula, s) for s in symbols}
        found: list[Truth | None] = []
        for k, value in enumerate(column):
            own = {s: sizes[k] for s, sizes in slopes.items()}
            known = value is not None and (type(value) is not arb or is_narrow(value, _ENOUGH))
            sure = known and not any(size != size for size in own.values())
            found.append(Truth(value, own) if sure else None)
        return found

    def __call__(self, formula: Expr, symbols: Sequence[Expr] = ()) -> list[Truth | None]:
        """The truth at each point; None where 1500 bits do not decide it, or where it is not finite.

        A value too small for any format is as good as 0. Where terms cancel altogether a 0 is believed at the last
        precision only, for it may be what lower ones lose. `symbols` are those whose derivatives are wanted.
        """
        found = self._enclosed(formula, symbols)
        pending = [k for k, truth in enumerate(found) if truth is None]
        for coarse, fine in pairwise(_PRECISIONS):
            if not pending:
                break
            tables, rows = [self._exact(pending, bits) for bits in (coarse, fine)], range(len(pending))
            earlier, later = (table(formula) for table in tables)
            last = fine == _PRECISIONS[-1]
            agreed = [k for k in rows if _agree(earlier[k], later[k])]
            decided = [k for k in agreed if last or not _is_zero(later[k]) or tables[1].plainly_zero(formula, k)]
            told = [k for k in decided if isinstance(later[k], bool | str) or mp.isfinite(later[k])]
            slopes = {s: tables[1].slope(formula, s) for s in symbols} if told else {}
            for k in told:
                sizes = {s: _finite(column[k]) for s, column in slopes.items()}
                found[pending[k]] = Truth(ball(later[k]), sizes)
            undefined = [pending[k] for k in decided if self.limits and _is_nan(later[k])]
            for index, truth in zip(undefined, self._limits(formula, symbols, undefined), strict=True):
                found[index] = truth
            pending = [index for k, index in enumerate(pending) if k not in set(decided)]
        return found

    def _limits(self, formula: Expr, symbols: Sequence[Expr], indices: Sequence[int]) -> list[Truth | None]:
        """What a formula tends to at points, from several sides; None where it does not."""
        if not indices:
            return []
        tables = [Exact([_aside(self.points[i], way) for i in indices], _PRECISIONS[-1]) for way in _WAYS]
        slopes = {s: tables[0].slope(formula, s) for s in symbols}
        columns = zip(*(table(formula) for table in tables), strict=True)
        limits = [_common_limit(sides, self._is_at_end(k)) for k, sides in zip(indices, columns, strict=True)]
        return [
            None if limit is None else Truth(ball(limit), {s: _finite(column[k]) for s, column in slopes.items()})
            for k, limit in enumerate(limits)
        ]

    def _is_at_end(self, index: int) -> bool:
        point = self.points[index]
        return any(point.get(s) in own for s, own in self.ends.items())


_APART = mp.mpf(2) ** -400  # from a point at which a formula is undefined, in relation to its size: roots tend slowly
_WAYS = (1, 3), (-2, -3), (3, -1), (-4, 2)  # by which its variables leave it, in turn


def _aside(point: Environment, way: Sequence[int]) -> Environment:
    moved = {}
    for i, (symbol, value) in enumerate(sorted(point.items(), key=lambda item: item[0].name)):
        own = symbol.tensors and symbol["kind"] == "tensor"
        with mp.workprec(_PRECISIONS[-1]):
            moved[symbol] = value + (abs(value) or 1) * way[i % 2] * (1 + i // 2) * _APART if own else value
    return moved


def _common_limit(sides: Sequence[Any], at_end: bool = False) -> Any:
    """What all values are nearly, at an end of a domain those that there are; None where they are not."""
    if at_end:
        sides = [side for side in sides if not mp.isnan(side)]
    if len(sides) < 2 or not all(map(mp.isfinite, sides)):
        return None
    with mp.workprec(120):
        if all(_agree(side, sides[0]) for side in sides):
            return sides[0]
        return mp.mpf(0) if max(map(abs, sides)) < mp.mpf(2) ** -90 else None


def _is_zero(value: Any) -> bool:
    return not isinstance(value, bool | str) and not value


def _is_nonzero(value: Any) -> bool:
    return not isinstance(value, bool | str) and bool(value) and bool(mp.isfinite(value))


def _finite(value: Any) -> Any:
    return value if mp.isfinite(value) else mp.mpf(0)


def _agree(coarse: Any, fine: Any) -> bool:
    if isinstance(fine, bool | str):
        return bool(coarse == fine)
    if mp.isnan(fine) or mp.isinf(fine):
        return str(coarse) == str(fine)
    if not mp.isfinite(coarse):
        return False
    with mp.workprec(120):
        difference = abs(coarse - fine)
        return bool(difference <= abs(fine) * mp.mpf(2) ** -70 or max(abs(coarse), abs(fine)) < mp.mpf(2) ** -2000)


_SURE = (240, 1200)  # bits at which values are compared, the later ones only where they differ
_SURER = 1400  # bits at which a value that cancellation leaves is another one


class Check:
    """Whether two expressions are equal: to 40 bits wherever the first is finite, at fixed points.

    Where the first is undefined the second must be, except at a single point such as 0 / 0, which it may continue. What
    terms leave by cancelling says nothing, where the two agree elsewhere: `1 - erf(x)` is 0 in any precision, and
    `x**n - (x**n)**2 / (1 + x**n)` is what rounding left.
    """

    def __init__(self, points: Sequence[Environment]) -> None:
        self._points = points
        self._balls = Enclosed(points, _SURE[0])
        self._some: dict[tuple[int, ...], Exact] = {}

    def __call__(self, before: Expr, after: Expr) -> bool:
        pairs = list(zip(self._balls.balls(before), self._balls.balls(after), strict=True))
        sure = list(map(_surely_equal, *zip(*pairs, strict=True))) if pairs else []
        open_ = tuple(k for k, equal in enumerate(sure) if not equal)
        if not open_:
            return True
        agrees = any(equal and not (type(a) is arb and 0 in a) for equal, (a, _) in zip(sure, pairs, strict=True))
        if open_ not in self._some:
            self._some[open_] = Exact([self._points[k] for k in open_], _SURE[0])
        return _agrees(self._some[open_], before, after, agrees)


def _surely_equal(before: Any, after: Any) -> bool:
    """Whether balls tell that two values agree to 40 bits."""
    if type(before) is not arb or type(after) is not arb:
        return before is not None and before is after and isinstance(before, bool)
    return bool(abs(before - after) <= abs(before) * _TOLERANCE + _LEAST)


_TOLERANCE, _LEAST = arb(2) ** -40, arb(2) ** -1200


def _agrees(values: Exact, before: Expr, after: Expr, agrees: bool) -> bool:
    """Whether two expressions are equal at points; `agrees` says that they agree elsewhere."""
    old, new = values(before), values(after)
    points = values.points
    differing = [p for p, a, b in zip(points, old, new, strict=True) if not _equal(a, b)]
    agrees = agrees or any(_is_nonzero(a) and _equal(a, b) for a, b in zip(old, new, strict=True))
    # One point first: where the two are different indeed, it is enough.
    for some in (differing[:1], differing[1:]):
        if some:
            surer = Exact(some, _SURE[1])
            pairs = zip(surer(before), surer(after), strict=True)
            unequal = [i for i, pair in enumerate(pairs) if not _equal(*pair)]
            if unequal and not (agrees and all(_lost(before, surer, unequal))):
                return False
    continued = [_beside(p) for p, a, b in zip(points, old, new, strict=True) if _is_nan(a) and not _is_nan(b)]
    beside = Exact(continued, _SURE[0])
    return not any(_is_nan(value) and not beside.saturated(before, i) for i, value in enumerate(beside(before)))


def _lost(root: Expr, values: Exact, indices: Sequence[int]) -> Iterator[bool]:
    """Whether cancellation left nothing of a value at points: 0, or another number in another precision."""
    again = Exact([values.points[i] for i in indices], _SURER)(root)
    for index, other in zip(indices, again, strict=True):
        yield values.cancelled(root, index) or not _equal(other, values(root)[index])


def _is_nan(value: Any) -> bool:
    return not isinstance(value, bool | str) and bool(mp.isnan(value))


_ASIDE = 2.0**-40


def _beside(point: Environment) -> Environment:
    """A point very near, for a look whether an undefined value is the exception there."""
    moved = {}
    for i, (symbol, value) in enumerate(sorted(point.items(), key=lambda item: item[0].name)):
        own = symbol.tensors and not isinstance(value, bool | str)
        moved[symbol] = value * (1 + (i + 1) * _ASIDE) + _ASIDE**2 if own else value
    return moved


def _equal(before: Any, after: Any) -> bool:
    if isinstance(before, bool | str):
        return bool(before == after)
    if not mp.isfinite(before):
        return True
    with mp.workprec(100):
        tolerance = abs(before) * mp.mpf(2) ** -40 + mp.mpf(2) ** -1200
        return bool(mp.isfinite(after) and abs(before - after) <= tolerance)
