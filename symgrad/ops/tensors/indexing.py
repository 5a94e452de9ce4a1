"""Elements picked by tensors of integers, and put or added at such places.

Each operation that picks is linear, and so is its transposed, which adds at the same places; the derivatives of the one
are made of the other, to any order. Indices have no derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.ir.expr import ONE, ZERO, Expr, make
from symgrad.ir.truth import compare, where
from symgrad.ops.tensors import sizes
from symgrad.ops.tensors.extent import (
    Dim,
    Extent,
    ShapeConflict,
    extent,
    place_along,
    positions,
    same,
    size_along,
    unknown,
)
from symgrad.ops.tensors.row import DIM, FIRST, TensorOp, pushforward, same_of_tangent
from symgrad.ops.tensors.shaping import expand, unsqueeze


def _size_along(of: int) -> Callable[[Expr], Dim | None]:
    """The size of an operand along the dimension of a node."""

    return lambda node: size_along(node["dim"], extent(node.args[of]))


# ------------------------------------------------------------------------------------------------ along a dimension
def take(x: Expr, index: Expr, dim: Any) -> Expr:
    """The elements of `x` that `index` names along `dim`, no place twice."""
    return make("take_along", x, index, dim=dim)


def put(value: Expr, index: Expr, like: Expr, dim: Any) -> Expr:
    """The transposed of `take`: zeros of the shape of `like` with `value` at `index`, whose places all differ."""
    return make("put_along", value, index, like, dim=dim)


def _gather_vjp(node: Expr, g: Expr) -> tuple[Expr | None, ...]:
    x, index = node.args
    once = size_along(node["dim"], extent(index)) == 1  # one element: no place twice
    return (make("put_along" if once else "add_along", g, index, x, dim=node["dim"]), None)


def _gathered(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    x, index = operands
    place = place_along(node["dim"], x)
    if x.exact and index.exact:
        if len(x.dims) != len(index.dims):
            raise ShapeConflict(f"gather needs an index of as many dimensions as its input: {index} of {x}")
        for k, (own, of) in enumerate(zip(index.dims, x.dims, strict=True)):
            if place is not None and k - len(x.dims) != place:
                same(own, of, f"gather of {x} by {index}")
    return index


def _take_along_dim(x: Expr, index: Expr, dim: Any = None) -> Expr:
    """Both broadcast, except along `dim`."""
    of, own = extent(x), extent(index)
    if not (of.exact and own.exact):
        raise ValueError("take_along_dim needs declared shapes; gather(x, dim, index) does not")
    places = positions(dim, of)
    if places is None or len(places) != 1 or len(of.dims) != len(own.dims):
        return make("gather", x, index, dim=dim)
    along = len(of.dims) + places[0]

    def spread(value: Expr, other: Expr) -> Expr:
        sides = enumerate(zip(extent(value).dims, extent(other).dims, strict=True))
        if all(k == along or a != 1 or b == 1 for k, (a, b) in sides):
            return value
        return expand(value, value + make("sum", other, dim=places, keepdim=True))  # whose shape alone is read

    return make("gather", spread(x, index), spread(index, x), dim=dim)


def _scatter_add(x: Expr, index: Expr, source: Expr, dim: Any) -> Expr:
    _check_alike("scatter_add", index, source)
    return x + make("add_along", source, index, x, dim=dim)


def _check_alike(name: str, index: Expr, source: Expr) -> None:
    """Raise ShapeConflict for a source that has not the shape of its index."""
    one, other = extent(index), extent(source)
    if one.exact and other.exact and len(one.dims) != len(other.dims):
        raise ShapeConflict(f"{name} needs a source of the shape of its index: {other} at {one}")
    for a, b in zip(one.dims, other.dims, strict=False) if one.exact and other.exact else ():
        same(a, b, f"{name} of {other} at {one}")


# ------------------------------------------------------------------------------------------------ whole slices
def lookup(x: Expr, index: Expr, dim: Any) -> Expr:
    """The slices of `x` that `index`, of any shape, names along `dim`; the index's dimensions stand in its place."""
    return make("lookup", x, index, dim=dim)


