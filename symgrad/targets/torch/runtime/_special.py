"""Functions that torch lacks, cannot differentiate, or computes with few digits, in torch.

Everything is made of torch's operations on whole tensors, so that
autograd, forward mode, vmap and torch.compile see through it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import torch
from torch import Tensor
from torch.nn import functional as F

from . import _runtime as rt


def _attached(x: Tensor, value: Tensor, *slopes: Tensor) -> Tensor:
    """`value`, which belongs to x without its history, with derivatives: Taylor's polynomial about x, at x.

    The slopes in it are finite: 0 times infinity is none. At a pole, where some are no number, it is a steep line.
    """
    offset = torch.where(x.isinf(), 0, x - x.detach())
    total = torch.zeros_like(value)
    for order in range(len(slopes), 0, -1):
        total = offset / order * (torch.nan_to_num(slopes[order - 1], nan=float("nan")) + total)
    return value + torch.where(value.isinf(), offset * torch.finfo(value.dtype).max, total)


def _bessel_slopes(zero: Tensor, one: Tensor, x: Tensor, turn: float, *, regular: bool) -> tuple[Tensor, ...]:
    """The first three derivatives of C1, where C0' = -C1 and C1' = turn*C0 - C1/x.

    About 0 differences of quotients cancel, and overflow: those of J, which is `regular` there, are series.
    """
    near = x.abs() <= ((0.02 if x.dtype == torch.float64 else 0.25) if regular else 0)
    square = x * x
    quotient = torch.where(near, 0.5 - square * (1 / 16 - square * (1 / 384 - square / 18432)), one / x)
    first = turn * zero - quotient
    # d/dx of C1/x is (C1' - C1/x) / x, which is 0 at 0.
    bend = torch.where(near, -x / 8 * (1 - square / 12 * (1 - square / 32)), (first - quotient) / x)
    second = -turn * one - bend
    third_of_quotient = torch.where(near, square * (1 / 32 - square * 5 / 3072) - 0.125, (second - 2 * bend) / x)
    third = -turn * first - third_of_quotient
    return first, second, third


def _bessel(order: int, x: Tensor, kind: str, turn: float, *, regular: bool = False, scaled: bool = False) -> Tensor:
    """A Bessel function of order 0 or 1, with derivatives by that of the other; `scaled` by exp(x)."""
    functions = getattr(torch.special, f"{kind}0"), getattr(torch.special, f"{kind}1")
    if not rt.differentiated():
        plain: Tensor = functions[order](x)
        return plain
    at = x.detach()
    zero, one = (function(at) for function in functions)
    slopes = _bessel_slopes(zero, one, at, turn, regular=regular)
    value, (d1, d2, d3) = (one, slopes) if order else (zero, (-one, -slopes[0], -slopes[1]))
    if scaled:  # the slopes are those of the function that exp(x) multiplies
        d1, d2, d3 = value + d1, value + 2 * d1 + d2, value + 3 * d1 + 3 * d2 + d3
    return _attached(x, value, d1, d2, d3)


def bessel_j0(x: Tensor) -> Tensor:
    return _bessel(0, x, "bessel_j", 1.0, regular=True)


def bessel_j1(x: Tensor) -> Tensor:
    return _bessel(1, x, "bessel_j", 1.0, regular=True)


def bessel_y0(x: Tensor) -> Tensor:
    return _bessel(0, x, "bessel_y", 1.0)


def bessel_y1(x: Tensor) -> Tensor:
    return _bessel(1, x, "bessel_y", 1.0)


def modified_bessel_k0(x: Tensor) -> Tensor:
    return _bessel(0, x, "modified_bessel_k", -1.0)


def modified_bessel_k1(x: Tensor) -> Tensor:
    return _bessel(1, x, "modified_bessel_k", -1.0)


def scaled_modified_bessel_k0(x: Tensor) -> Tensor:
    return _bessel(0, x, "scaled_modified_bessel_k", -1.0, scaled=True)


def scaled_modified_bessel_k1(x: Tensor) -> Tensor:
    return _bessel(1, x, "scaled_modified_bessel_k", -1.0, scaled=True)


def gammainc(a: Tensor, x: Tensor) -> Tensor:
    return _incomplete(torch.special.gammainc, 1.0, a, x)


def gammaincc(a: Tensor, x: Tensor) -> Tensor:
    return _incomplete(torch.special.gammaincc, -1.0, a, x)


def _incomplete(function: Callable[[Tensor, Tensor], Tensor], sign: float, a: Tensor, x: Tensor) -> Tensor:
    """An incomplete gamma function, of which torch has no forward mode."""
    if not rt.differentiated():
        return function(a, x)
    at, scale = x.detach(), -torch.lgamma(a)

    def term(factor: Tensor, power: int) -> Tensor:  # factor * x**(a - power) / (exp(x) * gamma(a))
        value = factor * torch.exp(torch.xlogy(a - power, at) - at + scale)
        return torch.where(factor == 0, 0, value)  # not 0 times infinity, which x = 0 gives

    first, b = torch.exp(torch.xlogy(a - 1, at) - at + scale), a - 1
    second, third = term(b, 2) - first, term(b * (a - 2), 3) - term(2 * b, 2) + first
    return _attached(x, function(a, at), sign * first, sign * second, sign * third)


def zeta(s: Tensor, q: Tensor) -> Tensor:
    """Hurwitz's zeta function, of which torch has no forward mode."""
    own: Callable[[Tensor, Tensor], Tensor] = torch.special.zeta
    if not rt.differentiated():
        return own(s, q)
    at = q.detach()
    first, second = -s * own(s + 1, at), s * (s + 1) * own(s + 2, at)
    return _attached(q, own(s, at), first, second, -s * (s + 1) * (s + 2) * own(s + 3, at))


