"""The words of a fused pass: rows and places in them, views of tensors, and what a value is to its elements."""

from __future__ import annotations

from dataclasses import dataclass

from symgrad.errors import SymgradError
from symgrad.ir.expr import Expr, symbol
from symgrad.ir.traversal import topological
from symgrad.ops.tensors.extent import Dim, Extent, extent

__all__ = [
    "ELEMENTS",
    "FIRST",
    "NOT_LAST",
    "PICKS",
    "PLACE",
    "REDUCTIONS",
    "ROW",
    "ROWS",
    "ROW_OPS",
    "TOTAL",
    "Unsupported",
    "Value",
    "View",
    "belongs_to_row",
    "is_count",
    "is_total",
    "is_whole",
    "length",
    "of_elements",
    "operands_of",
    "size_of",
]

ELEMENTS = symbol("elements", "int")  # how many elements a pass has
ROW = symbol("row_length", "int")  # how many of them a row has
ROWS = ELEMENTS / ROW  # how many rows it has
_OF_SIZE = "size of "
NOT_LAST = "a reduction that is not along the last dimension"
TOTAL = "total "  # the first word in the names of sums over everything
PLACE = symbol("place in row", "int_tensor")  # of each element in its row, from 0 on
REDUCTIONS = ("row_sum", "row_max", "row_min")
PICKS = ("row_place", "row_at")  # a whole number that is a place in the row, and the element of an operand there
FIRST = "row_first"  # the element of a tensor that has one for each row
ROW_OPS = (*REDUCTIONS, *PICKS, FIRST)  # what belongs to a whole row


def size_of(dims: tuple[int, ...]) -> Expr:
    """How many elements the pass has along these dimensions, counted from the end."""
    return symbol(_OF_SIZE + " ".join(map(str, dims)), "int")


def is_count(value: Expr) -> bool:
    """Whether a symbol is a number of elements, known when the pass runs."""
    return value in (ELEMENTS, ROW) or value.name.startswith(_OF_SIZE)


def is_whole(value: Expr) -> bool:
    """Whether a symbol is a tensor of whole numbers, of which a pass reads one for each row."""
    return value.op == "sym" and value["kind"] == "int_tensor" and value is not PLACE


def operands_of(value: Expr) -> list[Expr]:
    """The symbols of the tensors that a value is made of, in the order in which they occur."""
    return [n for n in topological(value) if n.op == "sym" and n.tensors and n is not PLACE and not is_total(n)]


def is_total(value: Expr) -> bool:
    """Whether a symbol stands for a sum over everything, which a pass makes or is given."""
    return value.op == "sym" and value.name.startswith(TOTAL)


def belongs_to_row(value: Expr) -> bool:
    """Whether a value follows from reductions of a row, from what is picked of it and from numbers alone."""
    order = of_elements(value)
    of_row = [n for n in order if n.op in ROW_OPS or is_whole(n)]
    return bool(of_row) and all(n in of_row or is_total(n) for n in order if n.op == "sym" and n.tensors)


class Unsupported(SymgradError):
    """What a fused pass cannot compute; the message says what."""


@dataclass(frozen=True)
class View:
    """A tensor with more dimensions of size 1, at these places counted from the end."""

    tensor: Expr
    dims: tuple[int, ...] = ()


def length(view: View, dim: int = -1) -> Dim | None:
    """How many elements a view has along a dimension, or the name of that number; None where it is not declared."""
    if dim in view.dims:
        return 1
    known = extent(view.tensor)
    place = dim + sum(added > dim for added in view.dims)
    if -place <= len(known.dims):
        return known.dims[place]
    return 1 if known.exact else None


@dataclass(frozen=True)
class Value:
    """A value for each element; or one that is summed over all (`total`), or over the dimensions of a broadcast.

    `dropped`: it belongs to a row, and the last dimension is gone; a total is then one over rows. `dims` are the
    dimensions that are summed away: those that are given, or with `like` those in which a value of that shape
    broadcasts. `kept`: they stay with size 1. `scaled`: something of the remaining dimensions was moved under the sum.
    `over` is the extent of what a total is over.
    """

    expr: Expr
    dropped: bool = False
    total: str = ""  # "sum" or "mean" over everything
    dims: tuple[int, ...] | None = None
    like: Expr | None = None
    kept: bool = False
    scaled: bool = False
    over: Extent | None = None


def of_elements(value: Expr) -> list[Expr]:
    """What a value is made of, down to what belongs to a whole row."""
    return topological(value, leaves=[n for n in topological(value) if n.op in ROW_OPS])
