"""What formulas become where an optional tensor was not given: it is a number then, of the shape that it would have.

A pointwise formula needs no more than the number, and neither does a product with 0 or the mean of a number. What
counts elements needs the shape, which is that of the declared dimensions, read where other tensors have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.ir import expr as ex
from symgrad.ir.branches import absent, first_condition
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.tensors import TENSOR_OPS, is_number
from symgrad.ops.tensors.extent import ShapeConflict
from symgrad.ops.tensors.shapes import covers, extent, shape_sources
from symgrad.ops.tensors.shaping import unsqueeze

__all__ = ["whether_given", "without"]


def whether_given(root: Expr, tensor: Expr, default: Expr, given: Sequence[Expr]) -> Expr:
    """`root` as a choice by whether `tensor` was given. Raises ShapeConflict as `without` does."""
    return make("where", absent(tensor.name), without(root, tensor, default, given), root)


def without(root: Expr, tensor: Expr, default: Expr, given: Sequence[Expr]) -> Expr:
    """`root` where `tensor` is the constant `default`; `given` are the tensors that are surely there.

    Raises ShapeConflict where the value depends on a shape that nothing tells.
    """
    condition = first_condition([root]) if tensor in root.symbols else None
    if condition is not None:  # a branch of Python, whose shape is that of the side taken
        there = [s for s in root.tensors if absent(s.name) is condition]  # on the other side
        then, otherwise = (substitute(root, {condition: holds}) for holds in (ex.TRUE, ex.FALSE))
        sides = without(then, tensor, default, given), without(otherwise, tensor, default, [*given, *there])
        return make("where", condition, *sides)

    def like(value: Expr) -> Expr:
        return _like(value, tensor, given)

    mapped: dict[Expr, Expr] = {tensor: default}
    for node in topological(root):
        if node not in mapped:
            mapped[node] = _mapped(node, [mapped[a] for a in node.args], like)
    result = mapped[root]
    extent(result)
    if is_number(result) and not is_number(root) and any(n.op in TENSOR_OPS for n in topological(root)):
        return make("expand", result, like(root))
    return _whole(result, root, like)  # a product with 0 has the shape of the whole


def _mapped(node: Expr, args: list[Expr], like: Callable[[Expr], Expr]) -> Expr:
    row = TENSOR_OPS.get(node.op)
    if row is not None:
        args = [a if k in row.shape_only else _whole(a, node.args[k], like) for k, a in enumerate(args)]
    lost = [k for k, (old, new) in enumerate(zip(node.args, args, strict=True)) if is_number(new) > is_number(old)]
    if row is None or not lost:
        return rebuild(node, args)
    if 0 in lost and (row.same or args[0] in row.fixes):
        return args[0]
    if lost == [1] and row.shape_only:
        return args[0]
    operands = len(row.operands) - row.optional if not row.variadic else len(args)
    if all(k >= operands for k in lost):
        return rebuild(node, args)  # as if it had been absent from the call
    if node.op == "sum":
        return args[0] * make("count", like(node.args[0]), dim=node["dim"])
    if row.linear and len(args) <= operands and any(args[k] is ex.ZERO for k in lost):
        return ex.ZERO
    return rebuild(node, [make("expand", a, like(node.args[k])) if k in lost else a for k, a in enumerate(args)])


def _whole(value: Expr, of: Expr, like: Callable[[Expr], Expr]) -> Expr:
    """The value in the shape of what it stands for, as far as that is known, where a part of it was lost."""
    if is_number(value) or extent(value) == extent(of):
        return value
    try:
        whole = like(of)
    except ShapeConflict:
        return value
    return value if covers(shape_sources(value), shape_sources(whole)) else make("expand", value, whole)


def _like(value: Expr, tensor: Expr, given: Sequence[Expr]) -> Expr:
    """A value of the same shape, made of tensors that are given and not of the one that is absent."""
    wanted = extent(value)
    if not wanted.exact:
        others = sorted((s for s in shape_sources(value) if tensor not in s.symbols), key=lambda s: s.order)
        leading = [_leading(s, len(wanted.dims)) for s in given if s in wanted.lead]
        if len(leading) == len(wanted.lead):
            parts = [_along(dim, k - len(wanted.dims), given) for k, dim in enumerate(wanted.dims)]
            whole = ex.add(*leading, *(part for part in parts if part is not None))
            if extent(whole) == wanted:
                return whole
        if others:
            return ex.add(*others)
        free = [s.name for s in sorted(value.tensors, key=lambda s: s.order) if s.get("shape") is None]
        advice = f"; declare the 'shape' of {' and '.join(map(repr, free))}" if free else ""
        raise ShapeConflict(f"the shape of {value} is not known{advice}")
    for other in given:
        if extent(other) == wanted:
            return other
    if not wanted.dims and given:
        return make("sum", given[0], dim=None, keepdim=False)
    parts = [_along(dim, k - len(wanted.dims), given) for k, dim in enumerate(wanted.dims)]
    found = [part for part in parts if part is not None]
    like = ex.add(*found) if found or not given else make("sum", given[0], dim=None, keepdim=False)
    ones = range(-len(wanted.dims), -len(extent(like).dims))
    like = unsqueeze(like, *ones) if ones else like
    if len(found) < len([d for d in wanted.dims if d != 1]) or extent(like) != wanted:
        raise ShapeConflict(f"no other tensor tells the shape of {value}")
    return like


def _leading(tensor: Expr, rank: int) -> Expr:
    """A value of the leading dimensions of a tensor, and of `rank` others of size 1."""
    dims = range(-len(extent(tensor).dims), 0)
    line = make("sum", tensor, dim=tuple(dims), keepdim=False) if dims else tensor
    return unsqueeze(line, *range(-rank, 0)) if rank else line


def _along(dim: object, place: int, given: Sequence[Expr]) -> Expr | None:
    """A value whose only dimension of another size than 1 is `dim`, at this negative place."""
    for tensor in given:
        dims = extent(tensor).dims
        if dim in dims and extent(tensor).exact:
            others = tuple(k - len(dims) for k in range(len(dims)) if k != dims.index(dim))
            line = make("sum", tensor, dim=others, keepdim=False) if others else tensor
            return unsqueeze(line, *range(place + 1, 0)) if place + 1 else line
    return None
