"""Subscripts: slices with whole numbers, new dimensions, places, and tensors of integers along one dimension."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from symgrad.analysis.integers import is_whole_tensor
from symgrad.ir.expr import Expr
from symgrad.ops.tensors import is_index
from symgrad.ops.tensors.extent import extent
from symgrad.ops.tensors.indexing import lookup
from symgrad.ops.tensors.joins import select, slice_of
from symgrad.ops.tensors.row import is_number
from symgrad.ops.tensors.shaping import unsqueeze

if TYPE_CHECKING:
    from symgrad.parse.build import Builder

__all__ = ["subscript", "whole_number"]


def subscript(builder: Builder, node: ast.Subscript) -> Expr:
    """The value of `x[...]`."""
    value = builder.scoped(node.value)
    if is_number(value):
        builder.fail(node, "a number has no subscript")
    items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    try:
        return _taken(builder, node, value, items)
    except ValueError as error:
        builder.fail(node, str(error))


def _taken(builder: Builder, node: ast.Subscript, value: Expr, items: Sequence[ast.expr]) -> Expr:
    """The items one by one, from the last: what they change is behind the places of those that follow."""
    dots = [k for k, item in enumerate(items) if _is(item, ...)]
    if len(dots) > 1:
        builder.fail(node, "'...' stands in a subscript once")
    known = extent(value)
    used = [item for item in items if not _is(item, None) and not _is(item, ...)]
    rank = len(known.dims)
    if known.exact and len(used) > rank:
        builder.fail(node, f"{len(used)} places in a tensor of {rank} dimensions, {known}")
    before = items[: dots[0]] if dots else items
    after = items[dots[0] + 1 :] if dots else []
    if before and not known.exact:
        builder.fail(node, "dimensions are counted from the end where the shape is not declared: write x[..., 0]")
    taken = sum(not _is(item, None) for item in before)
    free = rank - taken - sum(not _is(item, None) for item in after)
    dim = -1  # of the value as it is, of the item that comes next, from the end
    for item in reversed(after):
        value, dim = _one(builder, value, item, dim)
    if before:
        dim -= free
        for item in reversed(before):
            value, dim = _one(builder, value, item, dim)
    return value


def _one(builder: Builder, value: Expr, item: ast.expr, dim: int) -> tuple[Expr, int]:
    """The value with one item taken at a dimension, and the dimension of the item before it."""
    if _is(item, None):
        return unsqueeze(value, dim), dim - 1
    if isinstance(item, ast.Slice):
        start, stop, step = (None if b is None else _bound(builder, b) for b in (item.lower, item.upper, item.step))
        if step is not None and step < 1:
            assert item.step is not None
            builder.fail(item.step, "a step is at least 1; write flip(x, dims) for the other direction")
        return slice_of(value, dim, start, stop, step or 1), dim - 1
    number = whole_number(builder, item)
    if number is not None:
        return select(value, dim, number), dim
    index = builder.scoped(item)
    if not (is_whole_tensor(index) or is_index(index)):
        builder.fail(item, "a subscript is made of whole numbers, slices, None, '...' and tensors of 'dtype: int'")
    if not extent(index).exact:
        builder.fail(item, "a tensor in a subscript needs a declared shape")
    return lookup(value, index, dim), dim - len(extent(index).dims)


def _bound(builder: Builder, node: ast.expr) -> int:
    number = whole_number(builder, node)
    if number is None:
        builder.fail(node, "the bounds of a slice are whole numbers; equal parts are chunk(x, n, dim)[k]")
    return number


def whole_number(builder: Builder, node: ast.expr) -> int | None:
    """The value of a node that is a whole number; None for anything else."""
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    plain = isinstance(inner, ast.Constant) and type(inner.value) is int
    return sign * inner.value if plain and isinstance(inner, ast.Constant) and isinstance(inner.value, int) else None


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
