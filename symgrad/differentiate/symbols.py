"""The symbols that stand for cotangents and tangents in every stage."""

from __future__ import annotations

from symgrad.ir.expr import Expr, symbol
from symgrad.ops.tensors.shapes import declared_shape

__all__ = ["cotangent", "tangent"]


def cotangent(output: str, of: Expr | None = None) -> Expr:
    """The symbol of an output's cotangent; that of a formula has its shape, where that is known."""
    return symbol(f"grad_{output}", "cotangent", None if of is None else declared_shape(of))


def tangent(tensor: str) -> Expr:
    """The symbol of a tensor's tangent."""
    return symbol(f"tangent_{tensor}", "tangent")
