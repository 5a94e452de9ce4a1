"""Products of constants, such that factors and terms that are equal cancel."""

from __future__ import annotations

from fractions import Fraction

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, mul, power, split_power
from symgrad.rules.rule import Transformation


def merged_roots(product: Expr) -> Expr | None:
    """Roots of positive constants as one: ``sqrt(2) * sqrt(pi) * x`` is ``sqrt(2*pi) * x``."""
    roots: dict[Fraction, list[Expr]] = {}
    others: list[Expr] = []
    for factor in product.args:
        base, exponent = split_power(factor)
        n = exponent.number
        if n is None or n.denominator == 1 or not _is_positive_constant(base):
            others.append(factor)
        else:
            roots.setdefault(abs(n), []).append(base if n > 0 else 1 / base)
    if all(len(bases) == 1 for bases in roots.values()):
        return None
    return mul(*others, *(power(mul(*bases), n) for n, bases in roots.items()))


def _is_positive_constant(value: Expr) -> bool:
    if value.op in ("mul", "pow"):
        return all(map(_is_positive_constant, value.args))
    return value in (ex.PI, ex.E) or (value.number or 0) > 0


CONSTANTS = (Transformation("merged-roots", "mul", merged_roots, "equal constants cancel"),)
