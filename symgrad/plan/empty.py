"""Gradients where there are no elements: a number of elements that divides a sum over none is 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import rebuild, topological
from symgrad.ops.tensors.extent import positions
from symgrad.ops.tensors.shapes import extent

__all__ = ["divided_by_elements"]


def divided_by_elements(gradients: Sequence[tuple[Expr, Expr]], forms: Sequence[Expr]) -> list[Expr]:
    """The forms by which gradients of tensors are computed, with 1 for a number of elements where there are none and it
    divides what was summed.

    Of no elements the sum is zero, and so is its gradient: a mean over an empty batch has none in what is shared. A
    tensor that has what is counted is empty itself then.
    """
    counts = {factor for tensor, gradient in gradients for factor in _means(tensor, gradient)}
    mapped: dict[Expr, Expr] = {}
    for node in topological(*forms):
        own = counts.intersection(node.args) if node.is_differential else ()
        least = {f: ex.power(make("maximum", f.args[0], ex.ONE), f.args[1]) for f in own}
        mapped[node] = rebuild(node, [least.get(a, mapped[a]) for a in node.args])
    return [mapped[form] for form in forms]


def _means(tensor: Expr, gradient: Expr) -> Iterator[Expr]:
    """The factors of products with a sum that divide by as many elements, or by a power of their number, of which the
    tensor has perhaps others."""
    for product in (n for n in topological(gradient) if n.op == "mul"):
        sums = [a for a in product.args if a.op == "sum"]
        for factor in product.args if sums else ():
            exponent = factor.args[1].number if factor.op == "pow" and factor.args[0].op == "count" else None
            if exponent is None or exponent >= 0:
                continue
            count, names = factor.args[0], _counted(factor.args[0])
            every = count["dim"] is None and any(not s["keepdim"] for s in sums)
            lost = names - set(extent(tensor).dims)
            if every or any(lost & _counted(s) for s in sums):
                yield factor


def _counted(node: Expr) -> frozenset[str]:
    """The names of the dimensions that a sum or a count is over."""
    of = extent(node.args[0])
    places = positions(node["dim"], of) if node["dim"] is not None else range(-len(of.dims), 0)
    return frozenset(d for d in (of.dims[p] for p in places or ()) if isinstance(d, str))
