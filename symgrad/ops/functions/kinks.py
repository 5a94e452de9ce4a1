"""Piecewise functions, with PyTorch's conventions at their kinks."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath as mp

from symgrad.analysis.integers import is_integer
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import HALF, ONE, ZERO, Expr, make
from symgrad.ir.truth import compare, where
from symgrad.ops.functions import real
from symgrad.ops.functions.row import Function


def _indicator(condition: Expr) -> Expr:
    return where(condition, ONE, ZERO)


def _extremum_partials(a: Expr, b: Expr, a_loses: str) -> tuple[Expr, Expr]:
    """1/2 for both where they are equal, 0 for the one that loses, and 1 for both beside NaN, as in torch.

    Where one is a number, torch has clamp for it, whose closed interval passes the gradient; but max(x, 0) is relu.
    """
    if a is b:
        return HALF, HALF
    b_loses = truth.MIRRORED[a_loses]
    if ZERO in (a, b) and a_loses == "lt":
        return where(compare("le", a, b), ZERO, ONE), where(compare("ge", a, b), ZERO, ONE)
    if a.is_static or b.is_static:
        return where(compare(a_loses, a, b), ZERO, ONE), where(compare(b_loses, a, b), ZERO, ONE)
    first, second = (where(compare(loses, a, b), ZERO, ONE) for loses in (a_loses, b_loses))
    tie = compare("eq", a, b)
    return where(tie, HALF, first), where(tie, HALF, second)


def _clamp_partials(x: Expr, low: Expr, high: Expr) -> tuple[Expr, Expr, Expr]:
    """The closed interval passes the gradient; with low > high the result is high."""
    sides = ([] if low is -ex.OO else [compare("ge", x, low)]) + ([] if high is ex.OO else [compare("le", x, high)])
    inside = truth.logical("and", *sides)
    below = truth.logical("and", compare("lt", x, low), compare("lt", low, high))
    above = truth.logical("or", compare("gt", x, high), compare("gt", low, high))
    return _indicator(inside), _indicator(below), _indicator(above)


def _tensors_first(name: str) -> Callable[[Expr, Expr], Expr]:
    """A symmetric function, of a number last: SymPy writes it first, where rules and masks do not know it."""
    return lambda a, b: make(name, b, a) if a.is_static and not b.is_static else make(name, a, b)


def _to_a_multiple(a: Expr, b: Expr) -> Expr:
    """How far a quotient is from the next whole number."""
    return a / b - make("round", a / b)


def _turns(multiple: Expr, of: Expr) -> Expr:
    """Minus how often `of` goes into what a remainder leaves: a whole number, which a quotient may miss by one."""
    return -make("round", multiple / of)


def _heaviside(x: Expr, values: Expr) -> Expr:
    """What is chosen at 0 may be differentiated, and of another dtype than x, which torch.heaviside refuses."""
    if not values.tensors and not is_integer(x):
        return make("heaviside", x, values)
    return where(compare("eq", x, ZERO), values, make("heaviside", x, ZERO))


def _opened_round(x: Expr) -> Expr:
    """To the nearest whole number; of two as near, the even one."""
    up = make("floor", x + HALF)
    to_even = compare("eq", x / 2 - make("floor", x / 2), ex.num(Fraction(1, 4)))  # such as 2.5, between 2 and 3
    return up - _indicator(to_even)


ROWS = (
    Function(
        "abs",
        ("x",),
        torch="torch.abs({0})",
        python="abs({0})",
        partials=lambda x: (make("sign", x),),
        meaning=abs,
        cost=0.75,
        aliases=("Abs",),
        sympy="Abs",
    ),
    Function(
        "sign",
        ("x",),
        torch="torch.sign({0})",
        python="(math.copysign(1.0, {0}) if ({0}) else 0.0)",
        partials=lambda x: (ZERO,),
        jumps=lambda x: x,
        meaning=mp.sign,
        cost=0.6,
        aliases=("sgn",),
        saves="",
        sympy="sign",
    ),
    Function(
        "floor",
        ("x",),
        torch="torch.floor({0})",
        python="math.floor({0})",
        partials=lambda x: (ZERO,),
        jumps=lambda x: x - make("round", x),
        meaning=mp.floor,
        saves="",
        sympy="floor",
    ),
    Function(
        "ceil",
        ("x",),
        torch="torch.ceil({0})",
        python="math.ceil({0})",
        partials=lambda x: (ZERO,),
        jumps=lambda x: x - make("round", x),
        meaning=mp.ceil,
        aliases=("ceiling",),
        saves="",
        sympy="ceiling",
    ),
    Function(
        "round",
        ("x",),
        torch="torch.round({0})",
        python="round({0})",
        partials=lambda x: (ZERO,),
        jumps=lambda x: x - make("floor", x) - HALF,
        meaning=mp.nint,
        saves="",
        opened=_opened_round,
    ),
    Function(  # with the sign of b, as Python has it
        "remainder",
        ("a", "b"),
        torch="torch.remainder({0}, {1})",
        python="({0}) % ({1})",
        partials=lambda a, b: (ONE, _turns(a - make("remainder", a, b), b)),
        jumps=_to_a_multiple,
        meaning=real.remainder,
        aliases=("Mod",),
        tensor_args=True,  # torch has no derivative of a number's remainder
        cost=2.0,
        saves="d",
        safe=Fraction(1),
        sympy="Mod",
        in_half=False,
    ),
    Function(  # with the sign of x, as C has it
        "fmod",
        ("x", "other"),
        torch="torch.fmod({0}, {1})",
        python="math.fmod({0}, {1})",
        partials=lambda a, b: (ONE, _turns(a - make("fmod", a, b), b)),
        jumps=_to_a_multiple,
        meaning=real.fmod,
        tensor_args=True,
        cost=2.0,
        saves="d",
        safe=Fraction(1),
        opened=lambda a, b: a - b * make("sign", a / b) * make("floor", make("abs", a / b)),
        in_half=False,
    ),
    Function(
        "relu",
        ("x",),
        torch="torch.relu({0})",
        python="max({0}, 0)",
        partials=lambda x: (_indicator(compare("gt", x, 0)),),
        meaning=real.relu,
        cost=0.65,
        saves="y",
        opened=lambda x: make("maximum", x, ZERO),
    ),
    Function(
        "maximum",
        ("a", "b"),
        torch="torch.maximum({0}, {1})",
        python="max({0}, {1})",
        partials=lambda a, b: _extremum_partials(a, b, "lt"),
        meaning=max,
        definition=_tensors_first("maximum"),
        tensor_args=True,
        sympy="Max",
    ),
    Function(
        "minimum",
        ("a", "b"),
        torch="torch.minimum({0}, {1})",
        python="min({0}, {1})",
        partials=lambda a, b: _extremum_partials(a, b, "gt"),
        meaning=min,
        definition=_tensors_first("minimum"),
        tensor_args=True,
        sympy="Min",
    ),
    Function(
        "clamp",
        ("x", "min", "max"),
        torch="torch.clamp({0}, {1}, {2})",
        python="min(max({0}, {1}), {2})",
        partials=_clamp_partials,
        meaning=real.clamp,
        cost=0.7,
        aliases=("clip",),
        opened=lambda x, low, high: make("minimum", make("maximum", x, low), high),
    ),
    Function(  # 1e30 in place of an infinity: limits are reached there, and cotangents do not overflow it
        "finite",
        ("x",),
        torch="torch.nan_to_num({0}, torch.nan, 1e30, -1e30)",
        python="({0} if math.isfinite({0}) or math.isnan({0}) else math.copysign(1e30, {0}))",
        partials=lambda x: (ONE,),
        meaning=real.finite,
        cost=1.2,
        internal=True,
        opened=lambda x: x,
    ),
    Function(
        "heaviside",
        ("x", "values"),
        torch="torch.heaviside(torch.detach({0}), {1})",  # autograd knows no derivative of it
        python="(1.0 if ({0}) > 0 else 0.0 if ({0}) < 0 else {1})",
        partials=lambda x, h: (ZERO, _indicator(compare("eq", x, 0))),
        jumps=lambda x, values: x,
        meaning=real.heaviside,
        definition=_heaviside,
        aliases=("Heaviside",),
        tensor_args=True,
        saves="m",
        sympy="Heaviside",
    ),
)
