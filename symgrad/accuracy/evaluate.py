"""What an expression is worth over the reals: the reference for every accuracy figure.

Functions are computed in Arb where it has them (`balls.py`), else in mpmath.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import c_float
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from typing import Any

import mpmath as mp
from flint import arb

from symgrad.accuracy.balls import (
    BALLS,
    ball,
    midpoint,
    power_by,
    precision,
    quotient,
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

    def __hash__(self) -> int:
        return self.precision  # tables by formats are read at every point

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
FAR = 1e18  # magnitudes beyond it are those that nobody named: overflow guards are weighed there
_NEAR = 1e3


def is_near(value: Any) -> bool:
    """Whether a variable has a value that is nothing special, or 0."""
    return isinstance(value, bool | str) or value == 0 or 1 / _NEAR <= abs(value) <= _NEAR


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
        return _if_finite(_on_columns(op, columns, is_power))
    # A comparison of a ball with None takes longer than most operations on balls.
    known = [k for k, row in enumerate(zip(*columns, strict=True)) if not any(value is None for value in row)]
    found: list[Any] = [None] * len(columns[0])
    values = _on_columns(op, [[c[k] for k in known] for c in columns], is_power)
    for k, value in zip(known, _if_finite(values), strict=True):
        found[k] = value
    return found


def _on_columns(op: str, columns: Sequence[Sequence[Any]], is_power: bool) -> Iterator[Any]:
    if op in _OF_TWO:
        return iter(reduce(lambda a, b: list(map(_OF_TWO[op], a, b)), columns))
    if is_power and columns[1]:
        return map(power_by(columns[1][0]), columns[0])
    return map(_EXACT.get(op) or BALLS[op], *columns)


def _if_finite(values: Iterator[Any]) -> list[Any]:
    return [value if type(value) is not arb or value.is_finite() else None for value in values]


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
        return is_zero(self(root)[index]) and not self.plainly_zero(root, index)

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
                zero = next((a for a, v in zip(node.args, column, strict=True) if is_zero(v)), None)
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


def is_zero(value: Any) -> bool:
    return not isinstance(value, bool | str) and not value


def is_nan(value: Any) -> bool:
    return not isinstance(value, bool | str) and bool(mp.isnan(value))
