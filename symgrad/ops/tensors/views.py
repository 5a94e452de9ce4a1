"""The same elements in another shape: dimensions in another order, joined into one, or divided.

Sizes are numbers, names of dimensions, and products of these; one of them may be -1, which is what is left.
"""

from __future__ import annotations

from typing import Any

from symgrad.ir.expr import Expr, make
from symgrad.ops.tensors import sizes
from symgrad.ops.tensors.extent import Dim, Extent, ShapeConflict, extent, positions, unknown
from symgrad.ops.tensors.row import LIKE, VIEW, Attribute, Ref, TensorOp, same_of_tangent
from symgrad.ops.tensors.slices import place_of


def back(g: Expr, like: Expr) -> Expr:
    """The elements of `g` in the shape of `like`."""
    return make("reshape_as", g, like)


# ------------------------------------------------------------------------------------------------ permutations
def permute(x: Expr, dims: Any) -> Expr:
    """All dimensions in another order."""
    dims = dims if isinstance(dims, tuple) else (dims,)
    known = extent(x)
    if any(isinstance(d, Ref) for d in dims):
        raise ValueError("the dimensions of permute are integers, not hyperparameters")
    places = tuple(d if d < 0 else d - len(dims) for d in dims)
    if sorted(places) != list(range(-len(dims), 0)):
        raise ValueError(f"permute needs each of the {len(dims)} dimensions once")
    if known.exact and len(known.dims) != len(dims):
        raise ShapeConflict(f"permute of {known} needs {len(known.dims)} dimensions, not {len(dims)}")
    return x if list(places) == sorted(places) else make("permute", x, dims=places)


