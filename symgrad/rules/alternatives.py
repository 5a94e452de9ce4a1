"""Rules that are not always better: offered as candidates where a form errs, and kept where they measure better."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.ir.expr import HALF, ONE, OO, PI, ZERO, Expr, split_coefficient, sqrt
from symgrad.ir.truth import compare, logical, where
from symgrad.rules.rule import Rule
from symgrad.rules.words import (
    POSITIVE,
    a,
    at_least_one,
    b,
    c,
    exp,
    expm1,
    f,
    log,
    log1p,
    n,
    negative,
    positive,
    sigmoid,
    size,
    softplus,
    tanh,
)

__all__ = ["ALTERNATIVE_RULES"]


def _cos_pi(x: Expr) -> Expr:
    """cos(pi*x) by exact reduction to sin(pi*r), |r| <= 1/2."""
    return f("sin", PI * (HALF - size(x - 2 * f("round", HALF * x))))


def _sin_pi(x: Expr) -> Expr:
    """sin(pi*x) by exact reduction to [-1/2, 1/2]."""
    r = x - 2 * f("round", HALF * x)
    return f("sin", PI * where(compare("gt", size(r), HALF), f("sign", r) - r, r))


def _erf_difference(x: Expr, y: Expr) -> Expr:
    """erf(x) - erf(y) by the tails on the side where both arguments are."""
    return where(
        compare("gt", x + y, 0),
        f("erfc", y) - f("erfc", x),
        f("erfc", -x) - f("erfc", -y),
    )


def _sigmoid_difference(x: Expr, y: Expr) -> Expr:
    return tanh(HALF * (x - y)) * (sigmoid(x) * sigmoid(-y) + sigmoid(y) * sigmoid(-x))


def _slope_difference(x: Expr, y: Expr) -> Expr:
    return _sigmoid_difference(x, y) * _sigmoid_difference(-y, x)


def _is_taken_away(bindings: Mapping[Expr, Expr]) -> bool:
    """Whether `b` is no number with a minus: sqrt(v) + eps cancels for no eps that anybody adds."""
    value = bindings[b]
    return not (value.is_static and split_coefficient(value)[0] < 0)


def _log_sinh(x: Expr) -> Expr:
    """log(2 * sinh(x))"""
    return x + log(-expm1(-2 * x))


ALTERNATIVE_RULES = (
    Rule("difference-of-squares", 1 - a**2, (1 - a) * (1 + a), "1 - a**2 cancels near 1"),
    Rule("difference-of-squares-2", a**2 - b**2, (a - b) * (a + b), "a**2 - b**2 cancels"),
    Rule("square-of-difference", a**2 - 2 * a * b + b**2, (a - b) ** 2, "the terms cancel"),
    Rule("factor", a * b + a * c, a * (b + c), "one product for two", saves=True),
    Rule("factor-one", a + a * c, a * (1 + c), "one product for two", saves=True),
    Rule("factor-minus-one", a * c - a, a * (c - 1), "one product for two", saves=True),
    Rule(
        "logistic-slope-difference",
        sigmoid(a) * sigmoid(-a) - sigmoid(b) * sigmoid(-b),
        _slope_difference(a, b),
        "cancels",
    ),
    Rule("sech-difference", f("cosh", a) ** -2 - f("cosh", b) ** -2, 4 * _slope_difference(2 * a, 2 * b), "cancels"),
    Rule("distribute", a * (b + c), a * b + a * c, "separates terms of different size"),
    Rule("log-quotient", log(a) - log(b), log(a / b), "the logarithms cancel", domain=POSITIVE),
    Rule("log-quotients", log(a) + log(b) - log(c), log(a / (c / b)), "the logarithms cancel", domain=POSITIVE),
    Rule("log-product", log(a * b), log(a) + log(b), "the product overflows", domain=POSITIVE),
    Rule("log-quotient-1p", log(a / b), log1p((a - b) / b), "a / b near 1", domain=POSITIVE),
    Rule("log-1p", log(a), log1p(a - 1), "a near 1", domain=POSITIVE),
    Rule("log1p-difference", log1p(a) - log1p(b), log1p((a - b) / (1 + b)), "the logarithms cancel", domain=POSITIVE),
    Rule("log-of-square", log(a**2 + b**2), 2 * log(f("hypot", a, b)), "the squares overflow"),
    Rule("log-of-power", log(a**n), n * log(a), "the power overflows", domain=POSITIVE),
    Rule(
        "removable-pole",
        a * b ** (c - 1),
        where(logical("and", compare("eq", b, 0), compare("gt", c, 0)), ZERO, a * b ** (c - 1)),
        "a zero of the other factors meets the pole",
        domain=POSITIVE,
        family="removable-pole",
    ),
    Rule("log-of-large", log1p(a), log(a) + log1p(1 / a), "a overflows", domain=POSITIVE),
    Rule("log1p-of-square", log1p(a**2), 2 * log(f("hypot", a, ONE)), "the square overflows"),
    Rule(
        "log1p-of-scaled-square",
        log1p(c * a**2),
        2 * log(f("hypot", sqrt(c) * a, ONE)),
        "the square overflows",
        domain=POSITIVE,
    ),
    Rule(
        "difference-of-roots",
        sqrt(a) - sqrt(b),
        (a - b) / (sqrt(a) + sqrt(b)),
        "the roots cancel",
        domain=POSITIVE,
    ),
    Rule("root-minus", sqrt(a) - b, (a - b**2) / (sqrt(a) + b), "the root cancels", _is_taken_away, POSITIVE),
    Rule("root-complement", b - sqrt(a), (b**2 - a) / (sqrt(a) + b), "the root cancels", _is_taken_away, POSITIVE),
    Rule(
        "inverse-root-minus-one", a**-HALF - 1, (1 - a) / (sqrt(a) * (1 + sqrt(a))), "cancels near 1", domain=POSITIVE
    ),
    Rule(
        "difference-of-inverse-roots",
        a**-HALF - b**-HALF,
        (b - a) / (sqrt(a) * sqrt(b) * (sqrt(a) + sqrt(b))),
        "cancels",
        domain=POSITIVE,
    ),
    Rule("over-square-of-hypot", a * f("hypot", a, b) ** -2, 1 / (a + b * (b / a)), "one of them may be infinite"),
    Rule("over-square-of-hypot-b", b * f("hypot", a, b) ** -2, 1 / (b + a * (a / b)), "one of them may be infinite"),
    Rule("hypot-minus-b", f("hypot", a, b) - b, a * (a / (f("hypot", a, b) + b)), "cancels", domain=POSITIVE),
    Rule("power-minus-one-log", a**n - 1, expm1(n * log(a)), "cancels near 1", domain=POSITIVE),
    Rule("one-minus-power-log", 1 - a**n, -expm1(n * log(a)), "cancels near 1", domain=POSITIVE),
    Rule(
        "one-minus-power-by-sign",
        1 - a**n,
        where(compare("gt", a, 0), -expm1(n * log(a)), 1 - a**n),
        "cancels near 1, and a negative number has powers but no logarithm",
        domain=POSITIVE,
        family="power",
    ),
    Rule(
        "difference-of-powers",
        (a + b) ** c - b**c,
        b**c * expm1(c * log1p(a / b)),
        "the powers cancel",
        domain=POSITIVE,
    ),
    Rule(
        "difference-of-powers-and-logs",
        (a + b) ** c * log(a + b) - b**c * log(b),
        b**c * (expm1(c * log1p(a / b)) * log(a + b) + log1p(a / b)),
        "the products cancel",
        domain=POSITIVE,
    ),
    Rule("exp-difference", exp(a) - exp(b), exp(b) * expm1(a - b), "cancels"),
    Rule("exp-difference-2", exp(a) - exp(b), -exp(a) * expm1(b - a), "cancels"),
    Rule("exp-split", exp(a + b), exp(a) * exp(b), "a + b cancels"),
    Rule("sigmoid-difference", sigmoid(a) - sigmoid(b), _sigmoid_difference(a, b), "cancels"),
    Rule("acos-cos", f("acos", f("cos", a)), size(a - 2 * PI * f("round", a / (2 * PI))), "cos is flat at 0"),
    Rule("tanh-difference", tanh(a) - tanh(b), 2 * _sigmoid_difference(2 * a, 2 * b), "cancels"),
    Rule("erf-difference", f("erf", a) - f("erf", b), _erf_difference(a, b), "cancels"),
    Rule("log-i0", log(f("i0", a)), size(a) + log(f("i0e", a)), "i0 overflows"),
    Rule("log-sinh", log(f("sinh", a)), _log_sinh(a) - log(2), "sinh overflows", domain=POSITIVE),
    Rule(
        "log-sinh-scaled",
        log(n * f("sinh", a)),
        _log_sinh(a) + log(n / 2),
        "sinh overflows",
        positive(n),
        POSITIVE,
    ),
    Rule("acosh-near-one", f("acosh", 1 + a), 2 * f("asinh", sqrt(a / 2)), "1 + a loses a", domain=POSITIVE),
    Rule("acoth-near-one", f("atanh", 1 / (1 + a)), log1p(2 / a) / 2, "1 + a loses a", domain=POSITIVE),
    Rule("asec-near-one", f("acos", 1 / (1 + a)), f("atan", sqrt(a * (2 + a))), "1 + a loses a", domain=POSITIVE),
    Rule(
        "logaddexp-difference",
        f("logaddexp", a, b) - f("logaddexp", a, c),
        log1p(expm1(b - c) * sigmoid(c - a)),
        "the logarithms cancel",
    ),
    Rule(
        "softplus-minus-logaddexp",
        softplus(a) - f("logaddexp", a, b),
        -log1p(expm1(b) * sigmoid(-a)),
        "the logarithms cancel",
    ),
    Rule("saturated-difference", sigmoid(a) - tanh(b), 2 * sigmoid(-2 * b) - sigmoid(-a), "both are near 1"),
    Rule("softplus-difference", softplus(a) - softplus(b), log1p(expm1(a - b) * sigmoid(b)), "cancels"),
    Rule("atan-difference", f("atan", a) - f("atan", b), f("atan2", a - b, 1 + a * b), "cancels", domain=(0.1, 4)),
    Rule(
        "logistic-slope-exp",
        sigmoid(a) * sigmoid(-a),
        exp(-size(a)) * sigmoid(size(a)) ** 2,
        "one exponential",
    ),
    Rule(
        "sum-of-sines",
        f("sin", a) - f("sin", b),
        2 * f("cos", HALF * (a + b)) * f("sin", HALF * (a - b)),
        "cancels",
    ),
    Rule(
        "sum-of-cosines",
        f("cos", a) - f("cos", b),
        -2 * f("sin", HALF * (a + b)) * f("sin", HALF * (a - b)),
        "cancels",
    ),
    Rule("cos-pi", f("cos", PI * a), _cos_pi(a), "the product with pi is not exact", family="circle"),
    Rule("sin-pi", f("sin", PI * a), _sin_pi(a), "the product with pi is not exact", family="circle"),
    Rule(
        "sinc-pi",
        f("sinc", a),
        _sin_pi(a) / (PI * a),
        "the product with pi is not exact",
        domain=POSITIVE,
        family="circle",
    ),
    Rule(
        "root-of-large-square",
        sqrt(b + c * a**2),
        size(a) * sqrt(c + b / a**2),
        "the square overflows",
        domain=POSITIVE,
    ),
    Rule(
        "inverse-root-of-large-square",
        (b + c * a**2) ** -HALF,
        1 / (size(a) * sqrt(c + b / a**2)),
        "the square overflows",
        domain=POSITIVE,
    ),
    Rule(
        "power-of-large-square",
        (b + c * a**2) ** n,
        size(a) ** (2 * n) * (c + b / a**2) ** n,
        "the square overflows",
        domain=POSITIVE,
    ),
    Rule(
        "inverse-sum-of-squares",
        (a**2 + c * b**2) ** n,
        f("hypot", a, sqrt(c) * b) ** (2 * n),
        "the squares overflow",
        negative(n),
        POSITIVE,
    ),
    Rule(
        "inverse-of-large-square",
        (b + c * a**2) ** n,
        c**n * f("hypot", a, sqrt(b / c)) ** (2 * n),
        "the square overflows",
        negative(n, b, c),
        POSITIVE,
    ),
    Rule(
        "inverse-of-square",
        (b + a**2) ** n,
        f("hypot", a, sqrt(b)) ** (2 * n),
        "the square overflows",
        negative(n, b),
        POSITIVE,
    ),
    Rule(  # acosh is steep at 1, next to which its argument is held
        "clamp-outside",
        f("acosh", f("clamp", a, b, OO)),
        f("clamp", f("acosh", f("clamp", a, 1, OO)), f("acosh", b), OO),
        "a rounded bound is far off",
        at_least_one(b),
        (1.0, 4.0),
    ),
    Rule("saturating", a / (b + a), 1 / (1 + b / a), "a overflows", domain=POSITIVE),
    Rule("saturating-one", a / (1 + a), 1 / (1 + 1 / a), "a overflows", domain=POSITIVE),
    Rule("complement-of-inverse", 1 - 1 / (1 + a), a / (1 + a), "cancels at 0", domain=POSITIVE),
    Rule("complement-of-fraction", 1 - a / (a + b), b / (a + b), "cancels", domain=POSITIVE),
    Rule("complement-of-scaled", 1 - c * a / (c * a + b), b / (c * a + b), "cancels", domain=POSITIVE),
    Rule("square-in-exponent", exp(a) * b**2, (exp(HALF * a) * b) ** 2, "the square overflows", domain=POSITIVE),
    Rule("sum-of-sin-and-cos", 1 + 2 * f("sin", a) * f("cos", a), (f("sin", a) + f("cos", a)) ** 2, "cancels"),
    Rule("difference-of-sin-and-cos", 1 - 2 * f("sin", a) * f("cos", a), (f("sin", a) - f("cos", a)) ** 2, "cancels"),
    Rule("cosh-as-exp", f("cosh", a) ** -2, 4 * sigmoid(2 * a) * sigmoid(-2 * a), "cosh overflows"),
)
