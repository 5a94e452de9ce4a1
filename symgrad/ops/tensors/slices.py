"""Slices and equal parts of a tensor, and their transposed, which put them among zeros.

Bounds are whole numbers, and parts are equal ones, so that the sizes of results are known where those of operands are;
bounds that hyperparameters give are operands.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import lcm
from typing import Any

from symgrad.ir.expr import ZERO, Expr, add, as_expr, make, split_coefficient
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import sizes
from symgrad.ops.tensors.extent import Dim, Extent, ShapeConflict, extent, place_along, positions, size_along, unknown
from symgrad.ops.tensors.lengths import length, stand_in
from symgrad.ops.tensors.row import DIM, LIKE, VIEW, Attribute, Ref, Tangents, TensorOp, same_of_tangent
from symgrad.ops.tensors.shaping import squeeze


def place_of(dim: Any, x: Expr, what: str) -> int:
    """A dimension as a negative index. Raises ValueError where that is not known."""
    if isinstance(dim, Ref):
        raise ValueError(f"the dimension of {what} is an integer, not a hyperparameter")
    if dim < 0:
        positions(dim, extent(x))
        return int(dim)
    places = positions(dim, extent(x))
    if places is None or not extent(x).exact:
        raise ValueError(f"{what} counts dimensions from the end where the shape is not declared: dim=-1 is the last")
    return places[0]


def slice_of(x: Expr, dim: int, start: int | None, stop: int | None, step: int = 1) -> Expr:
    """`x[start:stop:step]` along a dimension, as Python has it. Raises ShapeConflict beyond a known size."""
    start = start or 0
    if step == 1 and start == 0 and (stop is None or stop == length_along(extent(x), dim)):
        return x
    return make("slice", x, dim=dim, start=start, stop=stop, step=step)


def between(x: Expr, dim: int, start: Expr, stop: Expr | None) -> Expr:
    """`x[start:stop]` along a dimension, from bounds that only a call knows."""
    return make("between", x, start, length(x, dim) if stop is None else stop, dim=dim)


def place(x: Expr, dim: int, index: Expr) -> Expr:
    """`x[index]` along a dimension, at a place that only a call knows, from the end where it is negative."""
    return squeeze(make("place", x, index, dim=dim), dim)


def _place_size(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    of = operands[0]
    dim = place_along(node["dim"], of, "no slices")
    return unknown(node) if dim is None else resized(of, dim, 1)


def _between_size(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    of = operands[0]
    place = place_along(node["dim"], of, "no slices")
    if place is None:
        return unknown(node)
    size = of.dims[place]
    bounds = [_bound(number, size) for number in node.args[1:]]
    if any(bound is None for bound in bounds):
        return resized(of, place, ("slice", size, *node.args[1:]))
    first, last = (bound for bound in bounds if bound is not None)
    if all(isinstance(n, int) for n in (first, last, size)) and not 0 <= first <= last <= size:  # type: ignore[operator]
        raise ShapeConflict(f"a dimension of size {size} has no slice {node.args[1]}:{node.args[2]}")
    return resized(of, place, sizes.less(last, first))


def _bound(number: Expr, size: Dim) -> Dim | None:
    """A bound counted from the start; None where it may count from the end or not."""
    signs = {(split_coefficient(term)[0] < 0) for term in number.terms}
    counted = any(n.op == "count" for n in topological(number))
    if len(signs) > 1 and not counted:
        return None
    bound = sizes.number_of(number)
    return sizes.total([size, bound]) if signs == {True} and not counted else bound


def select(x: Expr, dim: int, index: int) -> Expr:
    """The slice at one place of a dimension, which is gone then; `dim` is negative."""
    return squeeze(slice_of(x, dim, index, index + 1 if index != -1 else None), dim)


def _sliced_size(node: Expr, size: Dim) -> Dim:
    start, stop, step = node["start"], node["stop"], node["step"]
    if isinstance(size, int):
        reach = [b for b in (start, stop) if b is not None]
        if any(not -size <= b <= size for b in reach):
            bad = start if stop == start + 1 else next(b for b in reach if not -size <= b <= size)  # a place is a slice
            raise ShapeConflict(f"{bad} lies beyond a dimension of size {size}")
        return len(range(size)[slice(start, stop, step)])
    if step != 1 or (isinstance(size, tuple) and size[0] != "linear"):
        return ("slice", size, start, stop, step)
    low = size if start < 0 else 0
    high = size if stop is None or stop < 0 else 0
    first, last = sizes.plus(low, start), sizes.plus(high, stop or 0)
    length = sizes.difference(last, first)
    if length is not None:
        if length < 0:
            raise ShapeConflict(f"the slice {start}:{stop} has no elements")
        return length
    return sizes.plus(last, -first) if isinstance(first, int) else ("slice", size, start, stop, step)


def _sliced(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    place = place_along(node["dim"], of, "no slices")
    return unknown(node) if place is None else resized(of, place, _sliced_size(node, of.dims[place]))


def resized(of: Extent, place: int, size: Dim) -> Extent:
    """A shape with another size in one place."""
    dims = list(of.dims)
    dims[place] = size
    return Extent(tuple(dims), of.lead)


def chunks(x: Expr, count: int, dim: Any) -> list[Expr]:
    """Equal parts along a dimension."""
    if not isinstance(count, int) or count < 1:
        raise ValueError("chunk needs the number of parts, a whole number")
    size = size_along(dim, extent(x))
    if isinstance(size, int) and size % count:
        raise ShapeConflict(f"a dimension of size {size} has no {count} equal parts")
    return [make("chunk", x, dim=dim, chunks=count, index=k) for k in range(count)] if count > 1 else [x]


def splits(x: Expr, parts: Any, dim: Any) -> list[Expr]:
    """Parts of given sizes along a dimension; of one size, where the dimension's is known or so many times that."""
    size = size_along(dim, extent(x))
    if isinstance(parts, Expr):
        whole = sizes.number_of(make("count", x, dim=(dim,))) if size is None else size
        share = sizes.share(sizes.number_of(sizes.exactly(parts)), whole)
        if share is None or share.numerator != 1:
            raise ValueError("split needs a share of the dimension, such as D // 2, or a list of all sizes")
        return chunks(x, share.denominator, dim)
    if isinstance(parts, int):
        if not isinstance(size, int):
            raise ValueError("split needs the sizes of all parts in a list where that of the dimension has a name")
        if parts < 1:
            raise ValueError("the parts of a split have at least one element")
        parts = tuple(min(parts, size - k) for k in range(0, size, parts))
    if any(isinstance(part, int) and part < 0 for part in parts):
        raise ValueError("the sizes of the parts are whole numbers")
    if any(isinstance(part, Expr) for part in parts):
        whole = sizes.number_of(length(x, dim if size is None or dim < 0 else dim - len(extent(x).dims)))
        shares = [sizes.share(sizes.number_of(sizes.exactly(as_expr(part))), whole) for part in parts]
        if sizes.number_of(add(*map(as_expr, parts))) != whole:
            if None in shares or sum(s for s in shares if s is not None) != 1:
                raise ValueError("the parts of a split make up the dimension: the last is the rest, such as D - D // 2")
            least = lcm(*(s.denominator for s in shares if s is not None))  # as two of D // 2, which leave no rest
            counts = accumulate((int(s * least) for s in shares if s is not None), initial=0)
            pieces = chunks(x, least, dim)
            return [p[0] if len(p := pieces[a:b]) == 1 else make("cat", *p, dim=dim) for a, b in pairwise(counts)]
        ends = list(accumulate(map(as_expr, parts), initial=as_expr(0)))
        return [between(x, dim, start, stop) for start, stop in pairwise(ends)]
    if isinstance(size, int) and sum(parts) != size:
        raise ShapeConflict(f"parts of sizes {', '.join(map(str, parts))} do not make up a dimension of size {size}")
    starts = accumulate(parts, initial=0)
    return [make("slice", x, dim=dim, start=k, stop=k + part, step=1) for k, part in zip(starts, parts, strict=False)]


