"""Products of constants, such that factors and terms that are equal cancel."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, mul, power, split_power
from symgrad.ir.traversal import transform
from symgrad.rules.rule import Transformation


def merged_roots(product: Expr) -> Expr | None:
    """Roots of positive constants as one: ``sqrt(2) * sqrt(pi) * x`` is ``sqrt(2*pi) * x``."""
    roots: dict[Fraction, list[Expr]] = {}
    others: list[Expr] = []
    for factor, base, n in _roots(product):
        if base is None:
            others.append(factor)
        else:
            roots.setdefault(abs(n), []).append(base if n > 0 else 1 / base)
    if all(len(bases) == 1 for bases in roots.values()):
        return None
    return mul(*others, *(power(mul(*bases), n) for n, bases in roots.items()))


def under_one_root(form: Expr) -> Expr:
    """A form with roots of constants as one, above and below the fraction line: `x / sqrt(2*pi)`. It computes what it
    did before."""

    def visit(node: Expr) -> Expr:
        if node.op != "mul":
            return node
        roots: dict[Fraction, list[Expr]] = {}
        others = list[Expr]()
        for factor, base, n in _roots(node):
            (others if base is None else roots.setdefault(n, [])).append(factor if base is None else base)
        return mul(*others, *(power(mul(*bases), n) for n, bases in roots.items()))

    return transform(form, visit)


def _roots(product: Expr) -> Iterator[tuple[Expr, Expr | None, Fraction]]:
    """The factors of a product, each with the constant of which it is a root, if it is one, and with its power."""
    for factor in product.args:
        base, exponent = split_power(factor)
        n = exponent.number
        if n is None or n.denominator == 1 or not _is_positive_constant(base):
            yield factor, None, Fraction(1)
        else:
            yield factor, base, n


def _is_positive_constant(value: Expr) -> bool:
    if value.op in ("mul", "pow"):
        return all(map(_is_positive_constant, value.args))
    return value in (ex.PI, ex.E) or (value.number or 0) > 0


CONSTANTS = (Transformation("merged-roots", "mul", merged_roots, "equal constants cancel"),)