def lambertw(x: Tensor) -> Tensor:
    """The principal branch of the Lambert W function, for x >= -1/e; NaN below.

    A guess (the series about the branch point, or logarithms) and Halley's iteration on w + log(w) = log(x) or
    on w*exp(w) = x; two last steps of Newton's give autograd derivatives up to the third order.
    """
    at = x.detach()
    p = torch.sqrt(torch.clamp(2 * (at * 2.718281828459045 + 1), min=0))
    near = -1 + p * (1 + p * (-1 / 3 + p * (11 / 72 - p * (43 / 540))))
    log = torch.log(torch.clamp(at, min=1e-30))
    far = log - torch.log(torch.clamp(log, min=1.0))
    w = torch.where(at < 1.5, torch.where(at < 0.3, near, torch.log1p(torch.clamp(at, min=-0.3)) * 0.75), far)
    for _ in range(6):
        # For large w the logarithmic form neither overflows nor cancels.
        large = w - torch.log(torch.clamp(at, min=1e-30)) + torch.log(torch.clamp(w, min=1e-30))
        grown = torch.exp(torch.clamp(w, max=3.0))
        small = w * grown - at
        step = small / torch.clamp(grown * (w + 1) - (w + 2) * small / (2 * (w + 1).clamp(min=1e-12)), min=1e-300)
        w = torch.where(w > 2, w - large * w / (1 + w), w - torch.where(small == 0, torch.zeros_like(w), step))
    w = torch.where(p == 0, torch.full_like(w, -1.0), w)
    w = torch.where(at * 2.718281828459045 < -1 - 1e-15, float("nan"), w)
    return torch.where(at == float("inf"), at, w)


