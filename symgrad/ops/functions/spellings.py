"""Names that the parser expands into other functions."""

from __future__ import annotations

from fractions import Fraction

from symgrad.ir import expr as ex
from symgrad.ir.expr import HALF, PI, Expr, make, sqrt
from symgrad.ops.functions.row import Function

_EXACT, _TANH = ex.text("none"), ex.text("tanh")


def _gelu(x: Expr, approximate: Expr = _EXACT) -> Expr:
    """x Phi(x) by erfc, which keeps its digits in the lower tail; or the tanh approximation as a sigmoid."""
    if approximate not in (_EXACT, _TANH):
        raise ValueError("approximate must be 'none' or 'tanh'")
    return x * (_gelu_tanh_gate(x) if approximate is _TANH else _gelu_gate(x))


def _silu_gate(x: Expr) -> Expr:
    return make("sigmoid", x)


def _gelu_gate(x: Expr) -> Expr:
    return HALF * make("erfc", -x * sqrt(HALF))


def _gelu_tanh_gate(x: Expr) -> Expr:
    inner = sqrt(2 / PI) * (x + ex.num(Fraction("0.044715")) * x**3)
    return make("sigmoid", 2 * inner)


def _mish_gate(x: Expr) -> Expr:
    return make("tanh", make("softplus", x))


# Activations that torch has as one operation, which keeps no more than its argument x: x times these.
GATES = (_silu_gate, _gelu_gate, _gelu_tanh_gate, _mish_gate)


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
        definition=lambda x: x * _silu_gate(x),
    ),
    Function(
        "gelu",
        ("x", "approximate"),
        definition=_gelu,
    ),
)
