"""Slices, what is joined of several, and elements in another order: linear operations that move elements.

The transposed of a slice puts it into zeros; that of a join is its slices. Bounds are whole numbers, and parts are
equal ones, so that the sizes of results are known where those of operands are; bounds that hyperparameters give are
operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from symgrad.ir.expr import ONE, ZERO, Expr, add, make, split_coefficient
from symgrad.ir.traversal import topological
from symgrad.ir.truth import compare, where
from symgrad.ops.tensors import sizes
from symgrad.ops.tensors.extent import Dim, Extent, ShapeConflict, extent, positions, same, unknown
from symgrad.ops.tensors.reductions import Tangents
from symgrad.ops.tensors.row import Attribute, Ref, TensorOp
from symgrad.ops.tensors.shaping import expand, squeeze, unsqueeze

MOST_JOINED = 64  # tensors of one cat
DIM = Attribute("dim", "dim", required=True)
FIRST = Attribute("dim", "dim", 0)
DIMS = Attribute("dims", "dims", required=True, fixed=True)


def _again(node: Expr, t: Tangents) -> Expr | None:
    """The tangent of what is linear in its first operand alone: the same of the tangent."""
    return None if t[0] is None else make(node.op, t[0], *node.args[1:], **dict(node.attrs))


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


# ------------------------------------------------------------------------------------------------ slices
def slice_of(x: Expr, dim: int, start: int | None, stop: int | None, step: int = 1) -> Expr:
    """`x[start:stop:step]` along a dimension, as Python has it. Raises ShapeConflict beyond a known size."""
    start = start or 0
    if step == 1 and start == 0 and (stop is None or stop == _length(extent(x), dim)):
        return x
    return make("slice", x, dim=dim, start=start, stop=stop, step=step)


def between(x: Expr, dim: int, start: Expr, stop: Expr | None) -> Expr:
    """`x[start:stop]` along a dimension, from bounds that only a call knows."""
    return make("between", x, start, make("count", x, dim=(dim,)) if stop is None else stop, dim=dim)


def _between_size(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    of = operands[0]
    places = positions(node["dim"], of)
    if places is None or not of.dims:
        if of.exact:
            raise ShapeConflict("a tensor without dimensions has no slices")
        return unknown(node)
    size = of.dims[places[0]]
    bounds = [_bound(number, size) for number in node.args[1:]]
    if any(bound is None for bound in bounds):
        return _resized(of, places[0], ("slice", size, *node.args[1:]))
    first, last = (bound for bound in bounds if bound is not None)
    if all(isinstance(n, int) for n in (first, last, size)) and not 0 <= first <= last <= size:  # type: ignore[operator]
        raise ShapeConflict(f"a dimension of size {size} has no slice {node.args[1]}:{node.args[2]}")
    return _resized(of, places[0], sizes.less(last, first))


def _bound(number: Expr, size: Dim) -> Dim | None:
    """A bound counted from the start; None where it may count from the end or not."""
    signs = {(split_coefficient(term)[0] < 0) for term in (number.args if number.op == "add" else (number,))}
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
    places = positions(node["dim"], of)
    if places is None or not of.dims:
        if of.exact:
            raise ShapeConflict("a tensor without dimensions has no slices")
        return unknown(node)
    return _resized(of, places[0], _sliced_size(node, of.dims[places[0]]))


def _resized(of: Extent, place: int, size: Dim) -> Extent:
    dims = list(of.dims)
    dims[place] = size
    return Extent(tuple(dims), of.lead)


def chunks(x: Expr, count: int, dim: Any) -> list[Expr]:
    """Equal parts along a dimension."""
    if not isinstance(count, int) or count < 1:
        raise ValueError("chunk needs the number of parts, a whole number")
    known = extent(x)
    places = positions(dim, known)
    size = known.dims[places[0]] if places is not None and known.dims else None
    if isinstance(size, int) and size % count:
        raise ShapeConflict(f"a dimension of size {size} has no {count} equal parts")
    return [make("chunk", x, dim=dim, chunks=count, index=k) for k in range(count)] if count > 1 else [x]


def splits(x: Expr, parts: Any, dim: Any) -> list[Expr]:
    """Parts of given sizes along a dimension; of one size, where the dimension's is known."""
    known = extent(x)
    places = positions(dim, known)
    size = known.dims[places[0]] if places is not None and known.dims else None
    if isinstance(parts, int):
        if not isinstance(size, int):
            raise ValueError("split needs the sizes of all parts in a list where that of the dimension has a name")
        if parts < 1:
            raise ValueError("the parts of a split have at least one element")
        parts = tuple(min(parts, size - k) for k in range(0, size, parts))
    if any(not isinstance(p, int) or p < 0 for p in parts):
        raise ValueError("the sizes of the parts are whole numbers")
    if isinstance(size, int) and sum(parts) != size:
        raise ShapeConflict(f"parts of sizes {', '.join(map(str, parts))} do not make up a dimension of size {size}")
    starts = [sum(parts[:k]) for k in range(len(parts))]
    return [make("slice", x, dim=dim, start=k, stop=k + part, step=1) for k, part in zip(starts, parts, strict=True)]


