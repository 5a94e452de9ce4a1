"""What an expression is worth: exactly, in mpmath, and in a floating-point format, operation by operation.

`truth` is the reference for every accuracy figure. `simulate` is an idealised machine: each operation correctly rounded
to the format, the same on every computer, so that what symgrad writes never depends on where it ran.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from ctypes import c_float
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath as mp

from symgrad.expr import COMPARISONS, Expr, topological
from symgrad.functions import FUNCTIONS, real

Environment = Mapping[Expr, Any]

_CONSTANTS = {"pi": lambda: +mp.pi, "E": lambda: +mp.e, "oo": lambda: mp.inf, "nan": lambda: mp.nan}

_COMPARE = {
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
        exponent = max(mp.frexp(value)[1], self.min_exponent) if value else self.min_exponent
        return mp.ldexp(1, int(exponent) - self.precision)

    def round(self, value: Any) -> float:
        """`value` (Python float or mpf) rounded to nearest in this format."""
        number = float(value)
        return c_float(number).value if self.precision == 24 else number


FLOAT32 = Format("float32", 24, 3.4028234663852886e38, -125)
FLOAT64 = Format("float64", 53, 1.7976931348623157e308, -1021)


class TruthUndecided(ArithmeticError):
    """Two precisions disagree: cancellation beyond what was tried."""


def meaning(op: str, node: Expr) -> Any:
    """The mpmath function of an operation."""
    return _ARITHMETIC.get(op) or FUNCTIONS[op].meaning


def _product(*factors: Any) -> Any:
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def _total(*terms: Any) -> Any:
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


_ARITHMETIC: dict[str, Any] = {
    "add": _total,
    "mul": _product,
    "pow": real.power,
    "not": lambda a: not a,
    "and": lambda *a: all(a),
    "or": lambda *a: any(a),
    "where": lambda c, a, b: a if c else b,
    "true": lambda: True,
    "false": lambda: False,
    **_COMPARE,
}

_UNDEFINED = (ValueError, ZeroDivisionError, OverflowError, TypeError, NotImplementedError)


def exact(roots: Sequence[Expr], environment: Environment, bits: int) -> list[Any]:
    """Values of the roots in mpmath with `bits` of precision; NaN where undefined over the reals."""
    with mp.workprec(bits):
        values: dict[Expr, Any] = {}
        for node in topological(*roots):
            values[node] = _exact_node(node, values, environment)
        return [values[r] for r in roots]


def _exact_node(node: Expr, values: Mapping[Expr, Any], environment: Environment) -> Any:
    if node.op == "sym":
        value = environment[node]
        return value if isinstance(value, bool | str) else mp.mpf(value)
    if node.op == "num":
        fraction: Fraction = node["value"]
        return mp.mpf(fraction.numerator) / fraction.denominator
    if node.op == "const":
        return _CONSTANTS[node["name"]]()
    if node.op == "text":
        return node["value"]
    arguments = [values[a] for a in node.args]
    if node.op in COMPARISONS and any(mp.isnan(a) for a in arguments if isinstance(a, mp.mpf)):
        return node.op == "ne"
    try:
        result = meaning(node.op, node)(*arguments)
    except _UNDEFINED:
        return mp.nan
    return mp.nan if isinstance(result, mp.mpc) else result


def truth(roots: Sequence[Expr], environment: Environment) -> list[Any]:
    """Values of the roots to at least 70 correct bits, by evaluation at growing precision.

    An undecided value (cancellation beyond 1500 bits) is None, one too small for any format is 0.
    """
    found: list[Any] = [None] * len(roots)
    previous = exact(roots, environment, 120)
    for bits in (240, 600, 1500):
        current = exact(roots, environment, bits)
        for i, (coarse, fine) in enumerate(zip(previous, current, strict=True)):
            if found[i] is None and _agree(coarse, fine):
                found[i] = fine
        if all(v is not None for v in found):
            break
        previous = current
    return found


def _agree(coarse: Any, fine: Any) -> bool:
    if isinstance(fine, bool | str):
        return bool(coarse == fine)
    if mp.isnan(fine) or mp.isinf(fine):
        return str(coarse) == str(fine)
    if not mp.isfinite(coarse):
        return False
    difference = abs(coarse - fine)
    return bool(difference <= abs(fine) * mp.mpf(2) ** -70 or max(abs(coarse), abs(fine)) < mp.mpf(2) ** -2000)


# ------------------------------------------------------------------------------------------------ simulation
_BITS = 90  # working precision from which one correct rounding is made


def simulate(roots: Sequence[Expr], environment: Environment, target: Format) -> list[Any]:
    """Values of machine-level roots, every tensor operation correctly rounded to `target`.

    Python scalars (no tensor below them) are computed in float64, as generated code does.
    """
    values: dict[Expr, Any] = {}
    with mp.workprec(_BITS):
        for node in topological(*roots):
            if node.op == "sym":
                value = environment[node]
                values[node] = value if isinstance(value, bool | str) else float(value)
            elif node.op in ("num", "const", "text"):
                value = _exact_node(node, values, environment)
                values[node] = value if isinstance(value, str) else float(value)
            else:
                scalar = node.is_static
                arguments = [_operand(values[a], a, target, scalar) for a in node.args]
                values[node] = _rounded(node, arguments, FLOAT64 if scalar else target)
    return [values[r] for r in roots]


def _operand(value: Any, node: Expr, target: Format, scalar: bool) -> Any:
    """Python scalars enter a tensor operation in its format."""
    if scalar or isinstance(value, bool | str) or node.tensors:
        return value
    return target.round(value)


def _float_power(x: float, exponent: float) -> Any:
    if exponent == 2:
        return x * x
    if exponent == 0.5:
        return math.sqrt(x) if x >= 0 else math.nan
    if exponent == -1:
        return _divide(1.0, x)
    return None


def _divide(x: float, y: float) -> float:
    if y == 0:
        return math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1, y)
    return x / y


# Exact enough in double for both formats: correctly rounded in float64, and innocuously twice in float32.
_NATIVE: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "neg": lambda a: -a,
    "abs": abs,
    "sign": lambda a: math.nan if math.isnan(a) else float((a > 0) - (a < 0)),
    "relu": lambda a: a if a > 0 or math.isnan(a) else 0.0,
    "maximum": lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else max(a, b),
    "minimum": lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else min(a, b),
    "clamp": lambda x, low, high: x if math.isnan(x) else min(max(x, low), high),
    "where": lambda c, a, b: a if c else b,
    "not": lambda a: not a,
    "and": lambda *a: all(a),
    "or": lambda *a: any(a),
    "true": lambda: True,
    "false": lambda: False,
    **_COMPARE,
}

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


def _rounded(node: Expr, arguments: list[Any], target: Format) -> Any:
    native = _NATIVE.get(node.op)
    if native is not None and len(arguments) == 2 and node.op in ("add", "mul"):
        return target.round(native(*arguments))
    if native is not None and node.op not in ("add", "mul"):
        result = native(*arguments)
        return result if isinstance(result, bool | str) else target.round(result)
    if native is not None:  # n-ary sums and products, from left to right
        result = arguments[0]
        for argument in arguments[1:]:
            result = target.round(native(result, argument))
        return result
    if node.op == "pow":
        result = _float_power(*arguments)
        if result is not None:
            return target.round(result)
    if any(math.isnan(a) for a in arguments if isinstance(a, float)):
        return math.nan
    if len(arguments) == 1 and math.isinf(arguments[0]) and node.op in _AT_INFINITY:
        return target.round(_AT_INFINITY[node.op][arguments[0] > 0])
    try:
        result = meaning(node.op, node)(*(mp.mpf(a) if isinstance(a, float) else a for a in arguments))
    except _UNDEFINED:
        return math.nan
    return math.nan if isinstance(result, mp.mpc) else target.round(result)
