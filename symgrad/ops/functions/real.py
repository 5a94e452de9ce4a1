"""The meaning of each function over the reals, in mpmath at its current precision.

mpmath turns complex outside a domain and never overflows; these functions return NaN outside, and saturate where
the true value leaves every binary floating-point format (which also bounds time and memory).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

# Beyond this argument exp saturates: even its logarithm would be far outside every format symgrad knows. Exponents of
# mpmath numbers are integers of any length; this keeps them short.
HUGE = mp.mpf(2) ** 200

# Beyond this nothing is representable, and reducing an angle would take time without bound.
LARGEST = mp.mpf(2) ** 2000


def within(low: float, high: float, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`function` on [low, high], NaN outside."""
    return lambda x: function(x) if low <= x <= high else mp.nan


def exp(x: Any) -> Any:
    if abs(x) > HUGE:
        return mp.inf if x > 0 else mp.mpf(0)
    return mp.exp(x)


def expm1(x: Any) -> Any:
    if abs(x) > HUGE:
        return mp.inf if x > 0 else mp.mpf(-1)
    return _with_guard(x, lambda: mp.exp(x) - 1)


def log(x: Any) -> Any:
    if x == 0:
        return -mp.inf
    return mp.log(x) if x > 0 else mp.nan


def log1p(x: Any) -> Any:
    if x == -1:
        return -mp.inf
    return _with_guard(x, lambda: mp.log(1 + x)) if x > -1 else mp.nan


def _with_guard(x: Any, compute: Callable[[], Any]) -> Any:
    """A function that is about x near 0, computed with as many more bits as 1 + x would lose of x."""
    if not x or not mp.isfinite(x):
        return compute()
    lost = max(0, -int(mp.mag(x)))
    if lost > mp.mp.prec:
        return +x
    with mp.extraprec(lost + 10):
        result = compute()
    return +result


def log2(x: Any) -> Any:
    return log(x) / mp.log(2)


def log10(x: Any) -> Any:
    return log(x) / mp.log(10)


def sigmoid(x: Any) -> Any:
    if x >= 0:
        return 1 / (1 + exp(-x))
    e = exp(x)
    return e / (1 + e)


def softplus(x: Any) -> Any:
    return (x if x > 0 else mp.mpf(0)) + log1p(exp(-abs(x)))


def logsigmoid(x: Any) -> Any:
    return -softplus(-x)


def logaddexp(a: Any, b: Any) -> Any:
    if not (mp.isfinite(a) and mp.isfinite(b)):
        return mp.nan if mp.isnan(a) or mp.isnan(b) else max(a, b)
    return max(a, b) + log1p(exp(-abs(a - b)))


def xlogy(x: Any, y: Any) -> Any:
    return mp.mpf(0) if x == 0 else x * log(y)


def xlog1py(x: Any, y: Any) -> Any:
    return mp.mpf(0) if x == 0 else x * log1p(y)


def sin(x: Any) -> Any:
    return mp.sin(x) if abs(x) < LARGEST else mp.nan


def cos(x: Any) -> Any:
    return mp.cos(x) if abs(x) < LARGEST else mp.nan


def tan(x: Any) -> Any:
    return mp.tan(x) if abs(x) < LARGEST else mp.nan


def atan2(y: Any, x: Any) -> Any:
    return mp.atan2(y, x) if x or y else mp.mpf(0)


def sinh(x: Any) -> Any:
    return mp.sign(x) * mp.inf if abs(x) > HUGE else mp.sinh(x)


def cosh(x: Any) -> Any:
    return mp.inf if abs(x) > HUGE else mp.cosh(x)


def tanh(x: Any) -> Any:
    return mp.sign(x) * mp.mpf(1) if abs(x) > HUGE else mp.tanh(x)


def atanh(x: Any) -> Any:
    if abs(x) == 1:
        return mp.sign(x) * mp.inf
    return mp.atanh(x) if abs(x) < 1 else mp.nan


def sinc(x: Any) -> Any:
    return mp.sincpi(x) if abs(x) < LARGEST else mp.mpf(0)


def erf(x: Any) -> Any:
    return mp.sign(x) * mp.mpf(1) if abs(x) > HUGE else mp.erf(x)


def erfc(x: Any) -> Any:
    if x * x > HUGE:
        return mp.mpf(0) if x > 0 else mp.mpf(2)
    return mp.erfc(x)


