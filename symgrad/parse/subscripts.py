"""Subscripts: slices between whole numbers or shares of a dimension, new dimensions, places, and tensors of integers
along one dimension."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

from symgrad.analysis.integers import is_whole_tensor
from symgrad.ir import truth
from symgrad.ir.expr import ZERO, Expr, num
from symgrad.ops.tensors import is_index, sizes
from symgrad.ops.tensors.extent import Dim, extent
from symgrad.ops.tensors.indexing import lookup
from symgrad.ops.tensors.joins import cat
from symgrad.ops.tensors.lengths import length
from symgrad.ops.tensors.row import is_number, is_whole_number
from symgrad.ops.tensors.shaping import unsqueeze
from symgrad.ops.tensors.slices import between, chunks, place, select, slice_of
from symgrad.parse.arguments import whole_number

if TYPE_CHECKING:
    from symgrad.parse.build import Builder

__all__ = ["subscript"]


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
        builder.fail(
            node,
            "the shape is not declared: declare it, or count dimensions from the end, as in x[..., 0]",
        )
    taken = sum(not _is(item, None) for item in before)
    free = rank - taken - sum(not _is(item, None) for item in after)
    _refuse_pairs(builder, used)
    dim = -1  # of the value as it is, of the item that comes next, from the end
    for item in reversed(after):
        value, dim = _one(builder, value, item, dim)
    if before:
        dim -= free
        for item in reversed(before):
            value, dim = _one(builder, value, item, dim)
    return value


def _refuse_pairs(builder: Builder, items: Sequence[ast.expr]) -> None:
    """Several tensors of one subscript name pairs of places in torch, and not all combinations."""
    items = [i for i in items if not isinstance(i, ast.Slice) and whole_number(i) is None]
    indices = [i for i in items if not is_number(builder.isolated(builder.value, i)[0])]
    if len(indices) > 1:
        builder.fail(indices[1], "a subscript has one tensor; write gather(x, 1, t[:, None])[:, 0] for x[arange(N), t]")


def _one(builder: Builder, value: Expr, item: ast.expr, dim: int) -> tuple[Expr, int]:
    """The value with one item taken at a dimension, and the dimension of the item before it."""
    if _is(item, None):
        return unsqueeze(value, dim), dim - 1
    if isinstance(item, ast.Slice):
        return _sliced(builder, value, item, dim), dim - 1
    index = builder.scoped(item)
    if is_number(index) and is_whole_number(index):
        number = _place(builder, item, value, dim)
        return (place(value, dim, number) if isinstance(number, Expr) else select(value, dim, number)), dim
    if not (is_whole_tensor(index) or is_index(index)):
        builder.fail(item, "a subscript is made of whole numbers, slices, None, '...' and tensors of 'dtype: int'")
    if not extent(index).exact:
        builder.fail(item, "a tensor in a subscript needs a declared shape")
    return lookup(value, index, dim), dim - len(extent(index).dims)


def _sliced(builder: Builder, value: Expr, item: ast.Slice, dim: int) -> Expr:
    """A slice between whole numbers, between shares of the dimension that are equal parts, or between other numbers."""
    step = 1 if item.step is None else whole_number(item.step)
    if step is None or step < 1:
        assert item.step is not None
        builder.fail(item.step, "a step is at least 1; write flip(x, dims) for the other direction")
    first, last = (None if b is None else _place(builder, b, value, dim) for b in (item.lower, item.upper))
    last = None if last is not None and _is_end(last, value, dim) else last
    if not isinstance(first, Expr) and not isinstance(last, Expr):
        return slice_of(value, dim, first, last, step)
    if step > 1:
        builder.fail(item, "a slice with a step has whole numbers for its bounds")
    start, stop = _share(first, value, dim), Fraction(1) if last is None else _share(last, value, dim)
    rest = [b for b in (first, last) if isinstance(b, Expr) and sizes.leaves_rest(b)]
    equal = builder.scope.equal_parts is None or _size(value, dim) in builder.scope.equal_parts
    if start is not None and stop is not None and (equal or not rest):
        if not 0 <= start < stop <= 1:
            builder.fail(item.lower or item.upper or item, f"this is no part of the dimension; {_BOUNDS}")
        parts = lcm(start.denominator, stop.denominator)
        return cat(chunks(value, parts, dim)[int(start * parts) : int(stop * parts)], dim)
    return between(value, dim, _from_start(first, value, dim), None if last is None else _from_start(last, value, dim))


_BOUNDS = "the bounds of a slice are whole numbers, and what is made of sizes and int hyperparameters, such as D // 2"


def _place(builder: Builder, node: ast.expr, value: Expr, dim: int) -> int | Expr:
    """A bound or a place as a whole number, from the end if it is negative; as it is calculated where it depends."""
    found, _ = builder.isolated(builder.value, node)
    if not is_number(found) or not is_whole_number(found):
        builder.fail(node, _BOUNDS)
    if found.integer is not None:
        return found.integer
    beyond = sizes.difference(sizes.number_of(found), _size(value, dim))
    return beyond if beyond is not None and beyond < 0 else found


def _is_end(bound: int | Expr, value: Expr, dim: int) -> bool:
    return isinstance(bound, Expr) and sizes.number_of(bound) == _size(value, dim)


def _size(value: Expr, dim: int) -> Dim:
    return sizes.number_of(length(value, dim))


def _share(bound: int | Expr | None, value: Expr, dim: int) -> Fraction | None:
    """Which part of its dimension stands before a bound; None where that depends on the sizes."""
    if not isinstance(bound, Expr):
        return None if bound else Fraction(0)
    share = sizes.share(sizes.number_of(sizes.exactly(bound)), _size(value, dim))
    return share + 1 if share is not None and share < 0 else share


def _from_start(bound: int | Expr | None, value: Expr, dim: int) -> Expr:
    """A bound as an expression; shares of the dimension that count from its end do so from its start, for -(D // 2)
    may be 0."""
    if not isinstance(bound, Expr):
        return num(bound or 0)
    share = sizes.share(sizes.number_of(sizes.exactly(bound)), _size(value, dim))
    if share is None or share >= 0:
        return bound
    size = length(value, dim)
    return truth.where(truth.compare("lt", bound, ZERO), bound + size, bound)


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
