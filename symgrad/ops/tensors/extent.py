"""What is known about the shape of a value before it is computed.

An `Extent` is the last dimensions of a value by size or name, and what stands before them: nothing, where the rank is
known, or the leading dimensions of some tensors, broadcast. A tensor of undeclared shape has only leading dimensions.
Dimensions that contradict each other raise `ShapeConflict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from symgrad.ir.expr import TENSOR_KINDS, Expr
from symgrad.ir.traversal import PerNode
from symgrad.ops.tensors.row import TENSOR_OPS, Ref

Dim: TypeAlias = "int | str | tuple[Any, ...]"
"""A size, the name of one, or the position in a value whose size has no name."""


class ShapeConflict(ValueError):
    """Shapes that cannot stand together; the message says which."""


@dataclass(frozen=True)
class Extent:
    """Known last dimensions, after the leading ones of `lead` (empty where the rank is known)."""

    dims: tuple[Dim, ...] = ()
    lead: frozenset[Any] = frozenset()

    @property
    def exact(self) -> bool:
        """Whether the rank is known."""
        return not self.lead

    def __str__(self) -> str:
        parts = [*([] if self.exact else ["..."]), *(d if isinstance(d, str) else shown(d) for d in self.dims)]
        return f"[{', '.join(parts)}]"


SCALAR = Extent()


def shown(dim: Dim) -> str:
    """A dimension in a message."""
    return repr(dim) if isinstance(dim, str) else str(dim) if isinstance(dim, int) else "?"


def unknown(node: Expr) -> Extent:
    """Nothing is known about the shape but whose it is."""
    return Extent((), frozenset({node}))


@PerNode
def extent(node: Expr) -> Extent:
    """What is known about the shape of a value. Raises ShapeConflict."""
    if node.op == "sym":
        return _of_symbol(node)
    if node.is_static:
        return SCALAR
    below = tuple(extent(a) for a in node.args)
    row = TENSOR_OPS.get(node.op)
    if row is None:
        if node.op == "where" and node.args[0].is_static:  # a branch of Python
            return below[1] if below[1] == below[2] else unknown(node)
        return broadcast(below)
    if row.extent is not None:
        return row.extent(node, below)
    return unknown(node) if row.shape_of is None else below[row.shape_of]


def _of_symbol(symbol: Expr) -> Extent:
    if symbol["kind"] not in TENSOR_KINDS:
        return SCALAR
    shape: tuple[Dim, ...] | None = symbol.get("shape")
    if shape is None:
        return unknown(symbol)
    return Extent(shape[1:], frozenset({symbol})) if shape[:1] == ("...",) else Extent(shape)


# ------------------------------------------------------------------------------------------------ broadcasting
def broadcast(extents: Sequence[Extent]) -> Extent:
    """The extent that values broadcast to."""
    open_ranks = [len(e.dims) for e in extents if not e.exact]
    known = min(open_ranks) if open_ranks else max((len(e.dims) for e in extents), default=0)
    dims: list[Dim] = []
    for k in range(1, known + 1):
        size: Dim = 1
        for e in extents:
            if len(e.dims) >= k:
                size = merged(size, e.dims[-k], extents)
        dims.insert(0, size)
    lead: frozenset[Any] = frozenset()
    for e in extents if open_ranks else ():
        before = e.dims[: len(e.dims) - known]
        if any(d != 1 for d in before):
            lead |= {(e.lead, before)}
        else:
            lead |= e.lead
    return Extent(tuple(dims), lead)


def merged(left: Dim, right: Dim, among: Sequence[Extent] = ()) -> Dim:
    """The size that two sizes broadcast to. Raises ShapeConflict."""
    if left == right or right == 1:
        return left
    if left == 1:
        return right
    if isinstance(left, tuple) or isinstance(right, tuple):  # either may turn out to be 1
        return ("broadcast", frozenset({left, right}))
    return same(left, right, f"the shapes {listed(among)} do not broadcast" if among else "")


def same(left: Dim, right: Dim, message: str = "") -> Dim:
    """The size that both must be. Raises ShapeConflict where a name or number tells them apart."""
    if left == right or isinstance(right, tuple):
        return left
    if isinstance(left, tuple):
        return right
    raise ShapeConflict(
        f"{message}: {shown(left)} meets {shown(right)}" if message else f"{shown(left)}, {shown(right)}"
    )


def listed(extents: Sequence[Extent]) -> str:
    """The different shapes among some, for a message."""
    texts = list(dict.fromkeys(str(e) for e in extents if e.dims))
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else "".join(texts)


# ------------------------------------------------------------------------------------------------ dimensions
def position(dim: int, of: Extent) -> int | None:
    """A dimension as a negative index into the known ones, None where its place is not known.

    Raises ShapeConflict where there is no such dimension.
    """
    rank = len(of.dims)
    if of.exact:
        if not -max(rank, 1) <= dim < max(rank, 1):
            raise ShapeConflict(f"there is no dimension {dim} in {of}")
        return (dim if dim < 0 else dim - rank) if rank else None
    return dim if -rank <= dim < 0 else None


def positions(dims: object, of: Extent) -> tuple[int, ...] | None:
    """Several dimensions as `position` has them, None where one is not known."""
    listed_dims = dims if isinstance(dims, tuple) else (dims,)
    found: list[int] = []
    for dim in listed_dims:
        place = None if isinstance(dim, Ref) or not isinstance(dim, int) else position(dim, of)
        if place is None:
            return None
        if place in found:
            raise ShapeConflict(f"the dimension {dim} of {of} is named twice")
        found.append(place)
    return tuple(found)


def place_along(dim: object, of: Extent, what: str = "") -> int | None:
    """A single dimension as `position` has it, None where it is not known. Raises ShapeConflict where there is none.

    With `what`, a message, a scalar raises it too: "a tensor without dimensions has no slices".
    """
    places = positions(dim, of)
    if places is None and what and of.exact and not of.dims:
        raise ShapeConflict(f"a tensor without dimensions has {what}")
    return None if places is None else places[0]


def size_along(dim: object, of: Extent) -> Dim | None:
    """The size of a dimension, None where it is not known. Raises ShapeConflict where there is no such dimension."""
    place = place_along(dim, of)
    return None if place is None else of.dims[place]


def reduced(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    """The extent of a reduction over `dim`."""
    of, dim, keep = operands[0], node["dim"], node.get("keepdim", False)
    if dim is None:
        if keep is False or (of.exact and not of.dims):
            return SCALAR
        return Extent((1,) * len(of.dims)) if keep is True and of.exact else unknown(node)
    places = positions(dim, of)
    if of.exact and not of.dims:
        return SCALAR
    if places is None or isinstance(keep, Ref):
        return unknown(node)
    kept = [1 if k - len(of.dims) in places else d for k, d in enumerate(of.dims)]
    if not keep:
        kept = [d for k, d in enumerate(of.dims) if k - len(of.dims) not in places]
    return Extent(tuple(kept), of.lead)


def along(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    """The extent of an operation along `dim` that keeps the shape."""
    positions(node["dim"], operands[0])
    return operands[0]
