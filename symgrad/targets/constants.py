"""Numbers as source: rationals as literals or quotients, constants that get a name, and which keep their digits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

from symgrad.accuracy.evaluate import exact
from symgrad.ir.expr import Expr
from symgrad.lower.code import Code, binary, constant
from symgrad.parse.formula import formula

__all__ = ["constant_name", "constant_value", "definitions", "is_decimal", "is_exact", "is_power_of_two", "number"]

_EXACT = 10**15  # integers below it are written with all their digits
_LONGEST = 28  # characters of a name that spells the constant


def number(value: Fraction) -> Code:
    """A rational as the shortest literal that is exact to a float; as a quotient, if its decimals never end."""
    if value.denominator == 1 and abs(value) < _EXACT:
        return constant(int(value))
    if is_decimal(value.denominator):
        return constant(float(value))
    return binary("/", constant(value.numerator), constant(value.denominator))


def constant_value(node: Expr) -> float | None:
    """The correctly rounded value of an expression without symbols, infinite at poles; None of a truth value."""
    (value,) = exact([node], {}, 200)
    return None if isinstance(value, bool) else float(value)


def definitions(constants: Mapping[Expr, str]) -> list[tuple[str, str, str]]:
    """The name of each constant, its value as source, and the formula of that."""
    return [(name, repr(constant_value(node)), formula(node)) for node, name in constants.items()]


def constant_name(node: Expr, taken: Collection[str]) -> str:
    """A name that spells the constant: `_SQRT_2_OVER_PI` for sqrt(2 / pi)."""
    spelled = formula(node).replace("**", " pow ").replace("/", " over ")
    words = "".join(c if c.isalnum() else " " for c in spelled).split()
    name = "_" + "_".join(words).upper()
    if len(name) > _LONGEST or not name.isidentifier():
        name = "_CONSTANT"
    unique, i = name, 2
    while unique in taken:
        unique, i = f"{name}_{i}", i + 1
    return unique


# ------------------------------------------------------------------------------------------------ digits
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
