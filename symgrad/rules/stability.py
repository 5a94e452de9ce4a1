"""Rules that avoid cancellation and overflow; applied to each value and partial derivative on its own.

They come after differentiation, because their case distinctions would only burden the derivatives.
"""

from __future__ import annotations

from symgrad.ir import expr as ex
from symgrad.ir.expr import HALF, Expr, sqrt
from symgrad.ir.truth import compare, where
from symgrad.rules.rule import Rule
from symgrad.rules.words import (
    POSITIVE,
    a,
    b,
    exp,
    expm1,
    f,
    fractional,
    log,
    log1p,
    n,
    positive,
    sigmoid,
    size,
    softplus,
    tanh,
)

_FAR = 4


def _log_cosh(x: Expr) -> Expr:
    far = size(x) + log1p(exp(-2 * size(x))) - log(2)
    return where(compare("lt", size(x), _FAR), HALF * log1p(f("sinh", x) ** 2), far)


def _log_one_minus_exp(x: Expr) -> Expr:
    """log(1 - exp(x)) for negative x."""
    return where(compare("gt", x, -HALF), log(-expm1(x)), log1p(-exp(x)))


def _stable_conjugate(x: Expr, rest: Expr) -> Expr:
    """x + sqrt(x**2 + rest), without cancellation for negative x."""
    root = sqrt(x**2 + rest)
    return where(compare("lt", x, 0), rest / (root - x), x + root)


def _one_plus_cosine(x: Expr, y: Expr) -> Expr:
    """1 + x / hypot(x, y), without cancellation for negative x."""
    h = f("hypot", x, y)
    return where(compare("lt", x, 0), y * (y / (h - x)), h + x) / h


STABLE_RULES = (
    Rule("expm1", exp(a) - 1, expm1(a), "exp - 1 cancels at 0"),
    Rule("expm1-negative", 1 - exp(a), -expm1(a), "1 - exp cancels at 0"),
    Rule(
        "log-minus-expm1", log(-expm1(a)), _log_one_minus_exp(a), "exp underflows", domain=(-4, -0.1), family="log1mexp"
    ),
    Rule(
        "log1mexp",
        log(1 - exp(a)),
        _log_one_minus_exp(a),
        "1 - exp cancels at both ends",
        domain=(-4, -0.1),
        family="log1mexp",
    ),
    Rule("log-expm1", log(exp(a) - 1), a + _log_one_minus_exp(-a), "exp overflows", domain=POSITIVE, family="log1mexp"),
    Rule(
        "log-of-expm1", log(expm1(a)), a + _log_one_minus_exp(-a), "expm1 overflows", domain=POSITIVE, family="log1mexp"
    ),
    Rule("log1p", log(1 + a), log1p(a), "1 + a loses a", domain=(-0.9, 4.0)),
    Rule("xlog1py", f("xlogy", a, 1 + b), f("xlog1py", a, b), "1 + b loses b", domain=(-0.9, 4.0)),
    Rule("log-cosh", log(f("cosh", a)), _log_cosh(a), "cosh overflows"),
    Rule(
        "power-minus-one", (1 + a) ** n - 1, expm1(n * log1p(a)), "the difference cancels at 0", fractional(n), POSITIVE
    ),
    Rule(
        "one-minus-power",
        1 - (1 + a) ** n,
        -expm1(n * log1p(a)),
        "the difference cancels at 0",
        fractional(n),
        POSITIVE,
    ),
    Rule("sech", 1 - tanh(a) ** 2, f("cosh", a) ** -2, "1 - tanh**2 cancels"),
    Rule("sech-complement", 1 - f("cosh", a) ** -2, tanh(a) ** 2, "the difference cancels at 0"),
    Rule(
        "logistic-slope-complement",
        1 - 4 * sigmoid(a) * sigmoid(-a),
        tanh(HALF * a) ** 2,
        "the difference cancels at 0",
    ),
    Rule("haversine", 1 - f("cos", a), 2 * f("sin", HALF * a) ** 2, "1 - cos cancels at 0"),
    Rule("acos-near-one", f("acos", 1 - a), 2 * f("asin", sqrt(HALF * a)), "1 - a loses a", domain=(0, 2)),
    Rule("softplus-minus", softplus(a) - a, softplus(-a), "the difference cancels"),
    Rule("softplus-odd", softplus(a) - softplus(-a), a, "the difference cancels"),
    Rule("logsigmoid-odd", f("logsigmoid", a) - f("logsigmoid", -a), a, "the difference cancels"),
    Rule("logaddexp-minus", f("logaddexp", a, b) - a, softplus(b - a), "the difference cancels"),
    Rule("logaddexp-minus-2", f("logaddexp", a, b) - b, softplus(a - b), "the difference cancels"),
    Rule("minus-softplus", a - softplus(a), f("logsigmoid", a), "the difference cancels"),
    Rule("exp-over-expm1", exp(a) / expm1(a), -1 / expm1(-a), "both overflow", domain=POSITIVE),
    Rule(
        "conjugate",
        a + sqrt(a**2 + b),
        _stable_conjugate(a, b),
        "cancels for negative a",
        domain=POSITIVE,
        family="conjugate",
    ),
    Rule(
        "conjugate-negative",
        sqrt(a**2 + b) - a,
        _stable_conjugate(-a, b),
        "cancels for positive a",
        domain=POSITIVE,
        family="conjugate",
    ),
    Rule("hypot", sqrt(a**2 + b**2), f("hypot", a, b), "the squares overflow"),
    Rule(
        "hypot-scaled", sqrt(a**2 + n * b**2), f("hypot", a, sqrt(n) * b), "the squares overflow", positive(n), POSITIVE
    ),
    Rule("hypot-constant", sqrt(n + a**2), f("hypot", a, sqrt(n)), "the square overflows", positive(n), POSITIVE),
    Rule("inverse-hypot", (a**2 + b**2) ** -HALF, 1 / f("hypot", a, b), "the squares overflow"),
    Rule(
        "inverse-hypot-constant",
        (n + a**2) ** -HALF,
        1 / f("hypot", a, sqrt(n)),
        "the square overflows",
        positive(n),
        POSITIVE,
    ),
    Rule(
        "one-plus-cosine",
        1 + a / f("hypot", a, b),
        _one_plus_cosine(a, b),
        "cancels for negative a",
        family="cosine",
    ),
    Rule(
        "one-minus-cosine",
        1 - a / f("hypot", a, b),
        _one_plus_cosine(-a, b),
        "cancels for positive a",
        family="cosine",
    ),
    Rule("hypot-minus", f("hypot", a, n) - n, a * (a / (f("hypot", a, n) + n)), "cancels at 0", positive(n), POSITIVE),
    Rule("logistic-slope", sigmoid(a) - sigmoid(a) ** 2, sigmoid(a) * sigmoid(-a), "the difference cancels"),
    Rule("sinc", f("sin", a) / a, f("sinc", a / ex.PI), "0 / 0 at 0"),
)