def erfcx(x: Any) -> Any:
    """exp(x**2) * erfc(x)."""
    if x > 0 and x * x > mp.mp.prec:
        return _far_erfcx(x)
    if x * x > HUGE:
        return mp.inf
    with mp.extraprec(2 * max(0, int(mp.mag(x))) + 10 if x else 0):
        result = mp.exp(x * x) * mp.erfc(x)
    return +result


def _far_erfcx(x: Any) -> Any:
    """The asymptotic series, whose terms vanish in the precision before they grow."""
    with mp.extraprec(10):
        total = term = mp.mpf(1)
        n = 0
        while abs(term) > mp.eps:
            n += 1
            term *= -(2 * n - 1) / (2 * x * x)
            total += term
        result = total / (mp.sqrt(mp.pi) * x)
    return +result


def log_ndtr(x: Any) -> Any:
    """The logarithm of the normal distribution function."""
    y = x / mp.sqrt(2)
    if y < 0:
        return mp.log(_far_erfcx(-y) / 2) - y * y if y * y > mp.mp.prec else mp.log(mp.erfc(-y) / 2)
    return log1p(-mp.erfc(y) / 2) if x * x < HUGE else mp.mpf(0)


def erfinv(x: Any) -> Any:
    if abs(x) == 1:
        return mp.sign(x) * mp.inf
    return mp.erfinv(x) if abs(x) < 1 else mp.nan


def lgamma(x: Any) -> Any:
    if x <= 0 and x == mp.floor(x):
        return mp.inf
    return mp.re(mp.loggamma(x)) if mp.isfinite(x) else abs(x)


def polygamma(n: Any, x: Any) -> Any:
    if x <= 0 and x == mp.floor(x):
        return mp.nan
    order = int(n)
    if x > 0:
        return mp.polygamma(order, x)
    # The reflection formula, because mpmath counts its way up from a negative argument.
    return (-1) ** order * mp.polygamma(order, 1 - x) - mp.pi ** (order + 1) * _cot_derivative(order, mp.cot(mp.pi * x))