def _permuted(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    dims = node["dims"]
    if of.exact and len(of.dims) != len(dims):
        raise ShapeConflict(f"permute of {of} needs {len(of.dims)} dimensions, not {len(dims)}")
    return Extent(tuple(of.dims[d] for d in dims)) if of.exact else unknown(node)


def _permute_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    dims = node["dims"]
    rank = len(dims)
    return (make("permute", g, dims=tuple(dims.index(k - rank) - rank for k in range(rank))),)


def _movedim(x: Expr, source: Any, destination: Any) -> Expr:
    known = extent(x)
    if not known.exact or not isinstance(source, int) or not isinstance(destination, int):
        raise ValueError("movedim moves one dimension, given by an integer, of a tensor of declared shape")
    rank = len(known.dims)
    (old,) = positions(source, known) or (0,)
    (new,) = positions(destination, known) or (0,)
    order = [k - rank for k in range(rank) if k - rank != old]
    order.insert(rank + new, old)
    return permute(x, tuple(order))


# ------------------------------------------------------------------------------------------------ reshaping
def _reshaped(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    of = operands[0]
    if any(size.number is not None and size.integer is None for size in node.args[1:]):
        raise ShapeConflict(f"reshape of {of} into sizes that are not whole")
    dims = [sizes.number_of(size) for size in node.args[1:]]
    if not of.exact:
        return Extent(tuple(_rest(dims, None, node)))
    whole = sizes.product(of.dims)
    found = _rest(dims, whole, node)
    made = sizes.product(found)
    if sizes.ratio(made, whole) not in (None, 1):
        counts = f": {whole} elements are not {made}" if isinstance(whole, int) else ""
        raise ShapeConflict(f"reshape of {of} into {Extent(tuple(dims))}{counts or ' changes the number of elements'}")
    return Extent(tuple(found))


def _rest(dims: list[Dim], whole: Dim | None, node: Expr) -> list[Dim]:
    """The sizes with what is left in place of -1."""
    if dims.count(-1) > 1:
        raise ShapeConflict("only one size can be -1, what is left")
    if -1 not in dims:
        return dims
    others = sizes.product(d for d in dims if d != -1)
    left = None if whole is None else sizes.quotient(whole, others)
    if left is None and isinstance(whole, int) and isinstance(others, int):
        raise ShapeConflict(f"{whole} elements are not divided by {others}")
    return [("rest", node) if d == -1 and left is None else left if d == -1 else d for d in dims]  # type: ignore[misc]


def _flatten(x: Expr, start_dim: Any, end_dim: Any) -> Expr:
    known = extent(x)
    if not known.exact and (start_dim, end_dim) != (0, -1):
        start, end = place_of(start_dim, x, "flatten"), place_of(end_dim, x, "flatten")
    elif not known.exact:
        return make("flatten", x, start_dim=0, end_dim=-1)
    else:
        start, end = (place_of(d, x, "flatten") if known.dims else -1 for d in (start_dim, end_dim))
        if end_dim == -1 and start == -len(known.dims):
            return x if len(known.dims) == 1 else make("flatten", x, start_dim=0, end_dim=-1)
    if end < start:
        raise ValueError("flatten ends before it starts")
    return x if start == end else make("flatten", x, start_dim=start, end_dim=end)


def _flattened(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    start, end = node["start_dim"], node["end_dim"]
    if start == 0:
        return Extent((sizes.product(of.dims),)) if of.exact else Extent((("all", node),))
    rank = len(of.dims)
    if rank + start < 0:
        return unknown(node)
    first, last = rank + start, rank + end + 1
    return Extent((*of.dims[:first], sizes.product(of.dims[first:last]), *of.dims[last:]), of.lead)


def _unflatten(x: Expr, *shape: Expr, dim: Any) -> Expr:
    return make("unflatten", x, *map(sizes.exactly, shape), dim=place_of(dim, x, "unflatten"))


def _unflattened(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    of, place = operands[0], node["dim"]
    rank = len(of.dims)
    dims = [sizes.number_of(size) for size in node.args[1:]]
    if rank + place < 0:
        return unknown(node)
    whole = of.dims[place]
    found = _rest(dims, whole, node)
    made = sizes.product(found)
    if isinstance(made, int) and isinstance(whole, int) and made != whole:
        raise ShapeConflict(f"unflatten of {whole} elements into {Extent(tuple(dims))}, which has {made}")
    k = rank + place
    return Extent((*of.dims[:k], *found, *of.dims[k + 1 :]), of.lead)


_VIEW: dict[str, Any] = {"jvp": same_of_tangent, **VIEW}
_BACK: dict[str, Any] = {"vjp": lambda node, g: (back(g, node.args[0]), *(None for _ in node.args[1:]))}
_SHAPE = frozenset(range(1, 17))

ROWS = (
    TensorOp(
        "permute",
        attributes=(Attribute("dims", "ints", required=True, fixed=True),),
        torch="{0}.permute({dims})",
        vjp=_permute_vjp,
        extent=_permuted,
        definition=permute,
        **_VIEW,
    ),
    TensorOp(
        "movedim",
        attributes=(Attribute("source", "dim", required=True), Attribute("destination", "dim", required=True)),
        definition=_movedim,
    ),
    TensorOp(
        "reshape",
        operands=("input", "shape"),
        torch="{0}.reshape({rest})",
        definition=lambda x, *shape: make("reshape", x, *map(sizes.exactly, shape)),
        **_BACK,
        extent=_reshaped,
        variadic=True,
        numbers=_SHAPE,
        aliases=("view",),
        **_VIEW,
    ),
    TensorOp(
        "flatten",
        attributes=(Attribute("start_dim", "dim", 0), Attribute("end_dim", "dim", -1)),
        torch="rt.flatten({0}, {start_dim}, {end_dim})",
        **_BACK,
        extent=_flattened,
        definition=_flatten,
        **_VIEW,
    ),
    TensorOp(
        "unflatten",
        operands=("input", "sizes"),
        attributes=(Attribute("dim", "dim", required=True),),
        order=("input", "dim", "sizes"),
        torch="rt.unflatten({0}, {dim}, {rest})",
        **_BACK,
        extent=_unflattened,
        variadic=True,
        numbers=_SHAPE,
        definition=_unflatten,
        **_VIEW,
    ),
)

INTERNAL = (
    TensorOp(
        "reshape_as",
        torch="{0}.reshape({shape1})",
        vjp=lambda node, g: (back(g, node.args[0]), None),
        **LIKE | _VIEW,
    ),
)