def _chunked(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    places = positions(node["dim"], of)
    if places is None or not of.dims:
        return unknown(node)
    size = of.dims[places[0]]
    if isinstance(size, int) and size % node["chunks"]:
        raise ShapeConflict(f"a dimension of size {size} has no {node['chunks']} equal parts")
    return _resized(of, places[0], sizes.divided(size, node["chunks"]))


# ------------------------------------------------------------------------------------------------ joins
def cat(tensors: Sequence[Expr], dim: Any) -> Expr:
    """Tensors one after the other along a dimension."""
    if len(tensors) > MOST_JOINED:
        raise ValueError(f"cat joins at most {MOST_JOINED} tensors")
    return tensors[0] if len(tensors) == 1 else make("cat", *tensors, dim=dim)


def stack(tensors: Sequence[Expr], dim: Any = 0) -> Expr:
    """Tensors one beside the other along a new dimension."""
    if isinstance(dim, Ref):
        raise ValueError("the dimension of a stack is an integer, not a hyperparameter")
    ranks = {len(extent(t).dims) if extent(t).exact else None for t in tensors}
    if len(ranks) > 1:
        raise ShapeConflict("the tensors of a stack have different numbers of dimensions")
    (rank,) = ranks
    if dim >= 0:
        if rank is None:
            raise ValueError("stack counts dimensions from the end where shapes are not declared: dim=-1 is the last")
        dim -= rank + 1
    if rank is not None and not -rank - 1 <= dim < 0:
        raise ShapeConflict(f"a stack of tensors of {rank} dimensions has no dimension {dim}")
    return cat([unsqueeze(t, dim) for t in tensors], dim)


def _joined(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    ranks = {len(e.dims) for e in operands}
    if not all(e.exact for e in operands):
        known = [e for e in operands if positions(node["dim"], e) is not None and e.dims]
        alike = {e.lead for e in operands}
        if len(known) < len(operands) or len(ranks) > 1 or len(alike) > 1 or node["dim"] >= 0:
            return unknown(node)
    if len(ranks) > 1:
        shapes = " and ".join(dict.fromkeys(map(str, operands)))
        raise ShapeConflict(f"cat needs tensors of as many dimensions: {shapes}")
    if ranks == {0}:
        raise ShapeConflict("cat needs tensors with dimensions; write stack for scalars")
    places = positions(node["dim"], operands[0])
    if places is None:
        return unknown(node)
    dims: list[Dim] = []
    for k, parts in enumerate(zip(*(e.dims for e in operands), strict=True)):
        if k - len(operands[0].dims) == places[0]:
            dims.append(sizes.total(parts))
            continue
        size = parts[0]
        for other in parts[1:]:
            size = same(size, other, f"cat of {' and '.join(map(str, operands))} along dimension {node['dim']}")
        dims.append(size)
    return Extent(tuple(dims), operands[0].lead)


def _cat_vjp(node: Expr, g: Expr) -> tuple[Expr | None, ...]:
    """The slices of the cotangent, which read nothing of what was joined where their sizes are numbers."""
    dim = node["dim"]
    lengths = [_length(extent(a), dim) for a in node.args]
    if all(isinstance(n, int) for n in lengths):
        known = [n for n in lengths if isinstance(n, int)]
        starts = [sum(known[:k]) for k in range(len(known))]
        bounds = zip(node.args, starts, known, strict=True)
        return tuple(_piece(g, part, dim, start, start + length, sum(known)) for part, start, length in bounds)
    if len(set(lengths)) == 1 and lengths[0] is not None:
        return tuple(_chunk_of(g, dim, len(lengths), k) for k in range(len(lengths)))
    return tuple(make("part", g, *node.args, dim=node["dim"], index=k) for k in range(len(node.args)))


def _piece(g: Expr, like: Expr, dim: int, start: int, stop: int, size: int) -> Expr | None:
    """What a cotangent of `size` elements has for one of the parts that were joined; None where nobody reads that.

    What a slice has filled with zeros must not reach a part beside it, where 0 times a slope may be no number.
    """
    if g.op != "slice_back" or g["dim"] != dim or g["step"] != 1:
        return make("slice", g, dim=dim, start=start, stop=stop, step=1)
    begin, end, _ = slice(g["start"], g["stop"]).indices(size)
    low, high = max(start, begin), min(stop, end)
    if low >= high:
        return None
    own = slice_of(g.args[0], dim, low - begin, high - begin)
    if (low, high) == (start, stop):
        return own
    return make("slice_back", own, like, dim=dim, start=low - start, stop=high - start, step=1)


def _slice_jvp(node: Expr, t: Tangents) -> Expr | None:
    """The slice of a tangent; of what is joined, that of the parts which it reaches."""
    lengths, moved = _joined_lengths(node, t)
    if moved is None or node["step"] != 1 or not all(isinstance(n, int) for n in lengths):
        return _again(node, t)
    known = [n for n in lengths if isinstance(n, int)]
    begin, end, _ = slice(node["start"], node["stop"]).indices(sum(known))
    reached, first = [], 0
    for part, length in zip(moved.args, known, strict=True):
        low, high = max(begin - first, 0), min(end - first, length)
        if low < high:
            whole = (low, high) == (0, length)
            reached.append(part if whole else make("slice", part, dim=node["dim"], start=low, stop=high, step=1))
        first += length
    return _unless_zero(cat(reached, node["dim"])) if reached else _again(node, t)


def _chunk_jvp(node: Expr, t: Tangents) -> Expr | None:
    """The part of a tangent; of equal parts that are joined, the one at its place."""
    lengths, moved = _joined_lengths(node, t)
    if moved is None or len(lengths) != node["chunks"] or len(set(lengths)) > 1 or None in lengths:
        return _again(node, t)
    return _unless_zero(moved.args[node["index"]])


def _joined_lengths(node: Expr, t: Tangents) -> tuple[list[Dim | None], Expr | None]:
    """How long the parts are of which one is read, and the join of their tangents; None where there is no such."""
    (of, *_), moved = node.args, t[0]
    dim = node["dim"]
    if of.op != "cat" or moved is None or moved.op != "cat" or {of["dim"], moved["dim"]} != {dim}:
        return [], None
    return [_length(extent(part), dim) for part in of.args], moved


def _unless_zero(tangent: Expr) -> Expr | None:
    """A tangent; None where it is 0 in every part."""
    zero = all(ZERO in (p, *p.args[:1]) for p in (tangent.args if tangent.op == "cat" else (tangent,)))
    return None if zero else tangent


def _chunk_of(g: Expr, dim: int, count: int, index: int) -> Expr | None:
    """One of equal parts of a cotangent; None where nobody reads it."""
    if g.op == "chunk_back" and (g["dim"], g["chunks"]) == (dim, count):
        return g.args[0] if g["index"] == index else None
    return make("chunk", g, dim=dim, chunks=count, index=index)


def _length(of: Extent, dim: Any) -> Dim | None:
    return of.dims[dim] if isinstance(dim, int) and -len(of.dims) <= dim < len(of.dims) else None


def rejoined(total: Expr) -> Expr:
    """A sum of what fills slices of zeros, as one join, where the slices are side by side and all there are."""
    parts: dict[tuple[Expr, Any], list[tuple[Expr, Expr]]] = {}
    for term in total.args:
        factor, inner = split_coefficient(term)
        if inner.op in ("chunk_back", "slice_back"):
            parts.setdefault((inner.args[1], inner["dim"]), []).append((inner, factor * inner.args[0]))
    for (like, dim), found in parts.items():
        ordered = sorted(found, key=lambda part: part[0].get("index", part[0].get("start")))
        if len(found) > 1 and _fills([inner for inner, _ in ordered], _length(extent(like), dim)):
            whole = make("cat", *(value for _, value in ordered), dim=dim)
            backs = {inner for inner, _ in found}
            return add(whole, *(t for t in total.args if split_coefficient(t)[1] not in backs))
    return total


def _fills(parts: Sequence[Expr], size: Dim | None) -> bool:
    """Whether slices, in order, are side by side and fill a dimension."""
    if all(p.op == "chunk_back" for p in parts):
        return [p["index"] for p in parts] == list(range(parts[0]["chunks"])) and len({p["chunks"] for p in parts}) == 1
    if any(p.op == "chunk_back" or p["step"] != 1 or p["start"] < 0 for p in parts):
        return False
    last = parts[-1]["stop"]
    meet = all(a["stop"] == b["start"] for a, b in pairwise(parts))
    return meet and parts[0]["start"] == 0 and (last is None or (isinstance(size, int) and last == size))


def _cat_jvp(node: Expr, t: Tangents) -> Expr | None:
    if all(v is None for v in t):
        return None
    parts = [expand(ZERO, a) if v is None else v for v, a in zip(t, node.args, strict=True)]
    return make("cat", *parts, dim=node["dim"])


def _part_vjp(node: Expr, g: Expr) -> tuple[Expr | None, ...]:
    """The part among zeros."""
    parts = [g if k == node["index"] else expand(ZERO, a) for k, a in enumerate(node.args[1:])]
    return (make("cat", *parts, dim=node["dim"]), *(None for _ in node.args[1:]))


# ------------------------------------------------------------------------------------------------ order
def _roll(x: Expr, shifts: Any, dims: Any = None) -> Expr:
    shifts = shifts if isinstance(shifts, tuple) else (shifts,)
    if dims is None:
        raise ValueError("roll needs the dimensions along which it shifts: roll(x, shifts, dims)")
    dims = dims if isinstance(dims, tuple) else (dims,)
    if len(shifts) != len(dims):
        raise ValueError("roll needs one shift for each dimension")
    return make("roll", x, shifts=shifts, dims=dims)


def _roll_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    return (make("roll", g, shifts=tuple(-s for s in node["shifts"]), dims=node["dims"]),)


def _along_dims(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    positions(node["dims"], operands[0])
    return operands[0]


# ------------------------------------------------------------------------------------------------ borders
def pad(x: Expr, pad: Any, mode: str = "constant", value: Expr = ZERO) -> Expr:
    """torch's padding: two numbers for each dimension, from the last one on. A negative one cuts off."""
    pad = pad if isinstance(pad, tuple) else (pad,)
    if len(pad) % 2:
        raise ValueError("pad needs two numbers for each dimension, from the last one on")
    if any(isinstance(n, Ref) for n in pad):
        raise ValueError("the numbers of pad are whole numbers, not hyperparameters")
    if mode == "constant":
        if value is ZERO or value is None:
            return make("pad", x, pad=pad)
        inside = make("pad", expand(ONE, x), pad=pad)
        return make("pad", x, pad=pad) + where(compare("eq", inside, ZERO), value, ZERO)  # a term of no derivative
    if any(isinstance(n, Expr) for n in pad):
        raise ValueError(f"the numbers of pad are whole numbers in the mode {mode!r}")
    if mode not in ("circular", "reflect", "replicate"):
        raise ValueError("the mode of pad is 'constant', 'circular', 'reflect' or 'replicate'")
    for k in range(len(pad) // 2):
        x = _bordered(x, -1 - k, pad[2 * k], pad[2 * k + 1], mode)
    return x


def _bordered(x: Expr, dim: int, before: int, after: int, mode: str) -> Expr:
    """`x` with a border made of its own elements along one dimension."""
    if before < 0 or after < 0:
        raise ValueError(f"in the mode {mode!r} the numbers of pad are at least 0")
    if mode == "circular":
        left, right = slice_of(x, dim, -before, None), slice_of(x, dim, 0, after)
    elif mode == "reflect":
        left = make("flip", slice_of(x, dim, 1, before + 1), dims=(dim,))
        right = make("flip", slice_of(x, dim, -after - 1, -1), dims=(dim,))
    else:
        first, last = slice_of(x, dim, 0, 1), slice_of(x, dim, -1, None)
        return cat([*[first] * before, x, *[last] * after], dim)
    return cat([*([left] if before else []), x, *([right] if after else [])], dim)


def _padded(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    pad = node["pad"]
    if len(pad) // 2 > len(of.dims):
        if of.exact:
            raise ShapeConflict(f"pad of {len(pad) // 2} dimensions, and there is {of}")
        return unknown(node)
    dims = list(of.dims)
    for k in range(len(pad) // 2):
        own = (sizes.number_of(n) if isinstance(n, Expr) else n for n in pad[2 * k : 2 * k + 2])
        size = sizes.total([dims[-1 - k], *own])
        if isinstance(size, int) and size < 0:
            raise ShapeConflict(f"pad cuts off more than there is of {of}")
        dims[-1 - k] = size
    return Extent(tuple(dims), of.lead)


# ------------------------------------------------------------------------------------------------ differences
def _diff_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    """The cotangent among zeros, of which each element goes to the next one, and its negative to itself."""
    dim, order = node["dim"], node["n"]
    pulled = make("slice_back", g, node.args[0], dim=dim, start=0, stop=-order, step=1)
    for _ in range(order):
        pulled = make("shifted", pulled, dim=dim, step=1) - pulled
    return (pulled,)


def _differences(node: Expr) -> Expr:
    value = node.args[0]
    for _ in range(node["n"]):
        value = slice_of(value, node["dim"], 1, None) - slice_of(value, node["dim"], 0, -1)
    return value


def _diffed(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    places = positions(node["dim"], of)
    if places is None or not of.dims:
        if of.exact:
            raise ShapeConflict("a tensor without dimensions has no differences")
        return unknown(node)
    size = sizes.plus(of.dims[places[0]], -node["n"])
    if isinstance(size, int) and size < 0:
        raise ShapeConflict(f"differences of order {node['n']} along dimension {node['dim']} of {of}")
    return _resized(of, places[0], size)


# ------------------------------------------------------------------------------------------------ rows
_SLICE = (
    DIM,
    Attribute("start", "int", 0),
    Attribute("stop", "int"),
    Attribute("step", "int", 1),
)
_CHUNK = (DIM, Attribute("chunks", "int", required=True), Attribute("index", "int", required=True))
_MOVES: dict[str, Any] = {"jvp": _again, "linear": True, "whole": True, "exact": True}
_PUTS: dict[str, Any] = {"shape_of": 1, "shape_only": frozenset({1}), **_MOVES}

ROWS = (
    TensorOp(
        "cat",
        operands=("tensors",),
        attributes=(FIRST,),
        torch="torch.cat(({operands},), dim={dim})",
        vjp=_cat_vjp,
        jvp=_cat_jvp,
        extent=_joined,
        aliases=("concat", "concatenate"),
        variadic=True,
        linear=True,
        whole=True,
        exact=True,
        definition=lambda *tensors, dim: cat(tensors, dim),
    ),
    TensorOp(
        "stack", operands=("tensors",), attributes=(FIRST,), variadic=True, definition=lambda *t, dim: stack(t, dim)
    ),
    TensorOp(
        "flip",
        attributes=(DIMS,),
        torch="{0}.flip({dims})",
        vjp=lambda node, g: (make("flip", g, dims=node["dims"]),),
        extent=_along_dims,
        shape_of=0,
        same=True,
        definition=lambda x, dims: make("flip", x, dims=dims if isinstance(dims, tuple) else (dims,)),
        **_MOVES,
    ),
    TensorOp(
        "roll",
        attributes=(Attribute("shifts", "ints", required=True, fixed=True), Attribute("dims", "dims", fixed=True)),
        torch="{0}.roll({shifts}, {dims})",
        vjp=_roll_vjp,
        extent=_along_dims,
        shape_of=0,
        same=True,
        definition=_roll,
        **_MOVES,
    ),
    TensorOp(
        "pad",
        attributes=(
            Attribute("pad", "sizes", required=True, fixed=True),
            Attribute("mode", "text", "constant"),
            Attribute("value", "number", ZERO),
        ),
        torch="F.pad({0}, {pad})",
        vjp=lambda node, g: (make("pad", g, pad=tuple(-n for n in node["pad"])),),
        extent=_padded,
        definition=pad,
        **_MOVES,
    ),
    TensorOp(
        "diff",
        attributes=(Attribute("n", "int", 1, least=1, fixed=True), Attribute("dim", "dim", -1, fixed=True)),
        torch="torch.diff({0}, {attributes})",
        vjp=_diff_vjp,
        jvp=_again,
        opened=_differences,
        extent=_diffed,
        linear=True,
        whole=True,
        rounds_inside=True,
    ),
)

INTERNAL = (
    TensorOp(
        "slice",
        attributes=_SLICE,
        vjp=lambda node, g: (make("slice_back", g, node.args[0], **dict(node.attrs)),),
        extent=_sliced,
        cost=0.0,
        same=True,
        view=True,
        **_MOVES | {"jvp": _slice_jvp},
    ),
    TensorOp(
        "slice_back",
        operands=("input", "like"),
        attributes=_SLICE,
        torch="rt.slice_back({0}, {shape1}, {dim}, {start}, {stop}, {step})",
        vjp=lambda node, g: (make("slice", g, **dict(node.attrs)), None),
        **_PUTS,
    ),
    TensorOp(
        "between",
        operands=("input", "start", "stop"),
        attributes=(DIM,),
        numbers=frozenset({1, 2}),
        torch="rt.between({0}, {1}, {2}, {dim})",
        vjp=lambda node, g: (make("between_back", g, node.args[0], *node.args[1:], dim=node["dim"]), None, None),
        extent=_between_size,
        cost=0.0,
        same=True,
        view=True,
        **_MOVES,
    ),
    TensorOp(
        "between_back",
        operands=("input", "like", "start", "stop"),
        attributes=(DIM,),
        numbers=frozenset({2, 3}),
        torch="rt.between_back({0}, {shape1}, {2}, {3}, {dim})",
        vjp=lambda node, g: (make("between", g, *node.args[2:], dim=node["dim"]), None, None, None),
        **_PUTS,
    ),
    TensorOp(
        "chunk",
        attributes=_CHUNK,
        torch="rt.chunk({0}, {chunks}, {dim})[{index}]",
        vjp=lambda node, g: (make("chunk_back", g, node.args[0], **dict(node.attrs)),),
        extent=_chunked,
        cost=0.0,
        same=True,
        view=True,
        **_MOVES | {"jvp": _chunk_jvp},
    ),
    TensorOp(
        "chunk_back",
        operands=("input", "like"),
        attributes=_CHUNK,
        torch="rt.chunk_back({0}, {shape1}, {chunks}, {dim}, {index})",
        vjp=lambda node, g: (make("chunk", g, **dict(node.attrs)), None),
        **_PUTS,
    ),
    TensorOp(  # of what was joined, the one at an index; the others tell where it starts
        "part",
        operands=("input", "tensors"),
        attributes=(DIM, Attribute("index", "int", required=True)),
        vjp=_part_vjp,
        extent=lambda node, operands: operands[1 + node["index"]],
        variadic=True,
        shape_only=frozenset(range(1, MOST_JOINED + 1)),
        cost=0.0,
        view=True,
        **_MOVES,
    ),
)
