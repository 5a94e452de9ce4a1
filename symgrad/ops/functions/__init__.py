"""The table of pointwise functions: one row per function, everything symgrad knows about it.

Derivatives are stable atoms themselves and follow PyTorch's conventions at kinks. Rows with a `definition` are
spellings: the parser expands them and no later stage sees them. Adding a function is adding a row;
`tests/ops/functions/test_functions.py` proves every row against mpmath and torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import zip_longest

from symgrad.ir.expr import OO, ZERO, Expr, Scalar, as_expr, make
from symgrad.ops.functions import (
    activations,
    bessel,
    exponential,
    kinks,
    lacking,
    special,
    spellings,
    trigonometric,
    vocabulary,
)
from symgrad.ops.functions.row import Function

__all__ = ["BY_AUTOGRAD", "FUNCTIONS", "SPELLINGS", "Function", "call", "extremum", "extremum_with_zero", "spelled"]

_ROWS = (
    *(*exponential.ROWS, *trigonometric.ROWS, *special.ROWS, *bessel.ROWS, *lacking.ROWS),
    *(*kinks.ROWS, *spellings.ROWS, *activations.ROWS, *vocabulary.ROWS),
)

FUNCTIONS: dict[str, Function] = {row.name: row for row in _ROWS}

# The same functions spelled so that autograd differentiates them, for composites; by the names of the others.
BY_AUTOGRAD: dict[str, Function] = {
    row.name: replace(row, name=f"{row.name}_by_autograd", torch=row.by_autograd, aliases=(), internal=True)
    for row in _ROWS
    if row.by_autograd
}
FUNCTIONS |= {row.name: row for row in BY_AUTOGRAD.values()}

# Every spelling that specs may have -> the canonical name.
SPELLINGS: dict[str, str] = {name: row.name for row in _ROWS if not row.internal for name in (row.name, *row.aliases)}


def spelled(target: str) -> dict[str, str]:
    """The functions whose rows say how a target spells them."""
    return {row.name: row.targets[target] for row in _ROWS if target in row.targets}


def call(name: str, *args: Scalar) -> Expr:
    """The function `name` applied to expressions, by its definition where it has one."""
    row = FUNCTIONS[name]
    values = tuple(as_expr(a) for a in args)
    return row.definition(*values) if row.definition else make(name, *values)


def extremum(name: str, values: Sequence[Expr]) -> Expr:
    """The `maximum` or `minimum` of values: of pairs, then of those, so that each passes few others; numbers last."""
    tensors = [value for value in values if not value.is_static]
    while len(tensors) > 1:
        pairs = zip_longest(tensors[::2], tensors[1::2])
        tensors = [a if b is None else call(name, a, b) for a, b in pairs]
    numbers = [value for value in values if value.is_static]
    return reduce(lambda a, b: call(name, a, b), [*tensors, *numbers])


def extremum_with_zero(name: str, value: Expr) -> Expr:
    """max(x, 0) is relu, with its slope of 0 at 0; min(x, 0) is what x has besides, with a slope of 1 there."""
    return make("relu", value) if name == "maximum" else make("clamp", value, -OO, ZERO)
