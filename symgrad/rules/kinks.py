"""Rules about branches and kinks: simplification of conditions, and algebra of sign and abs."""

from __future__ import annotations

from symgrad.ir import expr as ex
from symgrad.ir.expr import make
from symgrad.ir.pattern import wild
from symgrad.ir.truth import compare, where
from symgrad.rules.rule import Rule

a, b, n = wild("a"), wild("b"), wild("n")


def _abs(x: ex.Expr) -> ex.Expr:
    return make("abs", x)


def _sign(x: ex.Expr) -> ex.Expr:
    return make("sign", x)


KINKS = (
    Rule("abs-from-sign", a * _sign(a), _abs(a), "one operation for two"),
    Rule("value-from-sign", _abs(a) * _sign(a), a, "one operation for two"),
    Rule("abs-square", _abs(a) ** 2, a**2, "abs is lost in the square"),
    Rule("abs-abs", _abs(_abs(a)), _abs(a), "idempotent"),
    Rule("abs-negative", _abs(-1 * a), _abs(a), "even", condition=lambda m: ex.split_coefficient(m[a])[0] > 0),
    Rule("sign-of-ratio", a / _abs(a), _sign(a), "0 / 0 at 0"),
    Rule(
        "relu-square-gate",
        make("relu", a) * where(compare("gt", a, 0), ex.ONE, ex.ZERO),
        make("relu", a),
        "gated twice",
    ),
)
