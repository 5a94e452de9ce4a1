"""Where torch makes floats of whole numbers although their values stay whole."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from symgrad.analysis.integers import is_whole_tensor
from symgrad.ir.expr import Expr, make


def floated(value: Expr, first: ast.expr, rest: Sequence[tuple[ast.operator, ast.expr]]) -> Expr:
    """A sum or product of tensors of whole numbers, as floats where there is a float or a quotient among its terms."""
    operands = (o.operand if isinstance(o, ast.UnaryOp) else o for o in (first, *(operand for _, operand in rest)))
    by_float = any(isinstance(o, ast.Constant) and isinstance(o.value, float) for o in operands)
    if not by_float and not any(isinstance(operator, ast.Div) for operator, _ in rest):
        return value
    return make("floated", value) if is_whole_tensor(value) else value
