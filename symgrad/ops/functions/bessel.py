"""Bessel functions of orders 0 and 1, and other functions of torch.special.

Where torch has no derivative of its function, `by_autograd` spells it with derivatives up to the third order attached,
for the composite that generated tests compare with; `targets/torch/runtime/_special.py` has these spellings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial as partial_of
from typing import Any

import mpmath as mp

from symgrad.ir import expr as ex
from symgrad.ir.expr import HALF, ONE, PI, ZERO, Expr, make, sqrt
from symgrad.ir.truth import compare, where
from symgrad.ops.functions import real
from symgrad.ops.functions.row import Function, of_one

_TINY = Fraction(1, 10**37)


def _over(value: Expr, x: Expr) -> Expr:
    """The quotient of an odd function with slope 1/2 by x; 1/2 at 0, and where torch's functions of floats are 0."""
    return where(compare("lt", make("abs", x), _TINY), HALF, value / x)


def _j1_partial(x: Expr) -> Expr:
    return make("bessel_j0", x) - _over(make("bessel_j1", x), x)


def _i1_partial(x: Expr) -> Expr:
    return make("i0", x) - _over(make("i1", x), x)


_NEAR = 64  # beyond, differences of scaled functions are summed up as asymptotic series
_TERMS = 12


def _asymptotic(order: int, sign: int) -> list[Fraction]:
    """Coefficients of 1/x in a scaled Bessel function times sqrt(2*pi*x) or sqrt(2*x/pi); `sign` -1 for I, 1 for K."""
    found = [Fraction(1)]
    for k in range(1, _TERMS):
        found.append(found[-1] * sign * Fraction(4 * order * order - (2 * k - 1) ** 2, 8 * k))
    return found


def _difference(near: Expr, far: list[Fraction], x: Expr, factor: Expr) -> Expr:
    """`near`, and for large arguments, where it cancels, factor / sqrt(|x|) times a polynomial in 1/|x|."""
    size = make("abs", x)
    total: Expr = ex.num(far[-1])
    for coefficient in reversed(far[:-1]):
        total = ex.num(coefficient) + total / size
    return where(compare("lt", size, _NEAR), near, factor / sqrt(size) * total)


def _i0e_partial(x: Expr) -> Expr:
    """sign(x) * (i1e(|x|) - i0e(|x|))."""
    far = [b - a for a, b in zip(_asymptotic(0, -1), _asymptotic(1, -1), strict=True)]
    near = make("i1e", x) - make("sign", x) * make("i0e", x)
    return _difference(near, far, x, make("sign", x) / sqrt(2 * PI))


def _i1e_partial(x: Expr) -> Expr:
    zero, one = _asymptotic(0, -1), _asymptotic(1, -1)
    far = [a - b - c for a, b, c in zip(zero, one, [Fraction(0), *one], strict=False)]
    near = make("i0e", x) - _over(make("i1e", x), x) - make("sign", x) * make("i1e", x)
    return _difference(near, far, x, 1 / sqrt(2 * PI))


def _k0e_partial(x: Expr) -> Expr:
    far = [a - b for a, b in zip(_asymptotic(0, 1), _asymptotic(1, 1), strict=True)]
    near = make("scaled_modified_bessel_k0", x) - make("scaled_modified_bessel_k1", x)
    return _difference(near, far, x, sqrt(PI / 2))


def _k1e_partial(x: Expr) -> Expr:
    zero, one = _asymptotic(0, 1), _asymptotic(1, 1)
    far = [b - a - c for a, b, c in zip(zero, one, [Fraction(0), *one], strict=False)]
    value = make("scaled_modified_bessel_k1", x)
    return _difference(value - make("scaled_modified_bessel_k0", x) - value / x, far, x, sqrt(PI / 2))