def lambertw_lower(x: Tensor) -> Tensor:
    """The branch of the Lambert W function below -1, for -1/e <= x < 0; NaN elsewhere, and -inf at 0.

    A guess (the series about the branch point, or logarithms) and Halley's iteration on w*exp(w) = x near it, Newton's
    on w + log(-w) = log(-x) far from it.
    """
    at = x.detach()
    p = -torch.sqrt(torch.clamp(2 * (at * 2.718281828459045 + 1), min=0))
    near = -1 + p * (1 + p * (-1 / 3 + p * (11 / 72 - p * (43 / 540))))
    log = torch.log(torch.clamp(-at, min=1e-320))
    far = log - torch.log(torch.clamp(-log, min=1.0))
    w = torch.where(at < -0.2, near, torch.clamp(far, max=-1.5))
    for _ in range(6):
        over = torch.clamp(w + 1, max=-1e-12)
        grown = torch.exp(w)
        small = w * grown - at
        step = small / (grown * over - (w + 2) * small / (2 * over))
        halley = w - torch.where(small == 0, torch.zeros_like(w), step)
        newton = w - (w + torch.log(torch.clamp(-w, min=1.0)) - log) * w / over
        w = torch.clamp(torch.where(w < -2, newton, halley), max=-1.0)
    w = torch.where(p == 0, torch.full_like(w, -1.0), w)
    inside = (at * 2.718281828459045 >= -1 - 1e-15) & (at <= 0)
    return torch.where(at == 0, -float("inf"), torch.where(inside, w, float("nan")))


def dawson(x: Tensor) -> Tensor:
    """Dawson's integral, exp(-x**2) times the integral of exp(t**2) from 0 to x.

    Rybicki's exponentially accurate sum with steps of 1/4 (G. B. Rybicki, 1989), and the power series near 0.
    """
    square = x * x
    series = torch.zeros_like(x)
    for k in range(14, 0, -1):  # of (-2)**k / (2k+1)!! * x**(2k)
        series = -2 * square / (2 * k + 1) * (1 + series)
    middle, offset = _in_steps(x)
    total = torch.zeros_like(x)
    for odd in range(-27, 28, 2):
        total = total + torch.exp(-((offset - 0.25 * odd) ** 2)) / (middle + odd)
    far = torch.sign(x) * total * 0.5641895835477563
    far = torch.where(torch.abs(x) > 1e4, 0.5 / x * (1 + 0.5 / square), far)
    return torch.where(torch.abs(x) < 0.8, x * (1 + series), far)


def _in_steps(x: Tensor) -> tuple[Tensor, Tensor]:
    """|x| as an even number of steps of 1/4 and what is left."""
    size = torch.clamp(torch.abs(x), max=1e8)
    middle = 2 * torch.round(size / 0.5)
    return middle, size - 0.25 * middle


def dawson_prime(x: Tensor) -> Tensor:
    """Its derivative, 1 - 2*x*dawson(x), which cancels where x is large, and has a root.

    In the derivative of the sum 1/(m + k) is -k/(m*(m + k)) more than 1/m, whose own sum is 0; so nothing is left to
    cancel. The power series near 0, Taylor's about the root, an asymptotic series far out.
    """
    square = x * x
    near = torch.zeros_like(x)
    for k in range(16, 0, -1):  # of (-2)**k / (2k-1)!! * x**(2k)
        near = -2 * square / (2 * k - 1) * (1 + near)
    middle, offset = _in_steps(x)
    total = torch.zeros_like(x)
    for odd in range(-27, 28, 2):
        away = 0.25 * odd - offset
        total = total + away * torch.exp(-away * away) * odd / (middle + odd)
    value = -1.1283791670955126 * total / torch.clamp(middle, min=1.0)
    over = 0.5 / square
    series = torch.zeros_like(x)
    for k in range(7, 1, -1):  # of (2k-1)!! / (2*x**2)**(k-1)
        series = (2 * k - 1) * over * (1 + series)
    value = torch.where(torch.abs(x) > 64, -over * (1 + series), value)
    value = torch.where(torch.abs(x) < 0.8, 1 + near, value)
    beside = (torch.abs(x) - 0.9241388440132141) - 2.89913776556847e-08  # the root, in two parts
    rooted = torch.zeros_like(x)
    for slope in reversed(_DAWSON_AT_ROOT):
        rooted = (slope + rooted) * beside
    return torch.where(torch.abs(beside) < 0.2, rooted, value)


def _taylor_of_dawson(at: float, value: float, order: int) -> list[float]:
    """Coefficients of the derivative's Taylor series at its root, by y' = 1 - 2*x*y."""
    found = [value, 0.0]
    for k in range(1, order):
        found.append(-2 * (at * found[k] + found[k - 1]) / (k + 1))
    return [k * found[k] for k in range(2, order + 1)]


