"""The table of tensor operations: one row per operation, with its vjp, jvp, spelling and cost."""

from __future__ import annotations

from symgrad.tensor_ops.reductions import INTERNAL_ROWS, ROWS
from symgrad.tensor_ops.row import Attribute, Ref, TensorOp

__all__ = ["TENSOR_OPS", "TENSOR_SPELLINGS", "Attribute", "Ref", "TensorOp"]

TENSOR_OPS: dict[str, TensorOp] = {row.name: row for row in (*ROWS, *INTERNAL_ROWS)}

# Every spelling that a spec may use -> the canonical name.
TENSOR_SPELLINGS: dict[str, str] = {name: row.name for row in ROWS for name in (row.name, *row.aliases)}