def _cot_derivative(order: int, cot: Any) -> Any:
    """The derivative of cot of the given order, as a polynomial in cot."""
    coefficients = [0, 1]  # by rising powers
    for _ in range(order):
        slope = [k * c for k, c in enumerate(coefficients)][1:]
        coefficients = [-a - b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return mp.polyval(coefficients[::-1], cot)


def relu(x: Any) -> Any:
    return x if x > 0 or mp.isnan(x) else mp.mpf(0)


def clamp(x: Any, low: Any, high: Any) -> Any:
    return min(max(x, low), high)


def finite(x: Any) -> Any:
    return mp.sign(x) * mp.mpf(10) ** 30 if mp.isinf(x) else x


def remainder(a: Any, b: Any) -> Any:
    """a - b*floor(a / b), with the bits that the product takes away."""
    return _left(a, b, mp.floor)


def fmod(a: Any, b: Any) -> Any:
    """The same with the quotient cut towards 0."""
    return _left(a, b, lambda turns: mp.floor(turns) if turns >= 0 else mp.ceil(turns))


def _left(a: Any, b: Any, whole: Callable[[Any], Any]) -> Any:
    if not b or not mp.isfinite(a) or mp.isnan(b):
        return mp.nan
    if mp.isinf(b):
        return a if whole(mp.sign(a) * mp.sign(b) / 2) == 0 else b  # a / b is next to 0, on this side of it
    bits = max(0, int(mp.mag(a)) - int(mp.mag(b))) if a else 0
    if bits > 20_000:
        return mp.nan
    with mp.extraprec(bits + 10):
        result = a - b * whole(a / b)
    return +result


def heaviside(x: Any, at_zero: Any) -> Any:
    return at_zero if x == 0 else mp.mpf(int(x > 0))


def power(x: Any, exponent: Any) -> Any:
    """x ** exponent over the reals, 0 ** 0 being 1 as in IEEE 754."""
    if exponent == 0:
        return mp.mpf(1)
    if x == 0:
        return mp.mpf(0) if exponent > 0 else mp.inf
    whole = exponent == mp.floor(exponent)
    if x < 0 and not whole:
        return mp.nan
    if abs(exponent) * max(1, abs(mp.mag(x))) > HUGE:
        size = exponent * mp.log(abs(x))
        if abs(size) > HUGE:
            odd = x < 0 and abs(exponent) < LARGEST and exponent % 2 == 1
            return (-mp.inf if odd else mp.inf) if size > 0 else mp.mpf(0)
        return mp.exp(size)
    return mp.power(x, exponent)


def besselk(order: int, x: Any) -> Any:
    """K by the trapezoidal rule for its integral over exp(-x*cosh(t)), which converges as fast as it can be added up.

    For positive x; scaled by exp(x) it would be the sum alone.
    """
    if x > HUGE:
        return mp.mpf(0)
    with mp.extraprec(40 + max(0, int(mp.mag(x)))):
        result = mp.exp(-x) * _scaled_besselk(order, x)
    return +result


def scaled_besselk(order: int, x: Any) -> Any:
    """exp(x) * K(x) for positive x."""
    if x > HUGE:
        return mp.sqrt(mp.pi / (2 * x))
    with mp.extraprec(40 + max(0, int(mp.mag(x)))):
        result = _scaled_besselk(order, x)
    return +result


def _scaled_besselk(order: int, x: Any) -> Any:
    digits = mp.mp.prec * mp.log(2)
    # The width of the integrand is that of exp(-x*t**2/2) for large x.
    step = mp.pi**2 / digits if x < digits else mp.pi * mp.sqrt(2 / (x * digits))
    grown = growth = mp.exp(step)
    total = mp.mpf(1) / 2
    while True:
        cosh = (grown + 1 / grown) / 2
        size = x * (cosh - 1)
        if size > digits + 10:
            return step * total
        total += mp.exp(-size) * (cosh if order else 1)
        grown *= growth


def bessely(order: int, x: Any) -> Any:
    """Y of order 0 or 1 for positive x: by its series, and where that would lose too much by mpmath."""
    if x >= LARGEST:
        return mp.nan
    if x > 30:
        return mp.bessely(order, x)
    with mp.extraprec(int(4 * x) + 40):
        half = x / 2
        log = mp.log(half) + mp.euler
        term = half if order else mp.mpf(1)
        total, k, harmonic = mp.mpf(0), 0, mp.mpf(0)  # of the numbers up to k
        while k < 2 or abs(term) * (1 + harmonic) > mp.eps * max(abs(total), mp.eps):
            later = harmonic + mp.mpf(1) / (k + 1) if order else harmonic
            total += term * (2 * log - harmonic - (later if order else harmonic))
            k += 1
            harmonic += mp.mpf(1) / k
            term *= -half * half / (k * (k + order))
        result = (total - (1 / half if order else 0)) / mp.pi
    return +result


def zeta(s: Any, q: Any) -> Any:
    """Hurwitz's zeta function for s > 1 and positive q: its leading term where nothing else is felt of it."""
    if s == 1 or (s > 1 and q == 0):
        return mp.inf
    if not s > 1 or not q > 0:
        return mp.nan
    if q > HUGE:
        return mp.mpf(0) if mp.isinf(q) or mp.isinf(s) else power(q, 1 - s) / (s - 1)
    return power(q, -s) if s > LARGEST else mp.zeta(s, q)


def lambertw(x: Any) -> Any:
    """The principal branch."""
    return mp.lambertw(x) if x >= -mp.exp(-1) else mp.nan


def lambertw_lower(x: Any) -> Any:
    """The branch below -1, of negative arguments."""
    if x == 0:
        return -mp.inf
    return mp.re(mp.lambertw(x, -1)) if -mp.exp(-1) <= x < 0 else mp.nan


def erfi(x: Any) -> Any:
    return mp.sign(x) * mp.inf if x * x > HUGE else mp.erfi(x)


def dawson(x: Any) -> Any:
    """exp(-x**2) times the integral of exp(t**2) from 0 to x."""
    if x * x > HUGE:
        return 1 / (2 * x)
    with mp.extraprec(2 * max(0, int(mp.mag(x))) + 10 if x else 0):
        result = mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)
    return +result


def dawson_prime(x: Any) -> Any:
    """The derivative of Dawson's integral, 1 - 2*x*dawson(x)."""
    if x * x > HUGE:
        return -1 / (2 * x * x)
    with mp.extraprec(2 * max(0, int(mp.mag(x))) + 10 if x else 0):
        result = 1 - 2 * x * dawson(x)
    return +result


def airy(order: int) -> Callable[[Any], Any]:
    """Airy's function Ai, or its derivative of order 1, which swings ever wider to the left."""

    def value(x: Any) -> Any:
        if x < -HUGE:
            return mp.nan if order or mp.isfinite(x) else mp.mpf(0)
        return mp.mpf(0) if x > HUGE else mp.airyai(x, derivative=order)

    return value