def _besseli(order: int) -> Callable[[Any], Any]:
    """I; at infinity, as torch has it, no number."""

    def value(x: Any) -> Any:
        if real.HUGE < abs(x) < mp.inf:
            return -mp.inf if order == 1 and x < 0 else mp.inf
        return mp.besseli(order, x)

    return value


def _scaled_besseli(order: int) -> Callable[[Any], Any]:
    """I times exp(-|x|), of large numbers by its asymptotic series: exp has as many bits as they have digits."""

    def value(x: Any) -> Any:
        if abs(x) > real.HUGE:
            total = term = mp.mpf(1)
            k = 0
            while mp.mag(term) > -mp.mp.prec:
                k += 1
                term *= -(4 * order**2 - (2 * k - 1) ** 2) / (8 * k * abs(x))
                total += term
            return (mp.sign(x) if order == 1 else 1) * total / mp.sqrt(2 * mp.pi * abs(x))
        with mp.extraprec(max(0, int(mp.mag(x))) + 10 if x else 0):
            result = mp.besseli(order, x) * mp.exp(-abs(x))
        return +result

    return value


def _positive(function: Callable[[Any], Any], at_zero: Any) -> Callable[[Any], Any]:
    """A function of positive numbers, with its limit at 0."""
    return lambda x: at_zero if x == 0 else function(x) if x > 0 else mp.nan


_own = partial_of(of_one, "torch.special")


def _first(order: int, partial: Callable[[Expr], Expr]) -> Function:
    name = f"bessel_j{order}"
    return _own(
        name,
        partial,
        meaning=lambda x: mp.besselj(order, x) if abs(x) < real.LARGEST else mp.nan,
        cost=30.0,
        sample=(-6, 12),
        in_sympy=lambda sympy, x: sympy.besselj(order, x),
        by_autograd=f"_special.{name}({{0}})",
        safe=Fraction(1),
    )


def _second(order: int, partial: Callable[[Expr], Expr]) -> Function:
    name = f"bessel_y{order}"
    return _own(
        name,
        partial,
        meaning=_positive(partial_of(real.bessely, order), -mp.inf),
        cost=30.0,
        domain=(0, math.inf),
        sample=(0.2, 12),
        in_sympy=lambda sympy, x: sympy.bessely(order, x),
        by_autograd=f"_special.{name}({{0}})",
        safe=Fraction(1),
    )


def _modified(name: str, meaning: Callable[[Any], Any], partial: Callable[[Expr], Expr], opened: Any) -> Function:
    return _own(
        name,
        partial,
        aliases=() if name.endswith("e") else (f"modified_bessel_{name}",),
        meaning=meaning,
        cost=12.0,
        saves="x" if name == "i0" else "xy",
        sample=(-6, 6),
        in_sympy=opened,
        safe=Fraction(0),
    )


def _third(name: str, order: int, scaled: bool, partial: Callable[[Expr], Expr]) -> Function:
    def in_sympy(sympy: Any, x: Any) -> Any:
        return sympy.besselk(order, x) * (sympy.exp(x) if scaled else 1)

    return _own(
        name,
        partial,
        meaning=_positive(partial_of(real.scaled_besselk if scaled else real.besselk, order), mp.inf),
        cost=30.0,
        domain=(0, math.inf),
        sample=(0.2, 6),
        in_sympy=in_sympy,
        by_autograd=f"_special.{name}({{0}})",
        safe=Fraction(1),
    )


def _gammainc_partial(a: Expr, x: Expr) -> Expr:
    return make("exp", make("xlogy", a - 1, x) - x - make("lgamma", a))


def _incomplete(lower: bool) -> Callable[[Any, Any], Any]:
    def value(a: Any, x: Any) -> Any:
        if x < 0 or a < 0 or a == x == 0:
            return mp.nan
        if a == 0 or (x > real.HUGE and a < mp.sqrt(x)):  # the limit, to more bits than anybody asks for
            return mp.mpf(lower)
        return mp.gammainc(a, 0, x, regularized=True) if lower else mp.gammainc(a, x, mp.inf, regularized=True)

    return value


