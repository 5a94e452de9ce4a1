"""Which tensors of integers name places, and below which size these are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.extent import Dim

__all__ = ["places", "shifts"]


def places(formulas: Iterable[Expr]) -> dict[Expr, frozenset[Dim]]:
    """For each tensor of integers that formulas pick elements with, the sizes that its numbers are below, as known."""
    found: dict[Expr, frozenset[Dim]] = {}
    for symbol, size, _ in _named(formulas):
        found[symbol] = found.get(symbol, frozenset()) | {size}
    return found


def shifts(formulas: Iterable[Expr]) -> dict[Expr, tuple[int, int]]:
    """For each such tensor the least and the most that is added to its numbers before they name places: `label + 1`."""
    found: dict[Expr, tuple[int, int]] = {}
    for symbol, _, index in _named(formulas):
        least, most = found.get(symbol, (0, 0))
        own = _added(index)
        found[symbol] = min(least, own), max(most, own)
    return found


def _named(formulas: Iterable[Expr]) -> Iterator[tuple[Expr, Dim, Expr]]:
    """Tensors of integers, the sizes that they are below, and the indices that are made of them."""
    for node in topological(*formulas):
        row = TENSOR_OPS.get(node.op)
        size = row.places(node) if row is not None and row.places is not None else None
        if row is None or size is None:
            continue
        for k in row.integer:
            for symbol in node.args[k].tensors:
                if symbol["kind"] == "int_tensor":
                    yield symbol, size, node.args[k]


def _added(index: Expr) -> int:
    """The number in an index that is a tensor and a number; 0 of any other."""
    while index.op in TENSOR_OPS and TENSOR_OPS[index.op].view:
        index = index.args[0]
    numbers = [t.number for t in index.terms if t.number is not None]
    return int(numbers[0]) if numbers and len(index.terms) == 2 else 0
