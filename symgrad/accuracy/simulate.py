"""What an expression is worth in a floating-point format, operation by operation.

An idealised machine: each operation is correctly rounded to the format, the same on every computer, so that what
symgrad writes never depends on where it ran.
"""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Callable, Sequence
from ctypes import c_float
from fractions import Fraction
from typing import Any

import mpmath as mp
from flint import arb

from symgrad.accuracy.balls import BALLS, ball, is_narrow, precision
from symgrad.accuracy.evaluate import (
    COMPARE,
    FLOAT32,
    FLOAT64,
    Environment,
    Format,
    exact,
    leaf_value,
    nearest,
    product_of,
    sum_of,
)
from symgrad.accuracy.widening import DOUBLE, NARROW, SINGLE, WIDEN
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological

__all__ = ["ROUGH", "Simulation", "is_cheap"]

_BITS = 120  # working precision from which one correct rounding is made
_ENOUGH = 100  # bits that an enclosure must tell for that

Elementwise = Callable[..., Any]


class Simulation:
    """Values of machine-level expressions at fixed points; every node is computed once.

    Python scalars (no tensor below them) are computed in float64, as generated code does, and so is what follows from a
    tensor that is widened, until a function rounds it. With `off`, the results that libraries may round differently
    are off by these ulp, one after the other: those of functions, products and quotients. With `quick`, functions of
    float64 are the library's, an ulp or two off.
    """

    def __init__(
        self, points: Sequence[Environment], target: Format, *, off: Sequence[int] = (), quick: bool = False
    ) -> None:
        self.points = points
        self.target = target
        self.off = off
        self._doubles = (FLOAT32.precision, FLOAT64.precision) if quick else (FLOAT32.precision,)
        self._columns: dict[Expr, list[Any]] = {}
        self._wide: set[Expr] = set()

    def __call__(self, root: Expr) -> list[Any]:
        """The value of `root` at each point: a float, or a truth value or text."""
        columns = self._columns
        if root not in columns:
            with mp.workprec(_BITS), precision(_BITS):
                for node in topological(root, leaves=columns.keys()):
                    if node not in columns:
                        columns[node] = self._column(node)
        return columns[root]

    def _column(self, node: Expr) -> list[Any]:
        if node.op == "sym":
            return [_as_float(point[node]) for point in self.points]
        if not node.args:
            return [_as_float(leaf_value(node))] * len(self.points)
        if not node.symbols:
            return [_as_float(exact([node], {}, _BITS)[0])] * len(self.points)  # emitted as one rounded number
        wide = node.is_static or node.op in (WIDEN, DOUBLE) or any(a in self._wide for a in node.args)
        rounds = node.op in NARROW or node.op == SINGLE
        if wide and not node.is_static and not rounds:
            self._wide.add(node)
        target = FLOAT64 if wide and not rounds else self.target
        columns = [self._operand(a, wide) for a in node.args]
        if self.off and not node.is_static:
            apply = _off(self.off[len(self._columns) % len(self.off)], node, _operation(node, target), target)
            return list(map(apply, *columns))
        return _applied(node, target, columns, in_double=target.precision in self._doubles)

    def _operand(self, node: Expr, wide: bool) -> Sequence[Any]:
        """Python scalars enter a tensor operation in its format."""
        column = self._columns[node]
        if wide or node.tensors or not column or isinstance(column[0], bool | str):
            return column
        return _rounded(column, self.target)


def is_cheap(node: Expr) -> bool:
    """Whether an operation takes microseconds at a point."""
    return not node.args or node.op in _IN_DOUBLE or node.op in BALLS or _native(node) is not None


def _as_float(value: Any) -> Any:
    return value if isinstance(value, bool | str) else float(value)


def _rounded(column: Sequence[Any], target: Format) -> list[Any]:
    """Floats rounded to a format, truth values as they are."""
    if target.precision != FLOAT32.precision or not column or isinstance(column[0], (bool, str)):
        return list(column)
    return array("f", column).tolist()


