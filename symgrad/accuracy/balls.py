"""The functions of the table on balls of Arb: enclosures of what they are worth over the reals, at any precision.

A function of this table is given finite numbers and returns a ball, a truth value, or None where it cannot tell: an
argument outside the domain, a comparison of balls that overlap, a value beyond every format. Then, and for functions
that are not here, mpmath decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import mpmath as mp
from flint import arb, ctx, fmpz

__all__ = [
    *("BALLS", "ball", "is_narrow", "midpoint", "power_by", "precision", "quotient", "rounded", "rounded_product"),
    *("rounded_sum", "to_mpf"),
]

_HUGE = arb(2) ** 200  # beyond it exponentials saturate, as in mpmath's table
_LARGEST_POWER = 2**40
_ZERO = arb(0)
_ONE = arb(1)
_HALF = arb(0.5)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute in Arb with `bits` inside the block."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def ball(value: Any) -> Any:
    """A number as a ball without radius; truth values and texts as they are."""
    if type(value) is float:
        return arb(value)
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, mp.mpf):
        if not mp.isfinite(value):
            return arb(float(value))
        sign, mantissa, exponent, _ = value._mpf_
        return arb((int(-mantissa if sign else mantissa), int(exponent)))
    return arb(value)


def to_mpf(value: Any) -> Any:
    """The midpoint of a ball in mpmath."""
    if isinstance(value, bool | str):
        return value
    if not value.is_finite():
        return mp.mpf(float(value))
    mantissa, exponent = value.mid().man_exp()
    return mp.make_mpf(mp.libmp.from_man_exp(int(mantissa), int(exponent)))


def is_narrow(value: Any, bits: int) -> bool:
    """Whether a ball tells the first bits of a finite value, or that it is 0."""
    return bool(value.is_finite() and (value.is_exact() or value.rel_accuracy_bits() >= bits))


_GUARD = 24  # bits that are computed and rounded away


def midpoint(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """A function of exact numbers to as many bits as the precision has; None where it cannot be told."""
    bits = int(ctx.prec)
    try:
        for more in (_GUARD, bits, 4 * bits):
            ctx.prec = bits + more
            result = function(*arguments)
            if result is None or isinstance(result, bool):
                return result
            if not result.is_finite():
                return None
            if result.is_exact() or result.rel_accuracy_bits() >= bits + _GUARD // 2:
                return rounded(result, bits)
        return None
    finally:
        ctx.prec = bits


def rounded(value: Any, bits: int) -> Any:
    """The midpoint of a ball rounded to nearest; Arb itself cuts off."""
    mantissa, exponent = value.mid().man_exp()
    extra = mantissa.bit_length() - bits
    if extra <= 0:
        return value.mid()
    return arb(((mantissa + (1 << (extra - 1))) >> extra, exponent + extra))


def rounded_sum(*terms: Any) -> Any:
    """The sum of exact numbers from left to right."""
    bits = int(ctx.prec)
    total = terms[0]
    ctx.prec = bits + _GUARD
    try:
        for term in terms[1:]:
            total = total + term
            if not total.is_finite():
                return total
            total = rounded(total, bits)
    finally:
        ctx.prec = bits
    return total


def quotient(over: int, under: int) -> Any:
    """A rational number rounded to nearest."""
    bits = int(ctx.prec)
    with precision(bits + _GUARD):
        return rounded(arb(over) / under, bits)


def rounded_product(*factors: Any) -> Any:
    """The product of exact numbers from left to right."""
    total = factors[0]
    for factor in factors[1:]:
        total = (total * factor).mid()
    return total


def _both(decided: Callable[[Any, Any], bool], refuted: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def compare(a: Any, b: Any) -> bool | None:
        return True if decided(a, b) else False if refuted(a, b) else None

    return compare


def _sum(*terms: Any) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _product(*factors: Any) -> Any:
    total = factors[0]
    for factor in factors[1:]:
        total = total * factor
    return total


def _moderate(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x) if abs(x) < _HUGE else None


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + (-x).exp()) if abs(x) < _HUGE else None


def _softplus(x: Any) -> Any:
    return x.max(_ZERO) + (-abs(x)).exp().log1p() if abs(x) < _HUGE else None


def _logsigmoid(x: Any) -> Any:
    found = _softplus(x * -1)
    return None if found is None else -found


def _logaddexp(a: Any, b: Any) -> Any:
    return a.max(b) + (-abs(a - b)).exp().log1p() if abs(a - b) < _HUGE else None


def _times_log(x: Any, log: Callable[[], Any]) -> Any:
    if x == 0:
        return _ZERO
    return None if x.contains(_ZERO) else x * log()


def _size(x: Any) -> int:
    """The bits before the point."""
    if x == 0:
        return 0
    mantissa, exponent = x.mid().man_exp()
    return max(0, int(mantissa).bit_length() + int(exponent))


@contextmanager
def _squared(x: Any) -> Iterator[None]:
    """As many more bits as exp(x**2) loses."""
    with precision(int(ctx.prec) + 2 * _size(x) + 10):
        yield


def _erfcx(x: Any) -> Any:
    if not abs(x) * abs(x) < _HUGE:
        return None
    with _squared(x):
        return (x * x).exp() * x.erfc()


def _log_ndtr(x: Any) -> Any:
    if not abs(x) * abs(x) < _HUGE:
        return None
    with _squared(x):
        y = x / arb(2).sqrt()
        return (-(y.erfc()) / 2).log1p() if y > 0 else ((-y).erfc() / 2).log()


def _positive(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x) if 0 < x < _HUGE else None


def _scaled_bessel_k(order: int, x: Any) -> Any:
    """By Tricomi's function: at some hundreds Arb's own takes seconds for 1000 bits, and minutes for 3000."""
    return arb.pi().sqrt() * (2 * x) ** order * (2 * x).hypgeom_u(order + _HALF, arb(2 * order + 1))


def _incomplete(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, x: function(a, x) if 0 < a < _HUGE and 0 < x < _HUGE else None


def _dawson(x: Any) -> Any:
    if not abs(x) * abs(x) < _HUGE:
        return None
    with _squared(x):
        return arb.const_sqrt_pi() / 2 * (-x * x).exp() * x.erfi()


def _dawson_prime(x: Any) -> Any:
    if not abs(x) * abs(x) < _HUGE:
        return None
    with _squared(x):
        return 1 - arb.const_sqrt_pi() * x * (-x * x).exp() * x.erfi()


def _erfc(x: Any) -> Any:
    return x.erfc() if abs(x) * abs(x) < _HUGE else None


def _polygamma(n: Any, x: Any) -> Any:
    order = _integer(n)
    if order is None or order < 1 or not x > 0:
        return None
    return (-1) ** (order + 1) * arb(order).fac() * arb(order + 1).zeta(x)


def _integer(x: Any) -> int | None:
    """The integer that an exact number is."""
    if not x.is_exact() or not x.is_integer() or not abs(x) < _LARGEST_POWER:
        return None
    found: fmpz | None = x.unique_fmpz()
    return None if found is None else int(found)


def power_by(exponent: Any) -> Callable[[Any], Any]:
    """The power with one exponent."""
    whole = _integer(exponent)
    if whole is not None:
        return partial(_whole_power, whole)
    if not abs(exponent) < _LARGEST_POWER:
        return lambda x: None
    if exponent == 0.5:
        return lambda x: x.sqrt() if x > 0 else None
    if exponent == -0.5:
        return lambda x: 1 / x.sqrt() if x > 0 else None
    return lambda x: x**exponent if x > 0 else None


def _whole_power(n: int, x: Any) -> Any:
    if x == 0:
        return _ONE if n == 0 else _ZERO if n > 0 else None
    return x**n if n >= 0 else 1 / x**-n


def _power(x: Any, exponent: Any) -> Any:
    return power_by(exponent)(x)


def _sign(x: Any) -> Any:
    return _ONE if x > 0 else -_ONE if x < 0 else _ZERO if x == 0 else None


def _whole(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function with steps, where it can be told on which the argument is."""

    def apply(x: Any) -> Any:
        found = function(x)
        return found if found.is_exact() else None

    return apply


