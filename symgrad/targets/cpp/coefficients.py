"""The polynomials in templates/cpp/functions.h, computed anew: `python -m symgrad.targets.cpp.coefficients`.

Each interpolates its function at the zeros of a Chebyshev polynomial over the interval, which is within a small factor
of the best approximation there is, in arithmetic wide enough that the coefficients are correctly rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp

__all__ = ["FITS", "Fit"]

_PRECISION = 400  # bits
ROOT = 1.4616321449683622  # of digamma, to which its next digits are added
SPREAD = 3.75  # t = (x - SPREAD) / (x + SPREAD) brings [0, oo) to [-1, 1]


@dataclass(frozen=True)
class Fit:
    """A polynomial of a degree for float64 and one for float32 (0: none) in `x - centre` over an interval."""

    function: Callable[[Any], Any]
    low: float
    high: float
    double: int
    single: int
    centre: float = 0.0

    def coefficients(self, degree: int) -> list[mp.mpf]:
        """From the constant on."""
        with mp.workprec(_PRECISION):
            half, middle = (mp.mpf(self.high) - self.low) / 2, (mp.mpf(self.high) + self.low) / 2
            angles = [mp.pi * (2 * k + 1) / (2 * degree + 2) for k in range(degree + 1)]
            places = [middle + half * mp.cos(a) for a in angles]
            values = [self.function(x) for x in places]
            steps = list(values)  # Newton's divided differences, multiplied out
            for k in range(1, degree + 1):
                for j in range(degree, k - 1, -1):
                    steps[j] = (steps[j] - steps[j - 1]) / (places[j] - places[j - k])
            found = [mp.mpf(0)] * (degree + 1)
            for k in range(degree, -1, -1):
                shift = places[k] - self.centre
                found = [(found[j - 1] if j else 0) - shift * found[j] for j in range(degree + 1)]
                found[0] += steps[k]
            return found


def _atan(z: Any) -> Any:
    t = mp.sqrt(z)
    return (mp.atan(t) / t - 1) / z


def _erf(z: Any) -> Any:
    t = mp.sqrt(z)
    return mp.erf(t) / t


def _erfcx(t: Any) -> Any:
    x = SPREAD * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def _asin(z: Any) -> Any:
    t = mp.sqrt(z)
    return (mp.asin(t) / t - 1) / z


def _erfinv(w: Any) -> Any:
    with mp.extraprec(200):  # 1 - x is small
        x = mp.sqrt(-mp.expm1(-w))
        return mp.erfinv(x) / x


def _far_erfinv(s: Any) -> Any:
    return _erfinv(s * s)


def _digamma(x: Any) -> Any:
    return mp.digamma(x) / (x - mp.findroot(mp.digamma, ROOT))


def _lgamma(x: Any) -> Any:
    return mp.loggamma(x) / ((x - 1) * (x - 2))


FITS = {
    "ATAN": Fit(_atan, 0, 0.17157287525381, 11, 5),  # of z = t^2, for |t| <= tan(pi/8)
    "ASIN": Fit(_asin, 0, 0.25, 11, 5),  # of z = t^2
    "ERFINV": Fit(_erfinv, 0, 6.25, 12, 0, 3.125),  # of w = -log(1 - x^2)
    "FAR_ERFINV": Fit(_far_erfinv, 2.5, 6.125, 14, 0, 4.3125),  # of sqrt(w)
    "ERF": Fit(_erf, 0, 1, 12, 6),  # of z = x^2
    "ERFCX": Fit(_erfcx, -1, 1, 24, 13),  # of t
    "DIGAMMA": Fit(_digamma, 1, 2.5, 25, 0, 1.75),
    "LGAMMA": Fit(_lgamma, 1, 3, 29, 0, 2.0),
}


def main() -> None:
    """Print the tables, highest powers first."""
    for name, fit in FITS.items():
        for kind, degree in (("double", fit.double), ("float", fit.single)):
            if degree:
                digits = 17 if kind == "double" else 12
                print(f"{name} {kind}:")
                print(", ".join(mp.nstr(c, digits) for c in reversed(fit.coefficients(degree))))


if __name__ == "__main__":
    main()
