"""Trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp

from symgrad.ir import expr as ex
from symgrad.ir.expr import ONE, PI, ZERO, Expr, make, sqrt
from symgrad.ir.truth import compare, logical, where
from symgrad.ops.functions import real
from symgrad.ops.functions.row import Function


def _one_minus_square(x: Expr) -> Expr:
    return (1 - x) * (1 + x)


def _sinc_partial(x: Expr) -> Expr:
    """(cos(pi x) - sinc(x)) / x, by its Taylor polynomial where that cancels; elsewhere that would overflow."""
    bound = ex.num(Fraction(3, 4))
    close = make("clamp", x, -bound, bound)
    z2 = ex.power(PI * close, 2)
    series: Expr = ZERO
    for k in range(12, 0, -1):  # Horner in z**2 of (-1)**k 2k / (2k+1)! z**(2k), divided by x
        series = ex.num(Fraction((-1) ** k * 2 * k, math.factorial(2 * k + 1))) + z2 * series
    near = compare("lt", make("abs", x), bound)
    return where(near, PI * PI * close * series, (make("cos", PI * x) - make("sinc", x)) / x)


def _opened_sinc(x: Expr) -> Expr:
    return where(compare("eq", x, ZERO), ONE, make("sin", PI * x) / (PI * x))


def _hypot_partials(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    h = make("hypot", x, y)
    return x / h, y / h


def _atan2_partials(y: Expr, x: Expr) -> tuple[Expr, Expr]:
    """x / (x**2 + y**2) and its twin, in two steps because the square overflows; 0 at the origin, as in torch."""
    origin = logical("and", compare("eq", x, ZERO), compare("eq", y, ZERO))
    h = make("hypot", x, where(origin, ONE, y))  # 1 there, where the length has no slope
    return x / h / h, -y / h / h


ROWS = (
    Function(
        "sin",
        ("x",),
        torch="torch.sin({0})",
        python="math.sin({0})",
        partials=lambda x: (make("cos", x),),
        meaning=real.sin,
        cost=2.5,
        sympy="sin",
    ),
    Function(
        "cos",
        ("x",),
        torch="torch.cos({0})",
        python="math.cos({0})",
        partials=lambda x: (-make("sin", x),),
        meaning=real.cos,
        cost=2.5,
        sympy="cos",
    ),
    Function(
        "tan",
        ("x",),
        torch="torch.tan({0})",
        python="math.tan({0})",
        partials=lambda x: (1 + make("tan", x) ** 2,),
        meaning=real.tan,
        cost=3.0,
        saves="y",
        sample=(-1.2, 1.2),
        safe=Fraction(0),
        sympy="tan",
    ),
    Function(
        "asin",
        ("x",),
        torch="torch.asin({0})",
        python="math.asin({0})",
        partials=lambda x: (1 / sqrt(_one_minus_square(x)),),
        meaning=real.within(-1, 1, mp.asin),
        aliases=("arcsin",),
        cost=3.0,
        domain=(-1, 1),
        sample=(-0.9, 0.9),
        safe=Fraction(0),
        sympy="asin",
    ),
    Function(
        "acos",
        ("x",),
        torch="torch.acos({0})",
        python="math.acos({0})",
        partials=lambda x: (-1 / sqrt(_one_minus_square(x)),),
        meaning=real.within(-1, 1, mp.acos),
        aliases=("arccos",),
        cost=3.0,
        domain=(-1, 1),
        sample=(-0.9, 0.9),
        safe=Fraction(0),
        sympy="acos",
    ),
    Function(
        "atan",
        ("x",),
        torch="torch.atan({0})",
        python="math.atan({0})",
        partials=lambda x: (1 / (1 + x**2),),
        meaning=mp.atan,
        aliases=("arctan",),
        cost=3.8,
        sympy="atan",
    ),
    Function(
        "atan2",
        ("y", "x"),
        torch="torch.atan2({0}, {1})",
        python="math.atan2({0}, {1})",
        partials=_atan2_partials,
        meaning=real.atan2,
        aliases=("arctan2",),
        cost=2.4,
        tensor_args=True,
        sample=(0.2, 3),
        sympy="atan2",
    ),
    Function(
        "sinh",
        ("x",),
        torch="torch.sinh({0})",
        python="math.sinh({0})",
        partials=lambda x: (make("cosh", x),),
        meaning=real.sinh,
        cost=2.0,
        safe=Fraction(0),
        sympy="sinh",
    ),
    Function(
        "cosh",
        ("x",),
        torch="torch.cosh({0})",
        python="math.cosh({0})",
        partials=lambda x: (make("sinh", x),),
        meaning=real.cosh,
        cost=2.0,
        safe=Fraction(0),
        sympy="cosh",
    ),
    Function(
        "tanh",
        ("x",),
        torch="torch.tanh({0})",
        introduced="rt.tanh({0})",
        python="math.tanh({0})",
        partials=lambda x: (make("cosh", x) ** -2,),
        meaning=real.tanh,
        cost=4.3,
        saves="y",
        sympy="tanh",
    ),
    Function(
        "asinh",
        ("x",),
        torch="torch.asinh({0})",
        python="math.asinh({0})",
        partials=lambda x: (1 / make("hypot", x, ONE),),
        meaning=mp.asinh,
        aliases=("arcsinh",),
        cost=30.0,
        sympy="asinh",
    ),
    Function(
        "acosh",
        ("x",),
        torch="torch.acosh({0})",
        python="math.acosh({0})",
        partials=lambda x: (1 / (sqrt(x - 1) * sqrt(x + 1)),),
        meaning=real.within(1, math.inf, mp.acosh),
        aliases=("arccosh",),
        cost=25.0,
        domain=(1, math.inf),
        sample=(1.1, 4),
        safe=Fraction(2),
        sympy="acosh",
    ),
    Function(
        "atanh",
        ("x",),
        torch="torch.atanh({0})",
        python="math.atanh({0})",
        partials=lambda x: (1 / _one_minus_square(x),),
        meaning=real.atanh,
        aliases=("arctanh",),
        cost=2.5,
        domain=(-1, 1),
        sample=(-0.9, 0.9),
        safe=Fraction(0),
        sympy="atanh",
    ),
    Function(
        "hypot",
        ("x", "y"),
        torch="torch.hypot({0}, {1})",
        python="math.hypot({0}, {1})",
        partials=_hypot_partials,
        meaning=mp.hypot,
        cost=1.7,
        saves="xy",
        tensor_args=True,
        sample=(0.2, 3),
        safe=Fraction(1),
        of_floats=True,
        opened=lambda x, y: sqrt(x**2 + y**2),
    ),
    Function(
        "sinc",
        ("x",),
        torch="torch.sinc({0})",
        python="(math.sin(math.pi * ({0})) / (math.pi * ({0})) if ({0}) else 1.0)",
        partials=lambda x: (_sinc_partial(x),),
        meaning=real.sinc,
        cost=13.0,
        opened=_opened_sinc,
    ),
)
