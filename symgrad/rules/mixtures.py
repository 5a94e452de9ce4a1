"""Logarithms of probabilities that may all underflow: of mixtures of densities, and of intervals."""

from __future__ import annotations

import math
from functools import reduce

from symgrad.analysis.signs import positive
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.rules.algebra import shortened
from symgrad.rules.rule import Transformation
from symgrad.spec.interval import Interval

_POSITIVE = Interval(0.0, math.inf, True, True)


def log_of_exponentials(node: Expr) -> Expr | None:
    """``log(c*exp(a) + d*exp(b))`` of positive c and d as ``logaddexp(a + log(c), b + log(d))``.

    Divisors may be positive; where they can be negative too, the check of the result shows it. A weight that may be
    zero has no logarithm there, and stays.
    """
    factor, total = ex.split_coefficient(node.args[0])
    if total.op != "add" or sum(map(_is_exponential, total.args)) < 2:
        return None
    logs = []
    for term in total.args:
        exponents = [f.args[0] for f in term.factors if f.op == "exp"]
        weights = [f for f in term.factors if f.op != "exp"]
        if len(exponents) > 1 or factor < 0 or not all(map(_may_be_positive, weights)):
            return None
        weight = ex.mul(factor, *weights)
        logs.append(ex.add(*exponents, ex.ZERO if weight is ex.ONE else make("log", weight)))
    return reduce(lambda a, b: make("logaddexp", a, b), logs)


def _may_be_positive(weight: Expr) -> bool:
    n = weight.args[1].number if weight.op == "pow" else None
    return positive(weight, dict.fromkeys(weight.tensors, _POSITIVE) if n is not None and n < 0 else {})


def _is_exponential(term: Expr) -> bool:
    return any(f.op == "exp" for f in term.factors)


def log_of_logistic_interval(node: Expr) -> Expr | None:
    """``log(c*sigmoid(a) - c*sigmoid(b))`` as ``logsigmoid(a) + logsigmoid(-b) + log(1 - exp(b - a)) + log(c)``.

    No term is positive but the last: nothing cancels, and nothing underflows.
    """
    terms = [ex.split_coefficient(term) for term in node.args[0].args] if node.args[0].op == "add" else []
    if len(terms) != 2 or any(part.op != "sigmoid" for _, part in terms):
        return None
    (low, lower), (high, upper) = sorted(terms, key=lambda term: term[0])
    if low + high != 0:
        return None
    (b,), (a,) = lower.args, upper.args
    width = make("log", ex.mul(-1, make("expm1", shortened(b - a))))
    size = ex.ZERO if high == 1 else make("log", ex.num(high))
    return ex.add(make("logsigmoid", a), make("logsigmoid", -b), width, size)


MIXTURES = (
    Transformation("log-of-exponentials", "log", log_of_exponentials, "exp under- or overflows"),
    Transformation("log-of-logistic-interval", "log", log_of_logistic_interval, "the difference cancels or underflows"),
)
