"""Transformations of products with powers of products in them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.rules.rule import Transformation


def cancelled_factors(node: Expr) -> Expr | None:
    """a*b / (a*c) as b/c, and a / (a/b) as b: a divisor that is a product, apart where factors of it cancel."""
    return next((opened for opened, others, parts in _opened(node) if _count(opened) < others + parts), None)


def cancelled_whole(node: Expr) -> Expr | None:
    """a/b / (a/b) as 1: a divisor that is a product, of which every factor cancels."""
    return next((opened for opened, others, parts in _opened(node) if _count(opened) == others - parts), None)


def _opened(node: Expr) -> Iterator[tuple[Expr, int, int]]:
    """The product with a divisor of several parts taken apart, how many other factors it had, and how many parts."""
    for divisor in node.args:
        base, exponent = ex.split_power(divisor)
        n = exponent.integer
        if base.op == "mul" and n is not None and n < 0:
            others = [f for f in node.args if f is not divisor]
            yield ex.mul(*others, *(ex.power(part, exponent) for part in base.args)), len(others), len(base.args)


def _count(node: Expr) -> int:
    return 0 if node is ex.ONE else len(node.factors)


def gathered_powers(node: Expr) -> Expr | None:
    """a * (a/b)**n / b**2 as (a/b)**(n+1) / b: one operation less, and nothing smaller or larger on the way."""
    exponents = dict(map(_split, node.args))
    for factor in node.args:
        base, n = ex.split_power(factor)
        grows = n.number > 0 if n.number is not None else (n + 1).size < n.size
        if base.op == "mul" and grows:
            parts = dict(map(_split, base.args))
            if all(_reaches(exponents.get(part), m) for part, m in parts.items()):
                rest = (f for f in node.args if f is not factor)
                return ex.mul(ex.power(base, n + 1), *rest, *(ex.power(part, -1) for part in base.args))
    return None


def logarithms_apart(node: Expr) -> Expr | None:
    """log(a * b**n / c) as log(a) + n * log(b) - log(c), in one step: each part may over- or underflow."""
    factors = node.args[0].factors
    if len(factors) < 2 and factors[0].op != "pow":
        return None
    return ex.add(*(ex.mul(n, ex.make("log", base)) for base, n in map(ex.split_power, factors)))


def log_of_varying_power(node: Expr) -> Expr | None:
    """The same where an exponent is no number, so that the power is never computed, nor in the derivatives."""
    exponents = [ex.split_power(factor)[1] for factor in node.args[0].factors]
    return None if all(n.number is not None for n in exponents) else logarithms_apart(node)


def _split(factor: Expr) -> tuple[Expr, Fraction | None]:
    base, exponent = ex.split_power(factor)
    return base, exponent.number


def _reaches(exponent: Fraction | None, least: Fraction | None) -> bool:
    """Whether a power can be divided by one of this exponent and is not turned over by it."""
    return exponent is not None and least is not None and exponent / least >= 1


CANCELLED_PRODUCTS = (
    Transformation("cancelled-factors", "mul", cancelled_factors, "what is multiplied by is divided by again"),
)
CANCELLED_WHOLE = Transformation("cancelled-whole", "mul", cancelled_whole, "what is multiplied by is divided by again")
GATHERED = Transformation("gathered-powers", "mul", gathered_powers, "one product for two, of one size with the whole")
VARYING_POWER = Transformation("log-of-varying-power", "log", log_of_varying_power, "the power over- or underflows")
LOGARITHMS = Transformation("logarithms-apart", "log", logarithms_apart, "factors over- or underflow")