def _incomplete_row(name: str, lower: bool) -> Function:
    sign = 1 if lower else -1

    def in_sympy(sympy: Any, a: Any, x: Any) -> Any:
        return (sympy.lowergamma if lower else sympy.uppergamma)(a, x) / sympy.gamma(a)

    return Function(
        name,
        ("a", "x"),
        torch=f"torch.special.{name}({{0}}, {{1}})",
        python=f"rt.number(torch.special.{name}, {{0}}, {{1}})",
        by_autograd=f"_special.{name}({{0}}, {{1}})",
        partials=lambda a, x: (ZERO, sign * _gammainc_partial(a, x)),
        meaning=_incomplete(lower),
        cost=60.0,
        domain=(0, math.inf),
        sample=(0.3, 5),
        safe=Fraction(1),
        tensor_args=True,
        in_sympy=in_sympy,
        in_half=False,
        of_floats=True,
        orders=1,
    )


def _ndtri_partial(x: Expr) -> Expr:
    return sqrt(2 * PI) * make("exp", HALF * make("ndtri", x) ** 2)


def _ndtri(x: Any) -> Any:
    if x == 0 or x == 1:
        return mp.inf if x else -mp.inf
    if not 0 < x < 1:
        return mp.nan
    with mp.extraprec(max(0, -int(mp.mag(x))) + 20):  # 1 - 2*x keeps the digits of x
        result = -mp.sqrt(2) * mp.erfinv(1 - 2 * x)
    return +result


ROWS = (
    _first(0, lambda x: -make("bessel_j1", x)),
    _first(1, _j1_partial),
    _second(0, lambda x: -make("bessel_y1", x)),
    _second(1, lambda x: make("bessel_y0", x) - make("bessel_y1", x) / x),
    _modified("i0", _besseli(0), lambda x: make("i1", x), lambda sympy, x: sympy.besseli(0, x)),
    _modified("i1", _besseli(1), _i1_partial, lambda sympy, x: sympy.besseli(1, x)),
    _modified(
        "i0e",
        _scaled_besseli(0),
        _i0e_partial,
        lambda sympy, x: sympy.besseli(0, x) * sympy.exp(-sympy.Abs(x)),
    ),
    _modified(
        "i1e",
        _scaled_besseli(1),
        _i1e_partial,
        lambda sympy, x: sympy.besseli(1, x) * sympy.exp(-sympy.Abs(x)),
    ),
    _third("modified_bessel_k0", 0, False, lambda x: -make("modified_bessel_k1", x)),
    _third(
        "modified_bessel_k1", 1, False, lambda x: -make("modified_bessel_k0", x) - make("modified_bessel_k1", x) / x
    ),
    _third("scaled_modified_bessel_k0", 0, True, _k0e_partial),
    _third("scaled_modified_bessel_k1", 1, True, _k1e_partial),
    _incomplete_row("gammainc", True),
    _incomplete_row("gammaincc", False),
    Function(
        "zeta",
        ("s", "q"),
        torch="torch.special.zeta({0}, {1})",
        python="rt.number(torch.special.zeta, {0}, {1})",
        by_autograd="_special.zeta({0}, {1})",
        partials=lambda s, q: (ZERO, -s * make("zeta", s + 1, q)),
        meaning=real.zeta,
        cost=60.0,
        domain=(0, math.inf),
        sample=(1.3, 4),
        safe=Fraction(2),
        tensor_args=True,
        sympy="zeta",
        in_half=False,
        of_floats=True,
        orders=1,
        definition=lambda s, q=ONE: make("zeta", s, q),
    ),
    _own(
        "ndtri",
        _ndtri_partial,
        meaning=_ndtri,
        cost=20.0,
        domain=(0, 1),
        sample=(0.05, 0.95),
        safe=HALF.number,
        opened=lambda x: sqrt(2) * make("erfinv", 2 * x - 1),
    ),
)
