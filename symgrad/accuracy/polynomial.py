"""Polynomials in one variable with rational coefficients, by rising powers: for formulas rational in exp(t)."""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm
from typing import TypeAlias

from symgrad.ir import expr as ex
from symgrad.ir.expr import ONE, ZERO, Expr

Polynomial: TypeAlias = tuple[Fraction, ...]

UNIT: Polynomial = (Fraction(1),)
VARIABLE: Polynomial = (Fraction(0), Fraction(1))


def _trimmed(coefficients: list[Fraction]) -> Polynomial:
    while coefficients and not coefficients[-1]:
        coefficients.pop()
    return tuple(coefficients)


def add(p: Polynomial, q: Polynomial) -> Polynomial:
    size = max(len(p), len(q))
    padded = [(*r, *[Fraction(0)] * (size - len(r))) for r in (p, q)]
    return _trimmed([a + b for a, b in zip(*padded, strict=True)])


def mul(p: Polynomial, q: Polynomial) -> Polynomial:
    if not p or not q:
        return ()
    result = [Fraction(0)] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for k, b in enumerate(q):
            result[i + k] += a * b
    return _trimmed(result)


def power(p: Polynomial, n: int) -> Polynomial:
    result = UNIT
    for _ in range(n):
        result = mul(result, p)
    return result


def divided(p: Polynomial, q: Polynomial) -> Polynomial | None:
    """The exact quotient, or None."""
    if len(p) < len(q):
        return None
    rest, result = list(p), [Fraction(0)] * (len(p) - len(q) + 1)
    for k in range(len(result) - 1, -1, -1):
        result[k] = rest[k + len(q) - 1] / q[-1]
        for i, b in enumerate(q):
            rest[k + i] -= result[k] * b
    return None if any(rest) else _trimmed(result)


def factors(p: Polynomial) -> tuple[Fraction, dict[Polynomial, int]]:
    """Content and factors: the variable, linear ones with small rational roots, and what is left."""
    scale = Fraction(gcd(*(c.numerator for c in p)), lcm(*(c.denominator for c in p)))
    scale = -scale if p[-1] < 0 else scale
    rest: Polynomial = tuple(c / scale for c in p)
    found: dict[Polynomial, int] = {}
    for candidate in _LINEAR:
        while len(rest) > 1 and (quotient := divided(rest, candidate)) is not None:
            found[candidate] = found.get(candidate, 0) + 1
            rest = quotient
    if len(rest) > 1:
        found[rest] = found.get(rest, 0) + 1
    return scale * (rest[0] if len(rest) == 1 else 1), found


_ROOTS = (0, 1, -1, 2, -2, 3, -3)
_LINEAR: tuple[Polynomial, ...] = (
    *((Fraction(-r), Fraction(1)) for r in _ROOTS),
    *((Fraction(s), Fraction(2)) for s in (1, -1)),
)


def horner(p: Polynomial, variable: Expr) -> Expr:
    """The polynomial as nested products, which the normalising constructors leave as they are."""
    total: Expr = ZERO
    for c in reversed(p):
        total = ex.num(c) if total is ZERO else ex.add(ex.mul(variable, total), ex.num(c))
    return ONE if p == UNIT else total
