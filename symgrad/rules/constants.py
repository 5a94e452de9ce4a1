"""Products of constants, such that factors and terms that are equal cancel."""

from __future__ import annotations

from fractions import Fraction

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, mul, power, split_power
from symgrad.ir.traversal import transform
from symgrad.rules.rule import Transformation


def merged_roots(product: Expr) -> Expr | None:
    """Roots of positive constants as one: ``sqrt(2) * sqrt(pi) * x`` is ``sqrt(2*pi) * x``."""
    return _merged(product, below=False)


def under_one_root(form: Expr) -> Expr:
    """A form with roots of constants as one, which divides where all do: `x / sqrt(2*pi)`. It computes what it did."""

    def visit(node: Expr) -> Expr:
        return node if node.op != "mul" else _merged(node, below=True) or node

    return transform(form, visit)


def _merged(product: Expr, below: bool) -> Expr | None:
    """A product with roots as one, `below` the fraction line where all of them are; None where they are so already."""
    roots: dict[Fraction, list[tuple[Expr, bool]]] = {}
    others: list[Expr] = []
    for factor in product.args:
        base, exponent = split_power(factor)
        n = exponent.number
        if n is None or n.denominator == 1 or not _is_positive_constant(base):
            others.append(factor)
        else:
            roots.setdefault(abs(n), []).append((base, n < 0))
    if all(len(bases) == 1 for bases in roots.values()):
        return None
    for n, bases in roots.items():
        divides = below and all(under for _, under in bases)
        whole = mul(*(1 / base if under and not divides else base for base, under in bases))
        others.append(power(whole, -n if divides else n))
    return mul(*others)


def _is_positive_constant(value: Expr) -> bool:
    if value.op in ("mul", "pow"):
        return all(map(_is_positive_constant, value.args))
    return value in (ex.PI, ex.E) or (value.number or 0) > 0


CONSTANTS = (Transformation("merged-roots", "mul", merged_roots, "equal constants cancel"),)