def _index_select(x: Expr, index: Expr, dim: Any) -> Expr:
    known = extent(index)
    if known.exact and len(known.dims) != 1:
        raise ValueError(f"index_select needs an index of one dimension, not {known}; write x[index]")
    return lookup(x, index, dim)


def _embedding(index: Expr, weight: Expr) -> Expr:
    known = extent(weight)
    if known.exact and len(known.dims) != 2:
        raise ValueError(f"embedding needs a weight of two dimensions, not {known}")
    return lookup(weight, index, 0)


def _index_add(x: Expr, index: Expr, source: Expr, dim: Any) -> Expr:
    return x + make("add_slices", source, index, x, dim=dim)


def _looked_up(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    x, index = operands
    place = place_along(node["dim"], x, "nothing to pick from")
    if place is None or not index.exact:
        return unknown(node)
    k = len(x.dims) + place
    return Extent((*x.dims[:k], *index.dims, *x.dims[k + 1 :]), x.lead)


# ------------------------------------------------------------------------------------------------ segments
def _segment_shape(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    x, index, _ = operands
    place = place_along(node["dim"], x)
    if index.exact and len(index.dims) != 1:
        raise ShapeConflict(f"{node.op} needs an index of one dimension, not {index}")
    if place is None or not index.dims:
        return unknown(node)
    k = len(x.dims) + place
    same(index.dims[0], x.dims[k], f"{node.op} of {x} by {index}")
    return Extent((*x.dims[:k], sizes.number_of(node.args[2]), *x.dims[k + 1 :]), x.lead)


def _segment_mean(x: Expr, index: Expr, size: Expr, dim: Any) -> Expr:
    """0 where a segment is empty."""
    ones = make("expand", ONE, index)
    count = make("segment_sum", ones, index, size, dim=0)
    count = make("maximum", count, ONE)
    rank = len(extent(x).dims)
    places = positions(dim, extent(x))
    if places is None:
        raise ValueError("segment_mean needs a tensor of declared shape")
    after = -1 - places[0]
    count = unsqueeze(count, *range(-after, 0)) if after and rank else count
    return make("segment_sum", x, index, size, dim=dim) / count


def _segment_extremum_vjp(node: Expr, g: Expr) -> tuple[Expr | None, ...]:
    """Ties share the cotangent equally; an empty segment has none."""
    x, index, size = node.args
    dim = node["dim"]
    equal = compare("eq", x, lookup(node, index, dim))
    count = make("segment_sum", where(equal, ONE, ZERO), index, size, dim=dim)
    return (where(equal, lookup(g / make("maximum", count, ONE), index, dim), ZERO), None, None)


def _segment_extremum_jvp(node: Expr, own: Expr) -> Expr:
    x, index, size = node.args
    dim = node["dim"]
    equal = compare("eq", x, lookup(node, index, dim))
    parts = (make("segment_sum", where(equal, v, ZERO), index, size, dim=dim) for v in (own, ONE))
    moved, count = parts
    return moved / make("maximum", count, ONE)


def _segment_extremum(name: str, other: str) -> TensorOp:
    return TensorOp(
        name,
        operands=("input", "index", "size"),
        attributes=(FIRST,),
        torch=f'rt.segment_extremum({{0}}, {{1}}, {{2}}, {{dim}}, "{other}")',
        vjp=_segment_extremum_vjp,
        jvp=pushforward(_segment_extremum_jvp),
        extent=_segment_shape,
        integer=frozenset({1}),
        numbers=frozenset({2}),
        places=lambda node: sizes.number_of(node.args[2]),
        cost=4.0,
        saves="xy",
        whole=True,
        exact=True,
    )


# ------------------------------------------------------------------------------------------------ classes
def one_hot(index: Expr, size: Expr) -> Expr:
    """1 at the place that an index names, in a new last dimension of `size`, and 0 elsewhere."""
    return where(compare("eq", unsqueeze(index, -1), make("arange", size, index)), ONE, ZERO)


_PICKED: dict[str, Any] = {"integer": frozenset({1}), "places": _size_along(0)}
_PICKS: dict[str, Any] = {"linear": True, "whole": True, "same": True, "exact": True, "saves": "p", **_PICKED}
_ADDS: dict[str, Any] = {"jvp": same_of_tangent, "linear": True, "integer": frozenset({1}), "whole": True, "cost": 3.0}

ROWS = (
    TensorOp(
        "gather",
        operands=("input", "index"),
        attributes=(DIM,),
        order=("input", "dim", "index"),
        torch="{0}.gather({dim}, {1})",
        vjp=_gather_vjp,
        jvp=same_of_tangent,
        extent=_gathered,
        shape_of=1,
        **_PICKS,
    ),
    TensorOp(
        "take_along_dim",
        operands=("input", "indices"),
        attributes=(DIM,),
        integer=frozenset({1}),
        definition=_take_along_dim,
    ),
    TensorOp(
        "scatter_add",
        operands=("input", "index", "src"),
        attributes=(DIM,),
        order=("input", "dim", "index", "src"),
        integer=frozenset({1}),
        definition=_scatter_add,
    ),
    TensorOp(
        "index_select",
        operands=("input", "index"),
        attributes=(DIM,),
        order=("input", "dim", "index"),
        integer=frozenset({1}),
        definition=_index_select,
    ),
    TensorOp(
        "index_add",
        operands=("input", "index", "source"),
        attributes=(DIM,),
        order=("input", "dim", "index", "source"),
        integer=frozenset({1}),
        definition=_index_add,
    ),
    TensorOp("embedding", operands=("input", "weight"), integer=frozenset({0}), definition=_embedding),
    TensorOp(
        "segment_sum",
        operands=("input", "index", "size"),
        attributes=(FIRST,),
        torch="rt.segment_sum({0}, {1}, {2}, {dim})",
        vjp=lambda node, g: (lookup(g, node.args[1], node["dim"]), None, None),
        extent=_segment_shape,
        numbers=frozenset({2}),
        places=lambda node: sizes.number_of(node.args[2]),
        saves="p",
        **_ADDS,
    ),
    TensorOp(
        "segment_mean",
        operands=("input", "index", "size"),
        attributes=(FIRST,),
        integer=frozenset({1}),
        numbers=frozenset({2}),
        definition=_segment_mean,
    ),
    _segment_extremum("segment_max", "amax"),
    _segment_extremum("segment_min", "amin"),
    TensorOp(
        "one_hot",
        operands=("input", "num_classes"),
        integer=frozenset({0}),
        numbers=frozenset({1}),
        definition=one_hot,
    ),
)

INTERNAL = (
    TensorOp(
        "take_along",
        operands=("input", "index"),
        attributes=(DIM,),
        torch="{0}.gather({dim}, {1})",
        vjp=lambda node, g: (put(g, node.args[1], node.args[0], node["dim"]), None),
        jvp=same_of_tangent,
        shape_of=1,
        **_PICKS,
    ),
    TensorOp(
        "put_along",
        operands=("input", "index", "like"),
        attributes=(DIM,),
        torch="rt.put_along({0}, {1}, {shape2}, {dim})",
        vjp=lambda node, g: (take(g, node.args[1], node["dim"]), None, None),
        shape_of=2,
        shape_only=frozenset({2}),
        places=_size_along(2),
        **_ADDS,
    ),
    TensorOp(
        "add_along",
        operands=("input", "index", "like"),
        attributes=(DIM,),
        torch="rt.add_along({0}, {1}, {shape2}, {dim})",
        vjp=lambda node, g: (make("gather", g, node.args[1], dim=node["dim"]), None, None),
        shape_of=2,
        shape_only=frozenset({2}),
        places=_size_along(2),
        **_ADDS,
    ),
    TensorOp(
        "lookup",
        operands=("input", "index"),
        attributes=(DIM,),
        torch="rt.lookup({0}, {1}, {dim})",
        vjp=lambda node, g: (make("add_slices", g, node.args[1], node.args[0], dim=node["dim"]), None),
        jvp=same_of_tangent,
        extent=_looked_up,
        **_PICKS,
    ),
    TensorOp(
        "add_slices",
        operands=("input", "index", "like"),
        attributes=(DIM,),
        torch="rt.add_slices({0}, {1}, {shape2}, {dim})",
        vjp=lambda node, g: (lookup(g, node.args[1], node["dim"]), None, None),
        shape_of=2,
        shape_only=frozenset({2}),
        places=_size_along(2),
        **_ADDS,
    ),
)