def _applied(node: Expr, target: Format, columns: Sequence[Sequence[Any]], *, in_double: bool) -> list[Any]:
    """The operation of a node on columns, rounded to `target`; of functions those that the library has `in_double`."""
    scalar_over = node.op == "div" and node.args[0].is_static and not node.is_static
    native = None if scalar_over else _native(node)
    if native is not None:
        return _rounded(list(map(native, *columns)), target)
    if not scalar_over and in_double and node.op in _IN_DOUBLE:
        try:
            return _rounded(list(map(_IN_DOUBLE[node.op], *columns)), target)
        except (ValueError, OverflowError, ZeroDivisionError):  # somewhere: point by point
            pass
    return list(map(_operation(node, target), *columns))


def _operation(node: Expr, target: Format) -> Elementwise:
    """The operation of a node on floats, rounded to `target`."""
    if node.op == "div" and node.args[0].is_static and not node.is_static:
        return _reciprocal_times(target)
    native = _native(node)
    if native is not None:
        return _single(native) if target.precision == 24 else native
    exact = _exactly(node, target)
    fast = _IN_DOUBLE.get(node.op) if target.precision == 24 else None
    if fast is None:
        return exact

    def apply(*arguments: float) -> float:
        try:
            return c_float(fast(*arguments)).value
        except (ValueError, OverflowError, ZeroDivisionError):
            return float(exact(*arguments))

    return apply


# Ways in which functions may be some ulp off, one after the other: two that are so alike in one are not in the other.
ROUGH = ((1, -2, 2, -1, -2, 1, 2), (2, 1, -1, 2, -2, -1, 1))


def _off(ulps: int, node: Expr, apply: Elementwise, target: Format) -> Elementwise:
    """The operation with results that are some ulp off, where another library may round it differently."""
    is_exact = _EXACT.get(node.op)
    if is_exact is None and _native(node) is not None:
        return apply

    def shifted(*arguments: float) -> float:
        value = float(apply(*arguments))
        if not math.isfinite(value) or (is_exact is not None and is_exact(value, arguments)):
            return value
        return target.round(value + ulps * float(target.ulp(mp.mpf(value))))

    return shifted


def _is_product(value: float, factors: Sequence[float]) -> bool:
    return not value or math.prod(map(Fraction, factors), start=Fraction(1)) == Fraction(value)


# Of operations that are rounded only once, and yet may be fused or written as others: whether a result is exact.
_EXACT: dict[str, Callable[[float, Sequence[float]], bool]] = {
    "mul": _is_product,
    "div": lambda value, operands: not value or _is_product(operands[0], (value, operands[1])),
}


def _reciprocal_times(target: Format) -> Elementwise:
    """A Python scalar over a tensor: torch multiplies the tensor's reciprocal."""

    def apply(scalar: float, x: float) -> float:
        return target.round(scalar * target.round(_divide(1.0, x)))

    return apply


def _single(native: Elementwise) -> Elementwise:
    def apply(*arguments: Any) -> Any:
        value = native(*arguments)
        return value if value is True or value is False else c_float(value).value

    return apply


def _native(node: Expr) -> Elementwise | None:
    """Operations exact enough in double for both formats: rounded once in float64, innocuously twice in float32."""
    if node.op == "pow":
        return _POWERS.get(node.args[1].number)
    if node.op in ("add", "mul") and len(node.args) != 2:
        return sum_of if node.op == "add" else product_of
    return _NATIVE.get(node.op)


def _exactly(node: Expr, target: Format) -> Elementwise:
    """Any function of the table, in high precision and with one rounding."""
    function, enclosure = nearest(node.op), BALLS.get(node.op)
    limits = _AT_INFINITY.get(node.op)

    def apply(*arguments: Any) -> float:
        if any(map(math.isnan, arguments)):
            return math.nan
        if limits is not None and len(arguments) == 1 and math.isinf(arguments[0]):
            return target.round(limits[arguments[0] > 0])
        balls = list(map(ball, arguments))
        if enclosure is not None and all(map(math.isfinite, arguments)):
            result = enclosure(*balls)
            if type(result) is arb and is_narrow(result, _ENOUGH):
                return target.round(result)
        return target.round(function(*balls))

    return apply


