"""Subscripts: slices between whole numbers or shares of a dimension, new dimensions, places, and tensors of integers
along one dimension."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

from symgrad.analysis.integers import is_whole_tensor
from symgrad.ir.expr import ZERO, Expr, make, num
from symgrad.ir.traversal import topological
from symgrad.ops import functions
from symgrad.ops.tensors import is_index, sizes
from symgrad.ops.tensors.extent import Dim, extent
from symgrad.ops.tensors.indexing import lookup
from symgrad.ops.tensors.joins import cat
from symgrad.ops.tensors.row import is_number, is_size
from symgrad.ops.tensors.shaping import unsqueeze
from symgrad.ops.tensors.slices import between, chunks, select, slice_of
from symgrad.parse.arguments import divided_exactly, floored, whole_number

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
    indices = [i for i in items if not isinstance(i, ast.Slice) and whole_number(i) is None]
    if len(indices) > 1:
        builder.fail(indices[1], "a subscript has one tensor; write gather(x, 1, t[:, None])[:, 0] for x[arange(N), t]")


def _one(builder: Builder, value: Expr, item: ast.expr, dim: int) -> tuple[Expr, int]:
    """The value with one item taken at a dimension, and the dimension of the item before it."""
    if _is(item, None):
        return unsqueeze(value, dim), dim - 1
    if isinstance(item, ast.Slice):
        return _sliced(builder, value, item, dim), dim - 1
    number = whole_number(item)
    if number is not None:
        return select(value, dim, number), dim
    index = builder.scoped(item)
    if not (is_whole_tensor(index) or is_index(index)):
        builder.fail(item, "a subscript is made of whole numbers, slices, None, '...' and tensors of 'dtype: int'")
    if not extent(index).exact:
        builder.fail(item, "a tensor in a subscript needs a declared shape")
    return lookup(value, index, dim), dim - len(extent(index).dims)


def _sliced(builder: Builder, value: Expr, item: ast.Slice, dim: int) -> Expr:
    """A slice between whole numbers, or between shares of the dimension: equal parts, or bounds that are rounded."""
    step = 1 if item.step is None else whole_number(item.step)
    if step is None or step < 1:
        assert item.step is not None
        builder.fail(item.step, "a step is at least 1; write flip(x, dims) for the other direction")
    dims = extent(value).dims
    size = dims[dim] if -dim <= len(dims) else None
    first, last = (None if b is None else _bound(builder, b, size) for b in (item.lower, item.upper))
    if isinstance(first, Expr) or isinstance(last, Expr):
        if step > 1 or isinstance(first, Fraction) or isinstance(last, Fraction):
            builder.fail(item, "a slice whose bounds are hyperparameters has no step, nor shares of its dimension")
        begin = first if isinstance(first, Expr) else num(first or 0)
        return between(value, dim, begin, num(last) if isinstance(last, int) else last)
    if not isinstance(first, Fraction) and not isinstance(last, Fraction):
        return slice_of(value, dim, first, last, step)
    start, stop = Fraction(0) if first is None else first, Fraction(1) if last is None else last
    if not (isinstance(start, Fraction) and isinstance(stop, Fraction)) or step > 1 or not 0 <= start < stop <= 1:
        builder.fail(item.lower or item.upper or item, _BOUNDS)
    bounds = [b for b in (item.lower, item.upper) if b is not None]
    if not builder.scope.equal_parts and any(_leaves_rest(builder, bound) for bound in bounds):
        low, high = (None if b is None else _rounded(builder, b, value, dim) for b in (item.lower, item.upper))
        return between(value, dim, ZERO if low is None else low, high)
    parts = lcm(start.denominator, stop.denominator)
    return cat(chunks(value, parts, dim)[int(start * parts) : int(stop * parts)], dim)


_BOUNDS = "the bounds of a slice are whole numbers, int hyperparameters, or shares of its dimension such as D // 2"


def _bound(builder: Builder, node: ast.expr, size: Dim | None) -> int | Fraction | Expr | None:
    """A bound as a whole number, from the end if it is negative; as a share of the size; None where it is the end; a
    number that hyperparameters give as it is."""
    number = whole_number(node)
    if number is not None:
        return number
    value, _ = builder.isolated(builder.value, divided_exactly(node))
    if _is_given(value):
        return value
    if not is_size(value) or size is None:
        builder.fail(node, _BOUNDS)
    bound = sizes.number_of(value)
    beyond = sizes.difference(bound, size)
    if beyond is not None and beyond <= 0:
        return beyond or None
    share = sizes.share(bound, size)
    if share is None:
        builder.fail(node, _BOUNDS)
    return share + 1 if share < 0 else share


def _leaves_rest(builder: Builder, node: ast.expr) -> bool:
    """Whether a bound is a quotient of sizes that is rounded down for some sizes."""
    if not any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv) for n in ast.walk(node)):
        return False
    factors, constant = sizes.terms(sizes.number_of(builder.isolated(builder.value, divided_exactly(node))[0]))
    return any(number.denominator > 1 for number in (*factors.values(), constant))


def _rounded(builder: Builder, node: ast.expr, value: Expr, dim: int) -> Expr:
    """A bound that is a share of its dimension, rounded as in Python and counted from the start."""
    exact, _ = builder.isolated(builder.value, divided_exactly(node))
    share = sizes.share(sizes.number_of(exact), extent(value).dims[dim])
    rounded, _ = builder.isolated(builder.value, floored(node))
    if share is None or share >= 0:
        return rounded
    size = make("count", value, dim=(dim,))
    return rounded + size if rounded.op == "floor" else functions.call("remainder", rounded, size)  # -(D // 2) may be 0


def _is_given(value: Expr) -> bool:
    """Whether a number is whole and depends on a hyperparameter."""
    order = topological(value, leaves=frozenset(n for n in topological(value) if n.op == "count"))
    whole = all(
        n.op in ("add", "mul", "count")
        or n.get("kind") == "int"
        or (n.number is not None and n.number.denominator == 1)
        for n in order
    )
    return is_number(value) and whole and any(n.get("kind") == "int" for n in order)


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
