"""Tensors joined along a dimension: the transposed of a join is its slices, and their sum may be a join again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from symgrad.ir.expr import ZERO, Expr, add, make, split_coefficient
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import sizes
from symgrad.ops.tensors.extent import Dim, Extent, ShapeConflict, extent, place_along, same, unknown
from symgrad.ops.tensors.lengths import known_length
from symgrad.ops.tensors.row import DIM, FIRST, Attribute, Ref, Tangents, TensorOp
from symgrad.ops.tensors.shaping import expand, unsqueeze
from symgrad.ops.tensors.slices import MOVES, between, length_along, slice_of

MOST_JOINED = 64  # tensors of one cat


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
        known = [e for e in operands if place_along(node["dim"], e) is not None]
        alike = {e.lead for e in operands}
        if len(known) < len(operands) or len(ranks) > 1 or len(alike) > 1 or node["dim"] >= 0:
            return unknown(node)
    if len(ranks) > 1:
        shapes = " and ".join(dict.fromkeys(map(str, operands)))
        raise ShapeConflict(f"cat needs tensors of as many dimensions: {shapes}")
    if ranks == {0}:
        raise ShapeConflict("cat needs tensors with dimensions; write stack for scalars")
    place = place_along(node["dim"], operands[0])
    if place is None:
        return unknown(node)
    dims: list[Dim] = []
    for k, parts in enumerate(zip(*(e.dims for e in operands), strict=True)):
        if k - len(operands[0].dims) == place:
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
    lengths = [length_along(extent(a), dim) for a in node.args]
    if all(isinstance(n, int) for n in lengths):
        known = [n for n in lengths if isinstance(n, int)]
        starts = [sum(known[:k]) for k in range(len(known))]
        bounds = zip(node.args, starts, known, strict=True)
        return tuple(_piece(g, part, dim, start, start + length, sum(known)) for part, start, length in bounds)
    if len(set(lengths)) == 1 and lengths[0] is not None:
        return tuple(_chunk_of(g, dim, len(lengths), k) for k in range(len(lengths)))
    numbers = [known_length(a, dim) for a in node.args]
    if None not in numbers and any(n.op == "between" for n in topological(*node.args)):  # else shapes are there
        ends = list(accumulate((n for n in numbers if n is not None), initial=ZERO))
        return tuple(between(g, dim, start, stop) for start, stop in pairwise(ends))
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


def _chunk_of(g: Expr, dim: int, count: int, index: int) -> Expr | None:
    """One of equal parts of a cotangent; None where nobody reads it."""
    if g.op == "chunk_back" and (g["dim"], g["chunks"]) == (dim, count):
        return g.args[0] if g["index"] == index else None
    return make("chunk", g, dim=dim, chunks=count, index=index)


def rejoined(total: Expr) -> Expr:
    """A sum of what fills slices of zeros, as one join, where the slices are side by side and all there are."""
    parts: dict[tuple[Expr, Any], list[tuple[Expr, Expr]]] = {}
    for term in total.args:
        factor, inner = split_coefficient(term)
        if inner.op in ("chunk_back", "slice_back"):
            parts.setdefault((inner.args[1], inner["dim"]), []).append((inner, factor * inner.args[0]))
    for (like, dim), found in parts.items():
        ordered = sorted(found, key=lambda part: part[0].get("index", part[0].get("start")))
        if len(found) > 1 and _fills([inner for inner, _ in ordered], length_along(extent(like), dim)):
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
    parts = [expand(ZERO, a) if v is None else v for v, a in zip(t, node.args, strict=True)]
    return make("cat", *parts, dim=node["dim"])


def _part_vjp(node: Expr, g: Expr) -> tuple[Expr | None, ...]:
    """The part among zeros."""
    parts = [g if k == node["index"] else expand(ZERO, a) for k, a in enumerate(node.args[1:])]
    return (make("cat", *parts, dim=node["dim"]), *(None for _ in node.args[1:]))


# ------------------------------------------------------------------------------------------------ rows
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
)

INTERNAL = (
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
        **MOVES,
    ),
)
