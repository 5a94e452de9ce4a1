"""Where the shape of a value comes from.

The shape of a pointwise value is the broadcast of its sources: tensor symbols and results of tensor operations. Two
values with the same sources have the same shape, whatever the sizes turn out to be; so have two values of which the
declared shapes say so.
"""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.ir.expr import Expr
from symgrad.ir.traversal import PerNode, rebuild
from symgrad.ops.tensors.extent import SCALAR, Extent, ShapeConflict, broadcast, extent
from symgrad.ops.tensors.row import TENSOR_OPS

__all__ = [
    "Extent",
    "ShapeConflict",
    "absorbed",
    "common_extent",
    "covers",
    "declared_shape",
    "extent",
    "outline",
    "same_shape",
    "shape_sources",
]


@PerNode
def shape_sources(root: Expr) -> frozenset[Expr]:
    """The values whose shapes broadcast to the shape of `root`; none for a scalar."""
    if root.op in TENSOR_OPS:
        preserved = TENSOR_OPS[root.op].shape_of
        if preserved is not None:
            return shape_sources(root.args[preserved])
        return frozenset() if extent(root) == SCALAR else frozenset({root})
    if root.op == "sym":
        # A cotangent or tangent has the shape of a value that its user knows and adds.
        own = root.tensors and not root.is_differential and extent(root) != SCALAR
        return frozenset({root}) if own else frozenset()
    return absorbed(frozenset().union(*(shape_sources(a) for a in root.args)))


def absorbed(sources: frozenset[Expr]) -> frozenset[Expr]:
    """The sources without those that broadcast to others: what is reduced with `keepdim`, beside what it reduces."""
    left = set(sources)
    for source in sorted(sources, key=lambda s: s.order):  # one by one: of two that cover each other, one stays
        of = reduced_from(source)
        if of is not None and covers(frozenset(left - {source}), shape_sources(of)):
            left.remove(source)
    return frozenset(left)


def covers(sources: frozenset[Expr], others: frozenset[Expr]) -> bool:
    """Whether `others` add nothing to the shape that `sources` broadcast to."""
    if others <= sources or frozenset(map(outline, others)) <= frozenset(map(outline, sources)):
        return True
    try:
        return common_extent(sources | others) == common_extent(sources)
    except ShapeConflict:  # dimensions that were reduced need not fit what is there now
        return False


@PerNode
def outline(source: Expr) -> Expr:
    """The value of the same shape that is calculated of nothing but shapes: `flatten(x)` of `flatten(exp(x))`.

    The operands of a tensor operation are replaced by what their own shape comes from, where that is one value.
    """
    if source.op not in TENSOR_OPS:
        return source
    shapes = [shape_sources(a) for a in source.args]
    return rebuild(source, [outline(*s) if len(s) == 1 else a for s, a in zip(shapes, source.args, strict=True)])


def reduced_from(source: Expr) -> Expr | None:
    """The value of whose shape a source has every dimension, some with size 1; None for any other source."""
    if source.get("keepdim") is True:
        return source.args[0]
    return source.args[1] if source.op == "restore" else None


def common_extent(sources: Iterable[Expr]) -> Extent:
    """What is known of the shape that `sources` broadcast to."""
    return broadcast([extent(s) for s in sources])


def declared_shape(root: Expr) -> tuple[int | str, ...] | None:
    """The shape of a value as a spec would declare it; None where that is not known."""
    known = extent(root)
    dims = tuple(d for d in known.dims if not isinstance(d, tuple))
    if len(dims) < len(known.dims) or not (dims or known.exact):
        return None
    return dims if known.exact else ("...", *dims)


def same_shape(sources: frozenset[Expr], like: Expr) -> bool:
    """Whether what broadcasts from `sources` certainly has the shape of `like`."""
    own = shape_sources(like)
    alike = {frozenset(map(outline, of)) for of in (absorbed(sources), own)}
    return len(alike) == 1 or common_extent(sources) == common_extent(own)
