"""Which numbers keep their digits: in a product, in decimal, and in float32."""

from __future__ import annotations

from symgrad.ir.expr import Expr


def is_power_of_two(node: Expr) -> bool:
    """A factor that is exact wherever it stands in a product."""
    value = node.number
    return value is not None and value > 0 and all(n & (n - 1) == 0 for n in (value.numerator, value.denominator))


def is_exact(number: Expr) -> bool:
    """Whether a number is the same in float32, which torch gives to a choice between two numbers: a fraction of few
    binary digits, or a size."""
    value = number.number
    if value is None:
        return number.op == "count"
    return value.denominator & (value.denominator - 1) == 0 and abs(value.numerator) < 2**24 > value.denominator


def is_decimal(denominator: int) -> bool:
    """Whether a fraction with this denominator has finitely many decimals."""
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    return denominator == 1
