"""Divisors that overflow are kept finite in derivatives that are differentiated again.

`x / cosh(x)` is 0 where `cosh(x)` overflows, and right. Its derivative by autograd is NaN there: the chain rule
multiplies 0 by the derivative of `cosh`, which is infinite. With a bounded argument both are finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological

__all__ = ["BOUNDED", "BOUNDED_BELOW", "BOUNDS", "divisors", "with_bounded_divisors"]

BOUNDED, BOUNDED_BELOW = BOUNDS = ("bounded", "bounded_below")
_GROWING = {**dict.fromkeys(("cosh", "sinh", "exp", "expm1"), BOUNDED), "erfcx": BOUNDED_BELOW}  # like exp(x**2)
_SUMS_AND_PRODUCTS = frozenset({"add", "sub", "mul", "neg"})


def with_bounded_divisors(
    roots: Sequence[Expr], leaves: frozenset[Expr] = frozenset(), known: frozenset[Expr] = frozenset()
) -> list[Expr]:
    """Machine-level roots with the arguments bounded of functions that grow exponentially and only divide.

    `known` are roots that only divide in what is computed of them later.
    """
    order = topological(*roots, leaves=leaves)
    dividing = divisors(roots, order, known)
    held = {n for n in order if n.op in _GROWING and n in dividing and n not in leaves and not n.is_static}
    if not held:
        return list(roots)
    mapped: dict[Expr, Expr] = {}
    for node in order:
        args = [mapped[a] for a in node.args] if node not in leaves else []
        if node in held:
            args = [make(_GROWING[node.op], args[0])]
        changed = any(a is not b for a, b in zip(args, node.args, strict=False))
        mapped[node] = make(node.op, *args, **dict(node.attrs)) if changed else node
    return [mapped[r] for r in roots]


def divisors(roots: Iterable[Expr], order: Sequence[Expr], known: frozenset[Expr] = frozenset()) -> set[Expr]:
    """The values, of those in `order`, that are read as divisors alone, or in sums, products and choices that are."""
    others = set(roots) - known
    found = set(known)
    for node in reversed(order):
        divides = node in found and node not in others
        for place, argument in enumerate(node.args):
            is_divisor = place == 1 if node.op == "div" else divides and _grows_with(node, place)
            (found if is_divisor else others).add(argument)
    return found - others


def _grows_with(node: Expr, place: int) -> bool:
    """Whether an operation is large where its operand at a place is."""
    if node.op == "pow":
        exponent = node.args[1].number
        return place == 0 and exponent is not None and exponent > 0
    return node.op in _SUMS_AND_PRODUCTS or (node.op == "where" and place > 0)
