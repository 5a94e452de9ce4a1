"""Exponentials and logarithms."""

from __future__ import annotations

import math
from fractions import Fraction

from symgrad.ir import expr as ex
from symgrad.ir.expr import ONE, Expr, make
from symgrad.ir.truth import compare, logical, where
from symgrad.ops.functions import real
from symgrad.ops.functions.row import Function

_LN2, _LN10 = make("log", ex.num(2)), make("log", ex.num(10))


def _softplus(x: Expr, beta: Expr = ONE, threshold: Expr | None = None) -> Expr:
    """torch's softplus: beta is the sharpness, beyond `threshold` it is the identity."""
    smooth = make("softplus", beta * x) / beta
    return smooth if threshold is None else where(compare("gt", beta * x, threshold), x, smooth)


def _log(x: Expr, base: Expr | None = None) -> Expr:
    return make("log", x) if base is None else make("log", x) / make("log", base)


def _slope_of_factor(x: Expr, y: Expr, log: Expr) -> Expr:
    """The slope of x * log(y) in x; by torch's convention it is 0 where x is 0 and y has no logarithm.

    Not where y depends on what x does: beside the slope in y the convention would make a finite one of a pole.
    """
    if x.symbols & y.symbols:
        return log
    return where(logical("and", compare("eq", x, 0), compare("le", y, 0)), 0, log)


ROWS = (
    Function(
        "exp",
        ("x",),
        torch="torch.exp({0})",
        python="math.exp({0})",
        partials=lambda x: (make("exp", x),),
        meaning=real.exp,
        cost=1.6,
        saves="y",
        safe=Fraction(0),
        sympy="exp",
    ),
    Function(
        "expm1",
        ("x",),
        torch="torch.expm1({0})",
        introduced="rt.expm1({0})",
        python="math.expm1({0})",
        partials=lambda x: (make("exp", x),),
        meaning=real.expm1,
        cost=1.8,
        saves="y",
        safe=Fraction(0),
        opened=lambda x: make("exp", x) - 1,
    ),
    Function(
        "log",
        ("x", "base"),
        definition=_log,
        torch="torch.log({0})",
        python="math.log({0})",
        partials=lambda x: (1 / x,),
        meaning=real.log,
        aliases=("ln",),
        cost=1.9,
        domain=(0, math.inf),
        sample=(0.1, 4),
        safe=Fraction(1),
        sympy="log",
    ),
    Function(
        "log1p",
        ("x",),
        torch="torch.log1p({0})",
        python="math.log1p({0})",
        partials=lambda x: (1 / (1 + x),),
        meaning=real.log1p,
        cost=1.3,
        domain=(-1, math.inf),
        sample=(-0.9, 4),
        safe=Fraction(0),
        opened=lambda x: make("log", 1 + x),
    ),
    Function(
        "log2",
        ("x",),
        torch="torch.log2({0})",
        python="math.log2({0})",
        partials=lambda x: (1 / (_LN2 * x),),
        meaning=real.log2,
        cost=1.9,
        domain=(0, math.inf),
        sample=(0.1, 4),
        safe=Fraction(1),
        opened=lambda x: make("log", x) / _LN2,
    ),
    Function(
        "log10",
        ("x",),
        torch="torch.log10({0})",
        python="math.log10({0})",
        partials=lambda x: (1 / (_LN10 * x),),
        meaning=real.log10,
        cost=1.9,
        domain=(0, math.inf),
        sample=(0.1, 4),
        safe=Fraction(1),
        opened=lambda x: make("log", x) / _LN10,
    ),
    Function(
        "sigmoid",
        ("x",),
        torch="torch.sigmoid({0})",
        introduced="rt.sigmoid({0})",
        python="(math.exp(min({0}, 0)) / (1 + math.exp(-abs({0}))))",
        partials=lambda x: (make("sigmoid", x) * make("sigmoid", -x),),
        meaning=real.sigmoid,
        aliases=("expit",),
        cost=0.8,
        saves="y",
        opened=lambda x: 1 / (1 + make("exp", -x)),
    ),
    Function(
        "logsigmoid",
        ("x",),
        torch="F.logsigmoid({0})",
        targets={
            **dict.fromkeys(("cpp", "triton"), "logsigmoid({0})"),
            "jax": "jax.nn.log_sigmoid({0})",
            "mlx": "rt.logsigmoid({0})",
        },
        python="(min({0}, 0) - math.log1p(math.exp(-abs({0}))))",
        partials=lambda x: (make("sigmoid", -x),),
        meaning=real.logsigmoid,
        cost=4.0,
        saves="xy",
        of_floats=True,
        opened=lambda x: -make("log", 1 + make("exp", -x)),
    ),
    Function(
        "softplus",
        ("x", "beta", "threshold"),
        torch="F.softplus({0}, threshold=50.0)",
        targets={
            **dict.fromkeys(("cpp", "triton"), "softplus({0})"),
            "jax": "jax.nn.softplus({0})",
            "mlx": "mx.logaddexp({0}, 0)",
        },
        python="(max({0}, 0) + math.log1p(math.exp(-abs({0}))))",
        partials=lambda x: (make("sigmoid", x),),
        meaning=real.softplus,
        cost=2.5,
        definition=_softplus,
        of_floats=True,
        opened=lambda x: make("log", 1 + make("exp", x)),
    ),
    Function(
        "logaddexp",
        ("a", "b"),
        torch="torch.logaddexp({0}, {1})",
        python="(max({0}, {1}) + math.log1p(math.exp(-abs(({0}) - ({1})))))",
        partials=lambda a, b: (make("sigmoid", a - b), make("sigmoid", b - a)),
        meaning=real.logaddexp,
        cost=2.5,
        tensor_args=True,
        of_floats=True,
        opened=lambda a, b: make("log", make("exp", a) + make("exp", b)),
    ),
    Function(
        "xlogy",
        ("x", "y"),
        torch="torch.xlogy({0}, {1})",
        python="(({0}) * math.log({1}) if ({0}) else 0.0)",
        partials=lambda x, y: (_slope_of_factor(x, y, make("log", y)), x / y),
        meaning=real.xlogy,
        cost=7.0,
        domain=(0, math.inf),
        sample=(0.1, 3),
        safe=Fraction(1),
        opened=lambda x, y: x * make("log", y),
        in_half=False,
    ),
    Function(
        "xlog1py",
        ("x", "y"),
        torch="torch.special.xlog1py({0}, {1})",
        python="(({0}) * math.log1p({1}) if ({0}) else 0.0)",
        partials=lambda x, y: (_slope_of_factor(x, 1 + y, make("log1p", y)), x / (1 + y)),
        meaning=real.xlog1py,
        cost=7.0,
        domain=(-1, math.inf),
        sample=(-0.9, 3),
        safe=Fraction(0),
        opened=lambda x, y: x * make("log", 1 + y),
        in_half=False,
    ),
)