def _chunked(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    place = place_along(node["dim"], of)
    if place is None:
        return unknown(node)
    size = of.dims[place]
    if isinstance(size, int) and size % node["chunks"]:
        raise ShapeConflict(f"a dimension of size {size} has no {node['chunks']} equal parts")
    return resized(of, place, sizes.divided(size, node["chunks"]))


def _slice_jvp(node: Expr, t: Tangents) -> Expr | None:
    """The slice of a tangent; of what is joined, that of the parts which it reaches."""
    lengths, moved = _joined_lengths(node, t)
    if moved is None or node["step"] != 1 or not all(isinstance(n, int) for n in lengths):
        return same_of_tangent(node, t)
    known = [n for n in lengths if isinstance(n, int)]
    begin, end, _ = slice(node["start"], node["stop"]).indices(sum(known))
    reached, first = [], 0
    for part, size in zip(moved.args, known, strict=True):
        low, high = max(begin - first, 0), min(end - first, size)
        if low < high:
            whole = (low, high) == (0, size)
            reached.append(part if whole else make("slice", part, dim=node["dim"], start=low, stop=high, step=1))
        first += size
    if not reached:
        return same_of_tangent(node, t)
    return _unless_zero(reached[0] if len(reached) == 1 else make("cat", *reached, dim=node["dim"]))


def _chunk_jvp(node: Expr, t: Tangents) -> Expr | None:
    """The part of a tangent; of equal parts that are joined, the one at its place."""
    lengths, moved = _joined_lengths(node, t)
    if moved is None or len(lengths) != node["chunks"] or len(set(lengths)) > 1 or None in lengths:
        return same_of_tangent(node, t)
    return _unless_zero(moved.args[node["index"]])


def _joined_lengths(node: Expr, t: Tangents) -> tuple[list[Dim | None], Expr | None]:
    """How long the parts are of which one is read, and the join of their tangents; None where there is no such."""
    (of, *_), moved = node.args, t[0]
    dim = node["dim"]
    if of.op != "cat" or moved is None or moved.op != "cat" or {of["dim"], moved["dim"]} != {dim}:
        return [], None
    return [length_along(extent(part), dim) for part in of.args], moved


def _unless_zero(tangent: Expr) -> Expr | None:
    """A tangent; None where it is 0 in every part."""
    zero = all(ZERO in (p, *p.args[:1]) for p in (tangent.args if tangent.op == "cat" else (tangent,)))
    return None if zero else tangent


def _slice_added(node: Expr, value: Expr, part: Expr) -> Expr:
    """The sum of a value and of zeros with a part in the slice of the node."""
    return value if part is ZERO else value + make("slice_back", part, node.args[0], **dict(node.attrs))


def length_along(of: Extent, dim: Any) -> Dim | None:
    """The size of a dimension; None where it is not known which one that is."""
    return of.dims[dim] if isinstance(dim, int) and -len(of.dims) <= dim < len(of.dims) else None


# ------------------------------------------------------------------------------------------------ rows
_SLICE = (
    DIM,
    Attribute("start", "int", 0),
    Attribute("stop", "int"),
    Attribute("step", "int", 1),
)
_CHUNK = (DIM, Attribute("chunks", "int", required=True), Attribute("index", "int", required=True))

MOVES: dict[str, Any] = {"jvp": same_of_tangent, "linear": True, "whole": True, "exact": True}
_VIEW: dict[str, Any] = {**MOVES, **VIEW}
_PUTS: dict[str, Any] = {**LIKE, **MOVES}

INTERNAL = (
    TensorOp(
        "slice",
        attributes=_SLICE,
        vjp=lambda node, g: (make("slice_back", g, node.args[0], **dict(node.attrs)),),
        extent=_sliced,
        **_VIEW | {"jvp": _slice_jvp},
    ),
    TensorOp(
        "slice_back",
        attributes=_SLICE,
        torch="rt.slice_back({0}, {shape1}, {dim}, {start}, {stop}, {step})",
        vjp=lambda node, g: (make("slice", g, **dict(node.attrs)), None),
        **_PUTS,
    ),
    TensorOp(  # what `fuse` makes of a sum with `slice_back`
        "slice_added",
        operands=("input", "part"),
        attributes=_SLICE,
        torch="rt.slice_added({0}, {1}, {dim}, {start})",
        vjp=lambda node, g: (g, make("slice", g, **dict(node.attrs))),
        jvp=lambda node, t: _slice_added(node, *(ZERO if x is None else x for x in t)),
        shape_of=0,
        opened=lambda node: _slice_added(node, *node.args),
    ),
    TensorOp(
        "between",
        operands=("input", "start", "stop"),
        attributes=(DIM,),
        numbers=frozenset({1, 2}),
        torch="rt.between({0}, {1}, {2}, {dim})",
        vjp=lambda node, g: (
            make("between_back", g, stand_in(node.args[0]), *node.args[1:], dim=node["dim"]),
            None,
            None,
        ),
        extent=_between_size,
        **_VIEW,
    ),
    TensorOp(  # a slice of one place
        "place",
        operands=("input", "index"),
        attributes=(DIM,),
        numbers=frozenset({1}),
        torch="{0}.narrow({dim}, {1}, 1)",
        vjp=lambda node, g: (
            make("place_back", g, stand_in(node.args[0]), node.args[1], dim=node["dim"]),
            None,
        ),
        extent=_place_size,
        **_VIEW,
    ),
    TensorOp(
        "place_back",
        attributes=(DIM,),
        numbers=frozenset({2}),
        torch="rt.place_back({0}, {shape1}, {2}, {dim})",
        vjp=lambda node, g: (make("place", g, node.args[2], dim=node["dim"]), None, None),
        **_PUTS | {"operands": ("input", "like", "index")},
    ),
    TensorOp(
        "between_back",
        attributes=(DIM,),
        numbers=frozenset({2, 3}),
        torch="rt.between_back({0}, {shape1}, {2}, {3}, {dim})",
        vjp=lambda node, g: (make("between", g, *node.args[2:], dim=node["dim"]), None, None, None),
        **_PUTS | {"operands": ("input", "like", "start", "stop")},
    ),
    TensorOp(
        "chunk",
        attributes=_CHUNK,
        torch="rt.chunk({0}, {chunks}, {dim})[{index}]",
        vjp=lambda node, g: (make("chunk_back", g, node.args[0], **dict(node.attrs)),),
        extent=_chunked,
        **_VIEW | {"jvp": _chunk_jvp},
    ),
    TensorOp(
        "chunk_back",
        attributes=_CHUNK,
        torch="rt.chunk_back({0}, {shape1}, {chunks}, {dim}, {index})",
        vjp=lambda node, g: (make("chunk", g, **dict(node.attrs)), None),
        **_PUTS,
    ),
)
