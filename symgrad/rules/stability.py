"""Rules that make a formula stable: into atoms that neither overflow nor cancel.

`RECOGNISE` is applied before differentiation, so that derivatives are those of the atoms; `STABILISE` after it, to each
value and partial on its own, because its case distinctions would only burden the derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from symgrad import expr as ex
from symgrad.expr import HALF, ONE, Expr, compare, make, sqrt, where
from symgrad.functions import call
from symgrad.pattern import wild
from symgrad.rules.rule import Rule

a, b, c, t, n = wild("a"), wild("b"), wild("c"), wild("t"), wild("n")


def f(name: str, *args: ex.Scalar) -> Expr:
    return call(name, *args)


exp, log, sigmoid, softplus, tanh = (lambda x, n=n: f(n, x) for n in ("exp", "log", "sigmoid", "softplus", "tanh"))
POSITIVE = (0.1, 4.0)
UNIT = (-0.9, 0.9)

RECOGNISE = (
    Rule("log-exp", log(exp(a)), a, "the pair cancels"),
    Rule("exp-log", exp(log(a)), a, "the pair cancels", domain=POSITIVE),
    Rule("softplus", log(1 + exp(a)), softplus(a), "exp overflows"),
    Rule("softplus-log1p", f("log1p", exp(a)), softplus(a), "exp overflows"),
    Rule("sigmoid", 1 / (1 + exp(a)), sigmoid(-a), "exp overflows"),
    Rule("sigmoid-swap", exp(a) * sigmoid(-a), sigmoid(a), "exp overflows"),
    Rule("logsigmoid", log(sigmoid(a)), f("logsigmoid", a), "sigmoid underflows"),
    Rule("sigmoid-complement", 1 - sigmoid(a), sigmoid(-a), "1 - sigmoid cancels"),
    Rule("logaddexp", log(exp(a) + exp(b)), f("logaddexp", a, b), "exp overflows"),
    Rule("tanh-exp", (exp(a) - exp(-a)) / (exp(a) + exp(-a)), tanh(a), "exp overflows"),
    Rule("tanh-exp2", (exp(a) - 1) / (exp(a) + 1), tanh(HALF * a), "exp overflows"),
    Rule("tanh-expm1", f("expm1", a) * sigmoid(-a), tanh(HALF * a), "expm1 overflows"),
    Rule("tanh-sigmoid", 2 * sigmoid(a) - 1, tanh(HALF * a), "the difference cancels"),
    Rule("tanh-sinh", f("sinh", a) / f("cosh", a), tanh(a), "sinh and cosh overflow"),
    Rule("sinh", exp(a) - exp(-a), 2 * f("sinh", a), "the difference cancels at 0"),
    Rule("cosh", exp(a) + exp(-a), 2 * f("cosh", a), "one function for two"),
    Rule("erfc", 1 - f("erf", a), f("erfc", a), "1 - erf cancels"),
    Rule("erfc-negative", 1 + f("erf", a), f("erfc", -a), "1 + erf cancels"),
    Rule("tan", f("sin", a) / f("cos", a), f("tan", a), "one function for two", domain=(-1.4, 1.4)),
    Rule("exp-product", exp(a) * exp(b), exp(a + b), "one exponential, no overflow between factors"),
    Rule("exp-power", exp(a) ** n, exp(n * a), "one exponential, no overflow between factors"),
)

_FAR = 4


def _log_cosh(x: Expr) -> Expr:
    far = make("abs", x) + make("log1p", exp(-2 * make("abs", x))) - log(ex.num(2))
    return where(compare("lt", make("abs", x), _FAR), HALF * make("log1p", make("sinh", x) ** 2), far)


def _stable_conjugate(x: Expr, rest: Expr) -> Expr:
    """x + sqrt(x**2 + rest), without cancellation for negative x."""
    root = sqrt(x**2 + rest)
    return where(compare("lt", x, 0), rest / (root - x), x + root)


def _positive(name: Expr) -> Callable[[Mapping[Expr, Expr]], bool]:
    """The wildcard is a positive rational constant."""
    return lambda bindings: (bindings[name].number or 0) > 0


STABILISE = (
    Rule("expm1", exp(a) - 1, f("expm1", a), "exp - 1 cancels at 0"),
    Rule("expm1-negative", 1 - exp(a), -f("expm1", a), "1 - exp cancels at 0"),
    Rule("log1p", log(1 + a), f("log1p", a), "1 + a loses a", domain=(-0.9, 4.0)),
    Rule("log1p-negative", log(1 - a), f("log1p", -a), "1 - a loses a", domain=(-4.0, 0.9)),
    Rule("log-cosh", log(f("cosh", a)), _log_cosh(a), "cosh overflows"),
    Rule("sech", 1 - tanh(a) ** 2, f("cosh", a) ** -2, "1 - tanh**2 cancels"),
    Rule("haversine", 1 - f("cos", a), 2 * f("sin", HALF * a) ** 2, "1 - cos cancels at 0"),
    Rule("softplus-minus", softplus(a) - a, softplus(-a), "the difference cancels"),
    Rule("minus-softplus", a - softplus(a), f("logsigmoid", a), "the difference cancels"),
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
        "hypot-constant",
        sqrt(n + a**2),
        f("hypot", a, sqrt(n)),
        "the square overflows",
        _positive(n),
        POSITIVE,
    ),
    Rule("inverse-hypot", (a**2 + b**2) ** -HALF, 1 / f("hypot", a, b), "the squares overflow"),
    Rule(
        "inverse-hypot-constant",
        (n + a**2) ** -HALF,
        1 / f("hypot", a, sqrt(n)),
        "the square overflows",
        _positive(n),
        POSITIVE,
    ),
    Rule("logistic-slope", sigmoid(a) - sigmoid(a) ** 2, sigmoid(a) * sigmoid(-a), "the difference cancels"),
    Rule("sinc", f("sin", a) / a, f("sinc", a / ex.PI), "0 / 0 at 0"),
)

# Not always better: offered as candidates, and kept where they measure better.
ALTERNATIVES = (
    Rule("difference-of-squares", 1 - a**2, (1 - a) * (1 + a), "1 - a**2 cancels near 1"),
    Rule("difference-of-squares-2", a**2 - b**2, (a - b) * (a + b), "a**2 - b**2 cancels"),
    Rule("factor", a * b + a * c, a * (b + c), "one product for two"),
    Rule("factor-one", a + a * c, a * (1 + c), "one product for two"),
    Rule("distribute", a * (b + c), a * b + a * c, "separates terms of different size"),
    Rule("sum-of-fractions", a / b + c / t, (a * t + b * c) / (b * t), "one division for two", domain=POSITIVE),
    Rule("log-quotient", log(a) - log(b), log(a / b), "the logarithms cancel", domain=POSITIVE),
    Rule("log-quotient-1p", log(a / b), f("log1p", (a - b) / b), "a / b near 1", domain=POSITIVE),
    Rule(
        "difference-of-roots",
        sqrt(a) - sqrt(b),
        (a - b) / (sqrt(a) + sqrt(b)),
        "the roots cancel",
        domain=POSITIVE,
    ),
    Rule("root-minus", sqrt(a) - b, (a - b**2) / (sqrt(a) + b), "the root cancels", domain=POSITIVE),
    Rule(
        "logistic-slope-exp",
        sigmoid(a) * sigmoid(-a),
        exp(-make("abs", a)) * sigmoid(make("abs", a)) ** 2,
        "one exponential",
    ),
    Rule(
        "sum-of-sines",
        f("sin", a) - f("sin", b),
        2 * f("cos", HALF * (a + b)) * f("sin", HALF * (a - b)),
        "cancels",
    ),
    Rule("square-root-of-square", sqrt(a) ** 2, a, "the pair cancels", domain=POSITIVE),
    Rule("exp-split", exp(a + b), exp(a) * exp(b), "a + b cancels"),
    Rule("saturating", a / (1 + a), 1 / (1 + 1 / a), "a overflows", domain=POSITIVE),
    Rule("reciprocal-square", a / (b + a), 1 / (1 + b / a), "a overflows", domain=POSITIVE),
    Rule("log-of-large", log(1 + a), log(a) + f("log1p", 1 / a), "a overflows", domain=POSITIVE),
    Rule("log1p-of-square", f("log1p", a**2), 2 * log(f("hypot", a, ONE)), "the square overflows"),
    Rule("log-of-square", log(a**2 + b**2), 2 * log(f("hypot", a, b)), "the squares overflow"),
    Rule("log-of-power", log(a**n), n * log(a), "the power overflows", domain=POSITIVE),
    Rule("cosh-as-exp", f("cosh", a) ** -2, 4 * sigmoid(2 * a) * sigmoid(-2 * a), "cosh overflows"),
)
