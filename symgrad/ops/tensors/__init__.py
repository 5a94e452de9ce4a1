"""The table of tensor operations: one row per operation, with its vjp, jvp, spelling and cost."""

from __future__ import annotations

from symgrad.ops.tensors import along, einsum, products, reductions, shaping
from symgrad.ops.tensors.row import (
    TENSOR_OPS,
    Attribute,
    Ref,
    TensorOp,
    data_arguments,
    is_index,
    is_number,
    results,
    shape_only,
)

__all__ = [
    "TENSOR_OPS",
    "TENSOR_SPELLINGS",
    "Attribute",
    "Ref",
    "TensorOp",
    "data_arguments",
    "is_index",
    "is_number",
    "results",
    "shape_only",
]

ROWS = (*reductions.ROWS, *along.ROWS, *products.ROWS, einsum.ROW, *shaping.TRANSPOSITIONS)

# Written by the compiler, never by users.
INTERNAL_ROWS = (*reductions.INTERNAL, *along.INTERNAL, *products.INTERNAL, *shaping.INTERNAL)

TENSOR_OPS.update((row.name, row) for row in (*ROWS, *INTERNAL_ROWS))

# Every spelling that a spec may use -> the canonical name. What is written as an attribute (`x.T`) is no function.
TENSOR_SPELLINGS: dict[str, str] = {
    name: row.name for row in ROWS if not row.method for name in (row.name, *row.aliases)
}