_DAWSON_AT_ROOT = _taylor_of_dawson(0.924138873004591767, 0.5410442246351816, 22)


def lambertw_by_autograd(x: Tensor) -> Tensor:
    return _with_slopes(x, lambertw(x.detach()))


def lambertw_lower_by_autograd(x: Tensor) -> Tensor:
    return _with_slopes(x, lambertw_lower(x.detach()))


def _with_slopes(x: Tensor, w: Tensor) -> Tensor:
    """A branch of the Lambert W function with its first three derivatives."""
    if not rt.differentiated():
        return w
    first = torch.exp(-w) / (1 + w)
    second = -torch.exp(-2 * w) * (w + 2) / (1 + w) ** 3
    third = torch.exp(-3 * w) * (2 * w * w + 8 * w + 9) / (1 + w) ** 5
    return _attached(x, w, first, second, third)


def dawson_by_autograd(x: Tensor) -> Tensor:
    if not rt.differentiated():
        return dawson(x)
    at = x.detach()
    value, first = dawson(at), dawson_prime(at)
    second = -2 * value - 2 * at * first
    return _attached(x, value, first, second, -4 * first - 2 * at * second)


def dawson_prime_by_autograd(x: Tensor) -> Tensor:
    if not rt.differentiated():
        return dawson_prime(x)
    at = x.detach()
    value, first = dawson(at), dawson_prime(at)
    second = -2 * value - 2 * at * first
    third = -4 * first - 2 * at * second
    return _attached(x, first, second, third, -6 * second - 2 * at * third)


def _grown(x: Tensor, value: Tensor) -> Tensor:
    """exp(x**2) * value; the square is taken apart, as its rounding would be felt, and overflow comes last."""
    near = torch.round(torch.clamp(x, min=-40.0, max=40.0) * 16) / 16  # its square has no rounding error
    half = torch.exp(near * near / 2)
    return half * (torch.exp((x - near) * (x + near)) * value) * half


def erfi(x: Tensor) -> Tensor:
    value = 1.1283791670955126 * _grown(x, dawson(x))
    return torch.where(torch.abs(x) == float("inf"), x, value)


def erfi_by_autograd(x: Tensor) -> Tensor:
    return 1.1283791670955126 * _grown(x, dawson_by_autograd(x))


# ------------------------------------------------------------------------------------------ digamma and trigamma
_ROOT = 1.4616321325302124, 1.2438149938918909e-08  # of digamma: a number of float32, and the rest
# digamma(x) by powers of the distance from its root, up to half of one; interpolated at Chebyshev's points.
_DIGAMMA = (
    *(0.9676722454476212, -0.44276316898359214, 0.25849976095562716, -0.1639427054423902, 0.10782405069507275),
    *(-0.07219956125906166, 0.04880428792746084, -0.03316112631291739, 0.022597655752338387, -0.015424771049959627),
    *(0.010538652693051964, -0.007204439339579967, 0.0049283738934928455, -0.003370891188258136),
    *(0.002293485843040061, -0.001568972748416701, 0.0011328288314782235, -0.0007750183846864365),
    *(0.00035304015736217824, -0.00024153424965713165, 0.0004636754947126266, -0.00031723045415808483),
)


def digamma(x: Tensor) -> Tensor:
    """torch's own adds up terms of about 1, and loses all digits beside its root: it is computed with more of them.

    Float64 has none to spare, and MPS has no float64: there a polynomial stands in beside the root.
    """
    wide = rt.double(x)
    value = torch.digamma(wide)
    if wide.dtype != x.dtype:
        return value.to(x.dtype if x.is_floating_point() else torch.get_default_dtype())
    offset = torch.clamp((x - _ROOT[0]) - _ROOT[1], -0.5, 0.5)
    near = torch.zeros_like(x)
    for coefficient in reversed(_DIGAMMA):
        near = (near + coefficient) * offset
    return torch.where(torch.abs(offset) < 0.5, near, value)


