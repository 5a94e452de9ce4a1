"""Names that the parser expands into other functions."""

from __future__ import annotations

from fractions import Fraction

from symgrad.functions.row import Function
from symgrad.ir import expr as ex
from symgrad.ir.expr import HALF, PI, Expr, make, sqrt

_EXACT, _TANH = ex.text("none"), ex.text("tanh")


def _gelu(x: Expr, approximate: Expr = _EXACT) -> Expr:
    """x Phi(x) by erfc, which keeps its digits in the lower tail; or the tanh approximation as a sigmoid."""
    if approximate not in (_EXACT, _TANH):
        raise ValueError("approximate must be 'none' or 'tanh'")
    if approximate is _TANH:
        inner = sqrt(2 / PI) * (x + ex.num(Fraction("0.044715")) * x**3)
        return x * make("sigmoid", 2 * inner)
    return HALF * x * make("erfc", -x * sqrt(HALF))


ROWS = (
    Function(
        "sqrt",
        ("x",),
        definition=sqrt,
    ),
    Function(
        "rsqrt",
        ("x",),
        definition=lambda x: ex.power(x, Fraction(-1, 2)),
    ),
    Function(
        "square",
        ("x",),
        definition=lambda x: x**2,
    ),
    Function(
        "reciprocal",
        ("x",),
        definition=lambda x: 1 / x,
    ),
    Function(
        "pow",
        ("x", "exponent"),
        definition=ex.power,
        aliases=("Pow",),
    ),
    Function(
        "silu",
        ("x",),
        definition=lambda x: x * make("sigmoid", x),
    ),
    Function(
        "gelu",
        ("x", "approximate"),
        definition=_gelu,
    ),
)
