"""Error and gamma functions."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp

from symgrad.ir.expr import HALF, ONE, PI, ZERO, Expr, make, sqrt
from symgrad.ops.functions import real
from symgrad.ops.functions.row import Function

_SQRT_PI = sqrt(PI)


def _gaussian(x: Expr) -> Expr:
    return make("exp", -(x**2))


def _erfinv_partial(x: Expr) -> Expr:
    return HALF * _SQRT_PI * make("exp", make("erfinv", x) ** 2)


ROWS = (
    Function(
        "erf",
        ("x",),
        torch="torch.erf({0})",
        python="math.erf({0})",
        partials=lambda x: (2 / _SQRT_PI * _gaussian(x),),
        meaning=real.erf,
        cost=2.2,
        sympy="erf",
    ),
    Function(
        "erfc",
        ("x",),
        torch="torch.erfc({0})",
        python="math.erfc({0})",
        partials=lambda x: (-2 / _SQRT_PI * _gaussian(x),),
        meaning=real.erfc,
        cost=3.0,
        sympy="erfc",
    ),
    Function(
        "erfcx",
        ("x",),
        torch="torch.special.erfcx({0})",
        python="rt.number(torch.special.erfcx, {0})",
        partials=lambda x: (2 * x * make("erfcx", x) - 2 / _SQRT_PI,),
        meaning=real.erfcx,
        cost=35.0,
        saves="xy",
        sample=(-2, 6),
        safe=Fraction(0),
        opened=lambda x: make("exp", x**2) * make("erfc", x),
        in_half=False,
    ),
    Function(
        "log_ndtr",
        ("x",),
        torch="torch.special.log_ndtr({0})",
        python="rt.number(torch.special.log_ndtr, {0})",
        partials=lambda x: (sqrt(2 / PI) / make("erfcx", -x * sqrt(HALF)),),
        meaning=real.log_ndtr,
        cost=34.0,
        saves="xy",
        opened=lambda x: make("log", HALF * make("erfc", -x * sqrt(HALF))),
        in_half=False,
    ),
    Function(
        "erfinv",
        ("x",),
        torch="torch.erfinv({0})",
        python="rt.number(torch.erfinv, {0})",
        partials=lambda x: (_erfinv_partial(x),),
        meaning=real.erfinv,
        cost=6.0,
        domain=(-1, 1),
        sample=(-0.9, 0.9),
        safe=Fraction(0),
        sympy="erfinv",
    ),
    Function(
        "lgamma",
        ("x",),
        torch="torch.lgamma({0})",
        python="math.lgamma({0})",
        partials=lambda x: (make("digamma", x),),
        meaning=real.lgamma,
        aliases=("loggamma", "gammaln"),
        cost=6.5,
        domain=(0, math.inf),
        sample=(0.3, 5),
        safe=Fraction(3),
        sympy="loggamma",
    ),
    Function(
        "digamma",
        ("x",),
        torch="_special.digamma({0})",
        python="rt.number(_special.digamma, {0})",
        partials=lambda x: (make("polygamma", ONE, x),),
        meaning=mp.digamma,
        aliases=("psi",),
        cost=28.0,
        domain=(0, math.inf),
        sample=(0.3, 5),
        safe=Fraction(3),
        of_floats=True,
        sympy="digamma",
        by_autograd="_special.digamma_by_autograd({0})",
    ),
    Function(
        "polygamma",
        ("n", "x"),
        torch="_special.polygamma({0}, {1})",
        python="rt.number(_special.polygamma, {1}, order=({0},))",
        partials=lambda n, x: (ZERO, make("polygamma", n + 1, x)),
        meaning=real.polygamma,
        cost=11.0,
        domain=(0, math.inf),
        sample=(0.5, 5),
        safe=Fraction(3),
        orders=1,
        sympy="polygamma",
    ),
)
