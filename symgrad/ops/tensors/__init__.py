"""The table of tensor operations: one row per operation, with its vjp, jvp, spelling and cost."""

from __future__ import annotations

from symgrad.ops.tensors import (
    along,
    einsum,
    indexing,
    joins,
    linalg,
    losses,
    moves,
    ordering,
    positions,
    products,
    random,
    reductions,
    scans,
    shaping,
    slices,
    transposes,
    views,
    windows,
)
from symgrad.ops.tensors.row import (
    TENSOR_OPS,
    Attribute,
    Ref,
    TensorOp,
    data_arguments,
    interval,
    is_index,
    is_number,
    opened,
    results,
    shape_only,
    typed_arguments,
)

__all__ = [
    "TENSOR_OPS",
    "TENSOR_SPELLINGS",
    "Attribute",
    "Ref",
    "TensorOp",
    "data_arguments",
    "interval",
    "is_index",
    "is_number",
    "opened",
    "results",
    "shape_only",
    "typed_arguments",
]

ROWS = (
    *reductions.ROWS,
    *along.ROWS,
    *scans.ROWS,
    *ordering.ROWS,
    *products.ROWS,
    einsum.ROW,
    *transposes.ROWS,
    *shaping.PLACES,
    shaping.DETACHED,
    *indexing.ROWS,
    *losses.ROWS,
    *joins.ROWS,
    *moves.ROWS,
    *views.ROWS,
    *positions.ROWS,
    *random.ROWS,
    *linalg.ROWS,
    *windows.ROWS,
)

# Written by the compiler, never by users.
INTERNAL_ROWS = (
    *reductions.INTERNAL,
    *along.INTERNAL,
    *scans.INTERNAL,
    *ordering.INTERNAL,
    *products.INTERNAL,
    *shaping.INTERNAL,
    *indexing.INTERNAL,
    *slices.INTERNAL,
    *joins.INTERNAL,
    *views.INTERNAL,
    *linalg.INTERNAL,
    *random.INTERNAL,
    *windows.INTERNAL,
)

TENSOR_OPS.update((row.name, row) for row in (*ROWS, *INTERNAL_ROWS))

# Every spelling that a spec may use -> the canonical name. What is written as an attribute (`x.T`) is no function.
TENSOR_SPELLINGS: dict[str, str] = {
    name: row.name for row in ROWS if not row.method for name in (row.name, *row.aliases)
}
