"""Which tensors of integers name places, and below which size these are."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.extent import Dim

__all__ = ["places"]


def places(formulas: Iterable[Expr]) -> dict[Expr, frozenset[Dim]]:
    """For each tensor of integers that formulas pick elements with, the sizes that its numbers are below, as known."""
    found: dict[Expr, frozenset[Dim]] = {}
    for node in topological(*formulas):
        row = TENSOR_OPS.get(node.op)
        size = row.places(node) if row is not None and row.places is not None else None
        if row is None or size is None:
            continue
        for k in row.integer:
            for symbol in node.args[k].tensors:
                if symbol["kind"] == "int_tensor":
                    found[symbol] = found.get(symbol, frozenset()) | {size}
    return found
