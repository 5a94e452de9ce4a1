"""Comparisons of numbers, of truth values and of texts."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from symgrad.errors import shown
from symgrad.ir import truth
from symgrad.ir.expr import Expr
from symgrad.ops.tensors.row import is_size

if TYPE_CHECKING:
    from symgrad.parse.build import Builder

__all__ = ["comparison", "is_text"]


def is_text(expr: Expr) -> bool:
    """Whether the value is a text rather than a number or a truth value."""
    return expr.op == "text" or (expr.op == "sym" and expr["kind"] == "str")


def comparison(builder: Builder, nodes: Sequence[ast.expr], op: str, left: Expr, right: Expr) -> Expr:
    """One link of a chain of comparisons; ``nodes`` are those of the two sides."""
    if is_text(left) or is_text(right):
        return _compare_texts(builder, nodes, op, left, right)
    if left.is_boolean and right.is_boolean and op in ("eq", "ne"):
        negated = [truth.logical("not", side) for side in (left, right)]
        same = truth.logical("or", truth.logical("and", left, right), truth.logical("and", *negated))
        return same if op == "eq" else truth.logical("not", same)
    for node, side in zip(nodes, (left, right), strict=True):
        if is_size(side):
            builder.fail(node, "the size of a dimension is a number to calculate with, and is not compared")
    return truth.compare(op, *builder.paired(truth.as_number(left), truth.as_number(right)))


def _compare_texts(builder: Builder, nodes: Sequence[ast.expr], op: str, left: Expr, right: Expr) -> Expr:
    if not (is_text(left) and is_text(right)):
        builder.fail(nodes[is_text(left)], "a text is compared with a text: name == 'value'")
    if op not in ("eq", "ne"):
        builder.fail(nodes[0], "texts are compared with '==' or '!='")
    if left.op == "text":
        left, right, nodes = right, left, nodes[::-1]
    choices = builder.scope.choices.get(left)
    if choices is not None and right.op == "text" and right["value"] not in choices:
        allowed = ", ".join(map(shown, choices[:10]))
        near = builder.suggestion(right["value"], choices)
        builder.fail(nodes[1], f"{left.name!r} is never {shown(right['value'])}, but one of {allowed}{near}")
    return truth.compare(op, left, right)
