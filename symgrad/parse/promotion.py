"""Where whole numbers become floats: where torch makes them so, and where their powers are fractions."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from symgrad.analysis.integers import is_whole_tensor
from symgrad.ir.expr import Expr, make

__all__ = ["as_exponent", "floated"]


def as_exponent(exponent: Expr, base: Expr) -> Expr:
    """An exponent of whole numbers, as floats: to torch a whole number to the power of a tensor with -1 in it is 0."""
    of_numbers = base.is_static or is_whole_tensor(base)
    return make("floated", exponent) if of_numbers and is_whole_tensor(exponent) else exponent


def floated(value: Expr, first: ast.expr, rest: Sequence[tuple[ast.operator, ast.expr]]) -> Expr:
    """A sum or product of tensors of whole numbers, as floats where there is a float or a quotient among its terms."""
    operands = (o.operand if isinstance(o, ast.UnaryOp) else o for o in (first, *(operand for _, operand in rest)))
    by_float = any(isinstance(o, ast.Constant) and isinstance(o.value, float) for o in operands)
    if not by_float and not any(isinstance(operator, ast.Div) for operator, _ in rest):
        return value
    return make("floated", value) if is_whole_tensor(value) else value
