"""The table of pointwise functions: one row per function, everything symgrad knows about it.

Derivatives are stable atoms themselves and follow PyTorch's conventions at kinks. Rows with a `definition` are
spellings: the parser expands them and no later stage sees them. Adding a function is adding a row;
`tests/ops/functions/test_functions.py` proves every row against mpmath and torch.
"""

from __future__ import annotations

from symgrad.ir.expr import Expr, Scalar, as_expr, make
from symgrad.ops.functions import activations, exponential, kinks, special, spellings, trigonometric
from symgrad.ops.functions.row import Function

__all__ = ["FUNCTIONS", "SPELLINGS", "Function", "call"]

_ROWS = (*exponential.ROWS, *trigonometric.ROWS, *special.ROWS, *kinks.ROWS, *spellings.ROWS, *activations.ROWS)

FUNCTIONS: dict[str, Function] = {row.name: row for row in _ROWS}

# Every spelling that specs may have -> the canonical name.
SPELLINGS: dict[str, str] = {name: row.name for row in _ROWS if not row.internal for name in (row.name, *row.aliases)}


def call(name: str, *args: Scalar) -> Expr:
    """The function `name` applied to expressions, by its definition where it has one."""
    row = FUNCTIONS[name]
    values = tuple(as_expr(a) for a in args)
    return row.definition(*values) if row.definition else make(name, *values)