def _divide(x: float, y: float) -> float:
    if y == 0:
        return math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1, y)
    return x / y


_POWERS: dict[Any, Elementwise] = {
    2: lambda x, _: x * x,
    -1: lambda x, _: _divide(1.0, x),
    0.5: lambda x, _: math.sqrt(x) if x >= 0 else math.nan,
}

_NATIVE: dict[str, Elementwise] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _divide,
    "neg": operator.neg,
    "abs": abs,
    "sign": lambda a: math.nan if math.isnan(a) else float((a > 0) - (a < 0)),
    "relu": lambda a: a if a > 0 or math.isnan(a) else 0.0,
    "maximum": lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else max(a, b),
    "minimum": lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else min(a, b),
    "clamp": lambda x, low, high: x if math.isnan(x) else min(max(x, low), high),
    "finite": lambda a: math.copysign(1e30, a) if math.isinf(a) else a,
    "where": lambda c, a, b: a if c else b,
    "not": lambda a: not a,
    "and": lambda *a: all(a),
    "or": lambda *a: any(a),
    "true": lambda: True,
    "false": lambda: False,
    **dict.fromkeys((WIDEN, DOUBLE, SINGLE), lambda a: a),
    **COMPARE,
}


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _softplus(x: float) -> float:
    return (x if x > 0 else 0.0) + math.log1p(math.exp(-abs(x)))


# For float32, whose rounding hides the last bits of a double; an exception means: ask mpmath.
_IN_DOUBLE: dict[str, Elementwise] = {
    "exp": math.exp,
    "expm1": math.expm1,
    "log": math.log,
    "log1p": math.log1p,
    "log2": math.log2,
    "log10": math.log10,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "atanh": math.atanh,
    "erf": math.erf,
    "erfc": math.erfc,
    "hypot": math.hypot,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "logsigmoid": lambda x: -_softplus(-x),
    "floor": lambda x: float(math.floor(x)),
    "ceil": lambda x: float(math.ceil(x)),
    "round": lambda x: float(round(x)),
}
_IN_DOUBLE |= {narrow: _IN_DOUBLE[name] for narrow, name in NARROW.items()}

# Limits that mpmath's functions, told of an infinity, do not all know.
_AT_INFINITY: dict[str, tuple[float, float]] = {  # at -inf, at +inf
    "exp": (0.0, math.inf),
    "expm1": (-1.0, math.inf),
    "log": (math.nan, math.inf),
    "log1p": (math.nan, math.inf),
    "log2": (math.nan, math.inf),
    "log10": (math.nan, math.inf),
    "sigmoid": (0.0, 1.0),
    "softplus": (0.0, math.inf),
    "logsigmoid": (-math.inf, 0.0),
    "tanh": (-1.0, 1.0),
    "sinh": (-math.inf, math.inf),
    "cosh": (math.inf, math.inf),
    "asinh": (-math.inf, math.inf),
    "acosh": (math.nan, math.inf),
    "atan": (-math.pi / 2, math.pi / 2),
    "erf": (-1.0, 1.0),
    "erfc": (2.0, 0.0),
    "erfcx": (math.inf, 0.0),
    "i0e": (0.0, 0.0),
    "i1e": (0.0, 0.0),
    "log_ndtr": (-math.inf, 0.0),
    "sin": (math.nan, math.nan),
    "cos": (math.nan, math.nan),
    "tan": (math.nan, math.nan),
    "sinc": (0.0, 0.0),
    "lgamma": (math.inf, math.inf),
    "digamma": (math.nan, math.inf),
    "floor": (-math.inf, math.inf),
    "ceil": (-math.inf, math.inf),
    "round": (-math.inf, math.inf),
}
