"""Rules that recognise stable atoms in what people write; applied before differentiation."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.ir.expr import HALF, OO, Expr, sqrt
from symgrad.rules.rule import Rule
from symgrad.rules.words import (
    POSITIVE,
    UNIT,
    a,
    b,
    c,
    exp,
    expm1,
    f,
    log,
    log1p,
    n,
    positive,
    sigmoid,
    softplus,
    t,
    tanh,
)

__all__ = ["RECOGNISE_RULES"]


def _negative(bindings: Mapping[Expr, Expr]) -> bool:
    number = bindings[n].number
    return number is not None and number < 0


# Of functions of all real numbers: tanh(atanh(a)) is no number where the inverse has none.
_INVERSES = {
    "atanh": "tanh",
    "asinh": "sinh",
    "sinh": "asinh",
    "tan": "atan",
    "log1p": "expm1",
    "erfinv": "erf",
}

RECOGNISE_RULES = (
    Rule("log-exp", log(exp(a)), a, "the pair cancels"),
    *(Rule(f"{g}-{h}", f(g, f(h, a)), a, "the pair cancels") for g, h in _INVERSES.items()),
    Rule("ndtri", f("erfinv", a - 1), sqrt(HALF) * f("ndtri", HALF * a), "a - 1 cancels at 1", domain=(0.1, 1.9)),
    Rule("ndtri-minus", f("erfinv", 1 - a), -sqrt(HALF) * f("ndtri", HALF * a), "1 - a cancels", domain=(0.1, 1.9)),
    Rule("ndtri-ndtr", f("ndtri", HALF * f("erfc", a)), -sqrt(2) * a, "the pair cancels"),
    Rule("exp-log", exp(log(a)), a, "the pair cancels", domain=POSITIVE),
    Rule("softplus", log(1 + exp(a)), softplus(a), "exp overflows"),
    Rule("softplus-log1p", log1p(exp(a)), softplus(a), "exp overflows"),
    Rule("softplus-scaled", log(n + n * exp(a)), softplus(a) + log(n), "exp overflows", positive(n), POSITIVE),
    Rule("softplus-relu", f("relu", a) + softplus(-f("abs", a)), softplus(a), "the kinks cancel"),
    Rule("softplus-relu-minus", f("relu", -a) + softplus(-f("abs", a)), softplus(-a), "the kinks cancel"),
    Rule("logsigmoid-clamp", f("clamp", a, -OO, 0) - softplus(-f("abs", a)), f("logsigmoid", a), "the kinks cancel"),
    Rule(
        "logsigmoid-clamp-minus",
        f("clamp", -a, -OO, 0) - softplus(-f("abs", a)),
        f("logsigmoid", -a),
        "the kinks cancel",
    ),
    Rule(
        "logaddexp-maximum",
        f("maximum", a, b) + softplus(-f("abs", a - b)),
        f("logaddexp", a, b),
        "the kinks cancel",
    ),
    Rule("sigmoid", (1 + exp(a)) ** n, sigmoid(-a) ** (-n), "exp overflows", _negative, domain=(-3, -1)),
    Rule(
        "sigmoid-divisor",
        (c * (1 + exp(a))) ** n,
        c**n * sigmoid(-a) ** (-n),
        "exp overflows",
        _negative,
        POSITIVE,
    ),
    Rule(
        "sigmoid-power-divisor",
        (c * (1 + exp(a)) ** t) ** n,
        c**n * sigmoid(-a) ** (-n * t),
        "exp overflows",
        _negative,
        POSITIVE,
    ),
    Rule("sigmoid-swap", exp(a) * sigmoid(-a), sigmoid(a), "exp overflows"),
    Rule("logsigmoid", log(sigmoid(a)), f("logsigmoid", a), "sigmoid underflows"),
    Rule("sigmoid-complement", 1 - sigmoid(a), sigmoid(-a), "1 - sigmoid cancels"),
    Rule("logaddexp", log(exp(a) + exp(b)), f("logaddexp", a, b), "exp overflows"),
    Rule("tanh-exp", (exp(a) - exp(-a)) / (exp(a) + exp(-a)), tanh(a), "exp overflows"),
    Rule("tanh-exponentials", (exp(a) - exp(b)) / (exp(a) + exp(b)), tanh(HALF * (a - b)), "exp overflows"),
    Rule("sign-of-sine", f("sin", a) / sqrt(1 - f("cos", a) ** 2), f("sign", f("sin", a)), "the root cancels"),
    Rule("tanh-exp2", (exp(a) - 1) / (exp(a) + 1), tanh(HALF * a), "exp overflows"),
    Rule("tanh-expm1", expm1(a) * sigmoid(-a), tanh(HALF * a), "expm1 overflows"),
    Rule("tanh-softplus", ((1 + exp(a)) ** 2 - 1) / ((1 + exp(a)) ** 2 + 1), tanh(softplus(a)), "exp overflows"),
    Rule("tanh-sigmoid", 2 * sigmoid(a) - 1, tanh(HALF * a), "the difference cancels"),
    Rule("sigmoid-tanh", 1 + tanh(a), 2 * sigmoid(2 * a), "1 + tanh cancels for negative arguments"),
    Rule("sigmoid-minus-tanh", 1 - tanh(a), 2 * sigmoid(-2 * a), "1 - tanh cancels"),
    Rule("tanh-sinh", f("sinh", a) / f("cosh", a), tanh(a), "sinh and cosh overflow"),
    Rule("coth-sinh", f("cosh", a) / f("sinh", a), 1 / tanh(a), "sinh and cosh overflow"),
    Rule("sinh", exp(a) - exp(-a), 2 * f("sinh", a), "the difference cancels at 0"),
    Rule("cosh", exp(a) + exp(-a), 2 * f("cosh", a), "one function for two"),
    Rule("sinh-exp", f("sinh", a) * exp(a), HALF * expm1(2 * a), "one function for two, no overflow between factors"),
    Rule("sinh-exp-minus", f("sinh", a) * exp(-a), -HALF * expm1(-2 * a), "sinh overflows where the product does not"),
    Rule("cosh-exp", f("cosh", a) * exp(a), HALF * (1 + exp(2 * a)), "one function for two"),
    Rule("cosh-exp-minus", f("cosh", a) * exp(-a), HALF * (1 + exp(-2 * a)), "cosh overflows"),
    Rule("cosh-minus-sinh", f("cosh", a) - f("sinh", a), exp(-a), "the difference cancels"),
    Rule("asinh", log(a + sqrt(a**2 + 1)), f("asinh", a), "cancels for negative arguments"),
    Rule("acosh", log(a + sqrt(a**2 - 1)), f("acosh", a), "the square overflows", domain=(1.1, 4)),
    Rule("atanh", log((1 + a) / (1 - a)), 2 * f("atanh", a), "the quotient is near 1 at 0", domain=UNIT),
    Rule("erfc", 1 - f("erf", a), f("erfc", a), "1 - erf cancels"),
    Rule("erfc-negative", 1 + f("erf", a), f("erfc", -a), "1 + erf cancels"),
    Rule("erfc-reflected", 2 - f("erfc", a), f("erfc", -a), "2 - erfc cancels; SymPy writes erfc(-a) so"),
    Rule("erfc-reflected-half", 1 - HALF * f("erfc", a), HALF * f("erfc", -a), "1 - erfc/2 cancels"),
    Rule(
        "log-normal",
        log(n * f("erfc", a)),
        f("log_ndtr", -sqrt(2) * a) + log(2 * n),
        "erfc underflows",
        positive(n),
        POSITIVE,
    ),
    Rule("log-erfc", log(f("erfc", a)), f("log_ndtr", -sqrt(2) * a) + log(2), "erfc underflows"),
    Rule("exp-log-normal", exp(f("log_ndtr", a)), HALF * f("erfc", -sqrt(HALF) * a), "the pair cancels"),
    Rule(
        "exp-log-normal-power",
        exp(n * f("log_ndtr", a)),
        (HALF * f("erfc", -sqrt(HALF) * a)) ** n,
        "the pair cancels",
    ),
    Rule("log-of-scaled-exp", log(b * exp(a)), a + log(b), "exp under- or overflows", domain=POSITIVE),
    Rule("lgamma-step", f("lgamma", a + 1) - f("lgamma", a), log(f("abs", a)), "the difference cancels"),
    Rule("digamma-step", f("digamma", a + 1) - f("digamma", a), 1 / a, "the difference cancels"),
    Rule("log-softmax", a - f("logaddexp", a, b), f("logsigmoid", a - b), "the difference cancels"),
    Rule("log-softmax-2", b - f("logaddexp", a, b), f("logsigmoid", b - a), "the difference cancels"),
    Rule("tan", f("sin", a) / f("cos", a), f("tan", a), "one function for two", domain=(-1.4, 1.4)),
    Rule("exp-product", exp(a) * exp(b), exp(a + b), "one exponential, no overflow between factors"),
    Rule("exp-power", exp(a) ** n, exp(n * a), "one exponential, no overflow between factors"),
    Rule("half-tangent", (1 - f("cos", a)) / f("sin", a), f("tan", HALF * a), "the difference cancels at 0"),
)