def _round(x: Any) -> Any:
    """To the nearest integer, of two the even one."""
    above = x + _HALF
    found = above.floor()
    if not found.is_exact() or (above.contains(found) and not above.is_exact()):
        return None
    return found - 1 if above == found and not (found / 2).is_integer() else found


def _hypot(a: Any, b: Any) -> Any:
    return (a * a + b * b).sqrt()


def _atan2(y: Any, x: Any) -> Any:
    if x == 0 and y == 0:
        return _ZERO
    return arb.atan2(y, x)


BALLS: Mapping[str, Callable[..., Any]] = {
    "add": _sum,
    "mul": _product,
    "pow": _power,
    "neg": lambda x: -x,
    "sub": lambda a, b: a - b,
    "div": lambda a, b: a / b,
    "abs": abs,
    "sign": _sign,
    "relu": lambda x: x.max(_ZERO),
    "maximum": lambda a, b: a.max(b),
    "minimum": lambda a, b: a.min(b),
    "clamp": lambda x, low, high: x.max(low).min(high),
    "lt": _both(lambda a, b: a < b, lambda a, b: a >= b),
    "le": _both(lambda a, b: a <= b, lambda a, b: a > b),
    "gt": _both(lambda a, b: a > b, lambda a, b: a <= b),
    "ge": _both(lambda a, b: a >= b, lambda a, b: a < b),
    "eq": _both(lambda a, b: a == b, lambda a, b: a != b),
    "ne": _both(lambda a, b: a != b, lambda a, b: a == b),
    "exp": _moderate(arb.exp),
    "expm1": _moderate(arb.expm1),
    "log": lambda x: x.log() if x > 0 else None,
    "log1p": lambda x: x.log1p() if x > -1 else None,
    "log2": lambda x: x.log() / arb(2).log() if x > 0 else None,
    "log10": lambda x: x.log() / arb(10).log() if x > 0 else None,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "logsigmoid": _logsigmoid,
    "logaddexp": _logaddexp,
    "xlogy": lambda x, y: _times_log(x, lambda: y.log()),
    "xlog1py": lambda x, y: _times_log(x, lambda: y.log1p()),
    "sin": _moderate(arb.sin),
    "cos": _moderate(arb.cos),
    "tan": _moderate(arb.tan),
    "asin": arb.asin,
    "acos": arb.acos,
    "atan": arb.atan,
    "atan2": _atan2,
    "sinh": _moderate(arb.sinh),
    "cosh": _moderate(arb.cosh),
    "tanh": _moderate(arb.tanh),
    "asinh": arb.asinh,
    "acosh": lambda x: x.acosh() if x >= 1 else None,
    "atanh": lambda x: x.atanh() if abs(x) < 1 else None,
    "erf": _moderate(arb.erf),
    "erfc": _erfc,
    "erfcx": _erfcx,
    "log_ndtr": _log_ndtr,
    "erfi": lambda x: x.erfi() if abs(x) * abs(x) < _HUGE else None,
    "erfinv": lambda x: x.erfinv() if abs(x) < 1 else None,
    "ndtri": lambda x: -arb(2).sqrt() * (2 * x).erfcinv() if 0 < x < 1 else None,
    "dawson": _dawson,
    "dawson_prime": _dawson_prime,
    "airy_ai": _moderate(arb.airy_ai),
    "airy_ai_prime": _moderate(lambda x: x.airy_ai(derivative=1)),
    "bessel_j0": _moderate(lambda x: x.bessel_j(0)),
    "bessel_j1": _moderate(lambda x: x.bessel_j(1)),
    "bessel_y0": _positive(lambda x: x.bessel_y(0)),
    "bessel_y1": _positive(lambda x: x.bessel_y(1)),
    "i0": _moderate(lambda x: x.bessel_i(0)),
    "i1": _moderate(lambda x: x.bessel_i(1)),
    "i0e": _moderate(lambda x: abs(x).bessel_i(0, scaled=True)),
    "i1e": _moderate(lambda x: _sign(x) * abs(x).bessel_i(1, scaled=True)),
    "modified_bessel_k0": _positive(lambda x: _scaled_bessel_k(0, x) * (-x).exp()),
    "modified_bessel_k1": _positive(lambda x: _scaled_bessel_k(1, x) * (-x).exp()),
    "scaled_modified_bessel_k0": _positive(lambda x: _scaled_bessel_k(0, x)),
    "scaled_modified_bessel_k1": _positive(lambda x: _scaled_bessel_k(1, x)),
    "gammainc": _incomplete(lambda a, x: x.gamma_lower(a, regularized=1)),
    "gammaincc": _incomplete(lambda a, x: x.gamma_upper(a, regularized=1)),
    "zeta": lambda s, q: s.zeta(q) if s > 1 and q > 0 else None,
    "lambertw": _moderate(arb.lambertw),
    "lambertw_lower": _moderate(lambda x: x.lambertw(-1)),
    "lgamma": lambda x: x.lgamma() if x > 0 else None,
    "digamma": lambda x: x.digamma() if x > 0 else None,
    "polygamma": _polygamma,
    "floor": _whole(arb.floor),
    "ceil": _whole(arb.ceil),
    "round": _round,
    "hypot": _hypot,
}