def digamma_by_autograd(x: Tensor) -> Tensor:
    at = x.detach()
    value = digamma(at)
    return _attached(x, value, *(polygamma(n, at) for n in (1, 2, 3))) if rt.differentiated() else value


def polygamma(n: int, x: Tensor) -> Tensor:
    """torch's own has but ten digits of trigamma, which is a sum, its asymptotic series and a reflection here; of the
    others it adds up a term for each pole between x and 0, without end where 1 is less than an ulp."""
    if n == 0:
        return digamma_by_autograd(x)
    if n > 1:
        return _reflected(n, x)
    if x.dtype != torch.float64:
        return torch.polygamma(n, x)
    positive = x > 0
    own = torch.where(positive, x, 1 - x)
    large = own + 12
    over = 1 / (large * large)
    rest = 1 / 6 - over * (1 / 30 - over * (1 / 42 - over * (1 / 30 - over * (5 / 66 - over * (691 / 2730)))))
    total = 1 / large + (over / 2 + over / large * rest)
    for k in range(11, -1, -1):
        total = total + 1 / (own + k) ** 2  # the largest last
    sine = torch.sin(math.pi * torch.where(positive, 0.5, x - x.round()))
    return torch.where(positive, total, (math.pi / sine) ** 2 - total)


def _reflected(n: int, x: Tensor) -> Tensor:
    """Polygamma by what it is at 1 - x, and by a derivative of the cotangent, which is a polynomial in it."""
    positive = x > 0
    own = torch.polygamma(n, torch.where(positive, x, 1 - x))
    cot = 1 / torch.tan(math.pi * torch.where(positive, 0.5, x - x.round()))
    powers = [0, 1]
    for _ in range(n):  # each is -(1 + cot**2) times the derivative of the one before
        slope = [k * c for k, c in enumerate(powers)][1:]
        powers = [-a - b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    value = torch.zeros_like(cot)
    for coefficient in reversed(powers):
        value = value * cot + coefficient
    return torch.where(positive, own, (-1) ** n * own - math.pi ** (n + 1) * value)


# ------------------------------------------------------------------------------------------------ Airy's function
_STEP = 4  # points of the grid in an interval of length 1
_FAR = 10  # from where the asymptotic series hold 54 bits


def _airy_grid() -> list[tuple[float, float]]:
    """Ai and Ai' at the points of the grid, by their power series with digits enough for what cancels."""
    found = []
    with localcontext() as context:
        context.prec = 60
        at_zero = Decimal("0.355028053887817239260063186004183176397979174199177527")
        slope_at_zero = Decimal("-0.258819403792806798405183560189203963479091138354934582")
        for k in range(-_STEP * _FAR, _STEP * _FAR + 1):
            x = Decimal(k) / _STEP
            terms = [at_zero, slope_at_zero * x, Decimal(0)]
            for n in range(3, 210):
                terms.append(terms[n - 3] * x**3 / (n * (n - 1)))
            slope = sum(n * t for n, t in enumerate(terms)) / x if k else slope_at_zero
            found.append((float(sum(terms)), float(slope)))
    return found


def _airy_series() -> tuple[list[float], list[float]]:
    """Coefficients of 1/zeta in the asymptotic series of Ai and of Ai'."""
    values, slopes = [1.0], [1.0]
    for k in range(1, 22):
        values.append(values[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
        slopes.append(-values[-1] * (6 * k + 1) / (6 * k - 1))
    return values, slopes


_AIRY = _airy_grid()
_AIRY_FAR, _AIRY_SLOPES_FAR = _airy_series()


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """A number as the sum of two with half of the digits, whose products are exact (T. J. Dekker, 1971)."""
    grown = x * (134217729.0 if x.dtype == torch.float64 else 4097.0)
    high = grown - (grown - x)
    return high, x - high


def _lost(a: Tensor, b: Tensor, product: Tensor) -> Tensor:
    """What rounding took from a product."""
    (a_high, a_low), (b_high, b_low) = _parts(a), _parts(b)
    return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _airy_phase(size: Tensor) -> tuple[Tensor, Tensor]:
    """2/3 * size**(3/2), and what rounding takes from it."""
    root = torch.sqrt(size)
    square = root * root
    root_low = ((size - square) - _lost(root, root, square)) / (2 * root)
    product = size * root
    third = product / 3
    low = (((product - 2 * third) - third) + (_lost(size, root, product) + size * root_low)) / 3
    return 2 * third, 2 * low


def _alternating(coefficients: list[float], over: Tensor) -> Tensor:
    """The series with alternating signs."""
    total = torch.zeros_like(over)
    for coefficient in reversed(coefficients):
        total = coefficient - over * total
    return total


def _airy(x: Tensor, prime: bool) -> Tensor:
    """Ai or Ai': Taylor's series about the next point of a grid, by Ai'' = x*Ai, and asymptotic series far out.

    The phase, or exponent, of the latter is kept with twice the digits: its rounding would be felt more than that of x.
    """
    place = torch.nan_to_num(torch.round(torch.clamp(x, -_FAR, _FAR) * _STEP), nan=0.0)
    index = place.long() + _STEP * _FAR
    middle = place / _STEP
    offset = x - middle
    taylor = list(F.embedding(index, torch.tensor(_AIRY, dtype=x.dtype, device=x.device)).unbind(-1))
    taylor.append(middle * taylor[0] / 2)
    for n in range(3, 15):
        taylor.append((middle * taylor[n - 2] + taylor[n - 3]) / (n * (n - 1)))
    if prime:
        taylor = [n * a for n, a in enumerate(taylor)][1:]
    near = torch.zeros_like(x)
    for coefficient in reversed(taylor):
        near = coefficient + offset * near

    size = torch.where(x > 0, torch.clamp(x, _FAR, 200.0), torch.clamp(-x, min=_FAR))
    phase, low = _airy_phase(torch.clamp(size, max=1e25))
    root = torch.sqrt(torch.sqrt(size))
    amplitude = 0.5641895835477563 * (root if prime else 1 / root)
    far = _AIRY_SLOPES_FAR if prime else _AIRY_FAR
    over = 1 / phase
    decaying = (-0.5 if prime else 0.5) * amplitude * (torch.exp(-phase) * torch.exp(-low) * _alternating(far, over))
    even, odd = _alternating(far[::2], over * over), over * _alternating(far[1::2], over * over)
    sine = torch.sin(phase) * torch.cos(low) + torch.cos(phase) * torch.sin(low)
    cosine = torch.cos(phase) * torch.cos(low) - torch.sin(phase) * torch.sin(low)
    # With the phase ahead by an eighth of a turn: (sine + cosine, cosine - sine) / sqrt(2).
    if prime:
        swinging = (sine - cosine) * even - (sine + cosine) * odd
    else:
        swinging = (sine + cosine) * even - (cosine - sine) * odd
    swinging = amplitude * 0.7071067811865476 * swinging
    value = torch.where(x > _FAR, decaying, torch.where(x < -_FAR, swinging, near))
    return torch.where(x == -float("inf"), float("nan") if prime else 0.0, value)


def airy_ai(x: Tensor) -> Tensor:
    """Airy's function Ai; `torch.special.airy_ai` has but four digits about -4, and no derivative."""
    return _airy(x, False)


def airy_ai_prime(x: Tensor) -> Tensor:
    return _airy(x, True)


def airy_ai_by_autograd(x: Tensor) -> Tensor:
    if not rt.differentiated():
        return airy_ai(x)
    at = x.detach()
    value, slope = airy_ai(at), airy_ai_prime(at)
    return _attached(x, value, slope, at * value, value + at * slope)


def airy_ai_prime_by_autograd(x: Tensor) -> Tensor:
    if not rt.differentiated():
        return airy_ai_prime(x)
    at = x.detach()
    value, slope = airy_ai(at), airy_ai_prime(at)
    return _attached(x, slope, at * value, value + at * slope, 2 * slope + at * at * value)
