"""Functions that torch lacks, or computes with few digits: Lambert's W, Dawson's integral, erfi, Airy's Ai.

They are spelled by `targets/torch/runtime/_special.py`, and with derivatives attached for the composite that generated
tests compare with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from symgrad.ir import expr as ex
from symgrad.ir.expr import PI, ZERO, Expr, make, sqrt
from symgrad.ops.functions import real
from symgrad.ops.functions.row import Function, of_one


def _own(name: str, partial: Callable[[Expr], Expr], **facts: Any) -> Function:
    """A row of one argument that the runtime file spells."""
    return of_one("_special", name, partial, by_autograd=f"_special.{name}_by_autograd({{0}})", **facts)


def _lambertw(name: str, branch: int, **facts: Any) -> Function:
    def partial(x: Expr) -> Expr:
        w = make(name, x)
        return make("exp", -w) / (1 + w)

    return _own(name, partial, cost=150.0, in_sympy=lambda sympy, x: sympy.LambertW(x, branch), **facts)


def _branch(x: Expr, k: Expr = ZERO) -> Expr:
    names = {ZERO: "lambertw", ex.MINUS_ONE: "lambertw_lower"}
    if k not in names:
        raise ValueError("the real branches of Lambert's W are 0 and -1")
    return make(names[k], x)


def _dawson_in_sympy(sympy: Any, x: Any) -> Any:
    return sympy.sqrt(sympy.pi) / 2 * sympy.exp(-(x**2)) * sympy.erfi(x)


ROWS = (
    _lambertw(
        "lambertw",
        0,
        meaning=real.lambertw,
        domain=(-math.exp(-1), math.inf),
        sample=(-0.3, 6),
        safe=Fraction(0),
    ),
    _lambertw(
        "lambertw_lower",
        -1,
        meaning=real.lambertw_lower,
        domain=(-math.exp(-1), 0),
        sample=(-0.36, -0.01),
        safe=Fraction(-1, 5),
    ),
    Function("LambertW", ("x", "k"), definition=_branch, sympy="LambertW"),
    _own(
        "dawson",
        lambda x: make("dawson_prime", x),
        aliases=("dawsn",),
        meaning=real.dawson,
        cost=100.0,
        safe=Fraction(0),
        in_sympy=_dawson_in_sympy,
    ),
    _own(
        "dawson_prime",  # 1 - 2*x*dawson(x), which cancels
        lambda x: -2 * make("dawson", x) - 2 * x * make("dawson_prime", x),
        meaning=real.dawson_prime,
        cost=120.0,
        safe=Fraction(0),
        in_sympy=lambda sympy, x: 1 - 2 * x * _dawson_in_sympy(sympy, x),
    ),
    _own(
        "erfi",
        lambda x: 2 / sqrt(PI) * make("exp", x**2),
        meaning=real.erfi,
        cost=100.0,
        safe=Fraction(0),
        sympy="erfi",
    ),
    _own(
        "airy_ai",
        lambda x: make("airy_ai_prime", x),
        meaning=real.airy(0),
        aliases=("airyai",),
        cost=150.0,
        sample=(-8, 6),
        safe=Fraction(0),
        sympy="airyai",
    ),
    _own(
        "airy_ai_prime",
        lambda x: x * make("airy_ai", x),
        meaning=real.airy(1),
        aliases=("airyaiprime",),
        cost=150.0,
        sample=(-8, 6),
        safe=Fraction(0),
        sympy="airyaiprime",
    ),
)
