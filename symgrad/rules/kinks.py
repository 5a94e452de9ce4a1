"""Rules about branches and kinks: simplification of conditions, and algebra of sign and abs."""

from __future__ import annotations

from symgrad.ir import expr as ex
from symgrad.ir.truth import compare, where
from symgrad.rules.rule import Rule
from symgrad.rules.words import a, f, size

KINKS = (
    Rule("abs-from-sign", a * f("sign", a), size(a), "one operation for two"),
    Rule("value-from-sign", size(a) * f("sign", a), a, "one operation for two"),
    Rule("abs-square", size(a) ** 2, a**2, "abs is lost in the square"),
    Rule("abs-abs", size(size(a)), size(a), "idempotent"),
    Rule("abs-negative", size(-1 * a), size(a), "even", condition=lambda m: ex.split_coefficient(m[a])[0] > 0),
    Rule("sign-of-ratio", a / size(a), f("sign", a), "0 / 0 at 0"),
    Rule(
        "relu-square-gate",
        f("relu", a) * where(compare("gt", a, 0), ex.ONE, ex.ZERO),
        f("relu", a),
        "gated twice",
    ),
)
