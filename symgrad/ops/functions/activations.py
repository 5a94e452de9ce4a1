"""Activations and other small functions by the names that torch has for them, with its slopes at their kinks."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from symgrad.ir.expr import HALF, ONE, OO, ZERO, Expr, make, num
from symgrad.ir.truth import compare, where
from symgrad.ops.functions.row import Function

THREE, SIX = num(3), num(6)
_SELU_ALPHA = num(Fraction("1.6732632423543772848170429916717"))
_SELU_SCALE = num(Fraction("1.0507009873554804934193349852946"))


def _elu(x: Expr, alpha: Expr = ONE) -> Expr:
    return where(compare("gt", x, ZERO), x, alpha * make("expm1", x))


def _celu(x: Expr, alpha: Expr = ONE) -> Expr:
    return where(compare("gt", x, ZERO), x, alpha * make("expm1", x / alpha))


def _selu(x: Expr) -> Expr:
    return _SELU_SCALE * _elu(x, _SELU_ALPHA)


def _leaky_relu(x: Expr, negative_slope: Expr = num(Fraction("0.01"))) -> Expr:  # noqa: B008 (an immutable node)
    return where(compare("gt", x, ZERO), x, negative_slope * x)


def _threshold(x: Expr, threshold: Expr, value: Expr) -> Expr:
    return where(compare("gt", x, threshold), x, value)


def _hardtanh(x: Expr, min_val: Expr = -ONE, max_val: Expr = ONE) -> Expr:
    """The open interval passes the gradient, as in torch, and unlike clamp."""
    return where(compare("le", x, min_val), min_val, where(compare("ge", x, max_val), max_val, x))


def _hardsigmoid(x: Expr) -> Expr:
    return _hardtanh(x / SIX + HALF, ZERO, ONE)


def _hardswish(x: Expr) -> Expr:
    return where(compare("le", x, -THREE), ZERO, where(compare("gt", x, THREE), x, x * (x + THREE) / SIX))


def _softshrink(x: Expr, lambd: Expr = HALF) -> Expr:
    return where(compare("gt", x, lambd), x - lambd, where(compare("lt", x, -lambd), x + lambd, ZERO))


def _hardshrink(x: Expr, lambd: Expr = HALF) -> Expr:
    return where(compare("gt", make("abs", x), lambd), x, ZERO)


def _trunc(x: Expr) -> Expr:
    return make("sign", x) * make("floor", make("abs", x))


def _is_nan(x: Expr) -> Expr:
    return compare("ne", x, x)


def _is_infinite(x: Expr) -> Expr:
    return compare("eq", make("abs", x), OO)


def _nan_to_num(x: Expr, nan: Expr, posinf: Expr, neginf: Expr) -> Expr:
    """Finite elements pass the gradient, as in torch; oo and -oo keep infinities, and no dtype has limits of its own."""
    infinite = where(compare("eq", x, OO), posinf, where(compare("eq", x, -OO), neginf, x))
    return where(_is_nan(x), nan, infinite)


def _of(name: str, definition: Callable[..., Expr], *more: str, aliases: tuple[str, ...] = ()) -> Function:
    return Function(name, ("x", *more), definition=definition, aliases=aliases)


ROWS = (
    _of("elu", _elu, "alpha"),
    _of("celu", _celu, "alpha"),
    _of("selu", _selu),
    _of("leaky_relu", _leaky_relu, "negative_slope"),
    _of("threshold", _threshold, "threshold", "value"),
    _of("hardtanh", _hardtanh, "min_val", "max_val"),
    _of("relu6", lambda x: _hardtanh(x, ZERO, SIX)),
    _of("hardsigmoid", _hardsigmoid),
    _of("hardswish", _hardswish),
    _of("softshrink", _softshrink, "lambd"),
    _of("hardshrink", _hardshrink, "lambd"),
    _of("tanhshrink", lambda x: x - make("tanh", x)),
    _of("softsign", lambda x: x / (ONE + make("abs", x))),
    _of("mish", lambda x: x * make("tanh", make("softplus", x))),
    _of("logit", lambda x: make("log", x) - make("log1p", -x)),
    _of("exp2", lambda x: num(2) ** x),
    _of("trunc", _trunc, aliases=("fix",)),
    _of("isnan", _is_nan),
    _of("isinf", _is_infinite),
    _of("isfinite", lambda x: compare("lt", make("abs", x), OO)),
    _of("nan_to_num", _nan_to_num, "nan", "posinf", "neginf"),
    _of("lerp", lambda x, end, weight: x + weight * (end - x), "end", "weight"),
    _of("addcmul", lambda x, a, b, value=ONE: x + value * a * b, "tensor1", "tensor2", "value"),
    _of("addcdiv", lambda x, a, b, value=ONE: x + value * a / b, "tensor1", "tensor2", "value"),
)
