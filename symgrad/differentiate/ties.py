"""Elements are compared with the extremum of just these elements.

A region is evaluated in a form of its own choice. What is compared with the largest of itself has to be evaluated as it
was when it was reduced, or no element is the largest: so it is held apart as an operand while forms are chosen.
"""

from __future__ import annotations

from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import operations, transform
from symgrad.ir.truth import compare
from symgrad.ops.tensors import TENSOR_OPS

__all__ = ["compared", "held", "released"]

_EXTREMA = frozenset({"amax", "amin"})
_PLACED = ("unsqueeze", "restore", "expand")


def held(root: Expr) -> Expr:
    """The formula with what is compared with an extremum of itself as an operand."""
    return root if _EXTREMA.isdisjoint(operations(root)) else transform(root, _held)


def compared(root: Expr) -> Expr:
    """The formula with what `held` held in comparisons as a part of it again; what is divided first stays held."""
    if "held" not in operations(root):
        return root
    return transform(root, lambda node: compare("eq", *map(_inside, node.args)) if node.op == "eq" else node)


def _inside(value: Expr) -> Expr:
    return value.args[0] if value.op == "held" else value


def released(root: Expr) -> Expr:
    """The formula with all that is held as a part of the formula around it again."""
    if "held" not in operations(root):
        return root
    return transform(root, _inside)


def _held(node: Expr) -> Expr:
    if node.op != "eq":
        return node
    for element, other in (node.args, node.args[::-1]):
        extremum = other
        while extremum.op in _PLACED:
            extremum = extremum.args[0]
        if extremum.op in _EXTREMA and extremum.args[0] is element and _is_region(element):
            return compare("eq", make("held", element), other)
    return node


def _is_region(value: Expr) -> bool:
    return bool(value.args) and value.op not in TENSOR_OPS
