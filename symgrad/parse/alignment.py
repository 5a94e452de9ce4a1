"""Named dimensions: where values do not align from the right, they align by name.

A bias of shape [C] beside an x of shape [N, C, H, W] becomes `bias[:, None, None]`. Shapes that align in neither way
contradict each other, and raise `ShapeConflict`.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.ir import truth
from symgrad.ir.expr import ONE, ZERO, Expr, mul
from symgrad.ir.traversal import PerNode, rebuild, transform
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.extent import Dim, Extent, ShapeConflict, broadcast, extent
from symgrad.ops.tensors.shaping import unsqueeze

__all__ = ["ShapeConflict", "aligned", "cancelled", "paired", "side_by_side"]


@PerNode
def aligned(node: Expr) -> Expr:
    """A value with the operands of every pointwise operation aligned. Raises ShapeConflict."""
    args: Sequence[Expr] = [aligned(a) for a in node.args]
    if args and node.op not in TENSOR_OPS and not (node.op == "where" and node.args[0].is_static):
        args = _operands(args)
    result = rebuild(node, args)
    extent(result)  # a conflict inside of a tensor operation
    return result


def side_by_side(*values: Expr) -> tuple[Expr, ...]:
    """The values as they broadcast with each other, aligned. Raises ShapeConflict."""
    return tuple(_operands(values))


def paired(*values: Expr) -> tuple[Expr, ...]:
    """The values, as they are written, with every pair of rows side by side: [N, D] and [M, D] meet as [N, M, D].

    That is done where they align in no other way and have a name in common; else they are as they were.
    """
    extents = [extent(a) for a in values]
    shaped = [e for e in extents if e.dims]
    if len(shaped) < 2 or not all(e.exact for e in shaped):
        return values
    try:
        _operands(values)
        return values
    except ShapeConflict:
        pass
    names: list[Dim] = []
    for own in shaped:
        merged = _merged(names, own.dims)
        if merged is None:
            return values
        names = merged
    whole = Extent(tuple(names))
    placed = [_placed(a, e, whole) if e.dims else a for a, e in zip(values, extents, strict=True)]
    try:
        broadcast([extent(a) for a in placed])
    except ShapeConflict:
        return values
    return tuple(placed)


def _merged(names: Sequence[Dim], others: Sequence[Dim]) -> list[Dim] | None:
    """Both lists of names in one, those of the first before those of the second between what they have in common.

    None where they have nothing in common, or not in one order; a size that has no name has no place among them.
    """
    if not names:
        return list(others)
    common = [d for d in names if d in others]
    named = all(isinstance(d, str) for d in (*names, *others)) and len({*others}) == len(others)
    if not named or not common or common != [d for d in others if d in names]:
        return None
    found: list[Dim] = []
    rest = list(others)
    for name in names:
        if name in others:
            place = rest.index(name)
            found += rest[:place]
            rest = rest[place + 1 :]
        found.append(name)
    return found + rest


def cancelled(root: Expr) -> Expr:
    """`root` without products of aligned values that cancel: alpha[:, None] * (1 / alpha)[:, None] is 1."""
    return transform(root, _cancelled)


def _cancelled(node: Expr) -> Expr:
    if node.op != "mul":
        return node
    groups: dict[tuple[int, ...], list[Expr]] = {}
    for factor in node.args:
        if factor.op == "unsqueeze":
            groups.setdefault(factor["dim"], []).append(factor)
    for dims, factors in groups.items():
        inside = mul(*(f.args[0] for f in factors))
        if len(factors) > 1 and inside.size < sum(f.args[0].size for f in factors):
            whole = inside if inside.is_static else unsqueeze(inside, *dims)
            node = mul(whole, *(f for f in node.args if f not in factors))
    return node


def _operands(args: Sequence[Expr]) -> Sequence[Expr]:
    """Operands that broadcast, those of fewer dimensions aligned by name where they must be."""
    extents = [extent(a) for a in args]
    try:
        broadcast(extents)
        conflict = None
        widest = _widest(extents)
        if not any(_strays(e, widest) for e in extents):
            return args
    except ShapeConflict as found:
        conflict = found
    try:
        widest = _widest(extents)
        placed = [_placed(a, e, widest) for a, e in zip(args, extents, strict=True)]
        broadcast([extent(a) for a in placed])
    except ShapeConflict:
        if conflict is None:
            return args
        raise ShapeConflict(f"{conflict}, and do not align by name") from None
    return placed


def _strays(own: Extent, widest: Extent) -> bool:
    """Whether a name meets a size that has none, such as a convolution's, while the widest shape has it elsewhere."""
    pairs = zip(reversed(own.dims), reversed(widest.dims), strict=False)
    return any(isinstance(o, str) and isinstance(w, tuple) and o in widest.dims for o, w in pairs)


def _widest(extents: Sequence[Extent]) -> Extent:
    """What the operands of most dimensions broadcast to: one that was reduced may lack the size of a dimension."""
    rank = max(len(e.dims) for e in extents)
    return broadcast([e for e in extents if len(e.dims) == rank])


def _placed(value: Expr, own: Extent, widest: Extent) -> Expr:
    """`value` with dimensions of size 1 where its names lack some of the widest shape's."""
    try:
        broadcast([own, widest])
        if not _strays(own, widest):
            return value
    except ShapeConflict:
        pass
    places = _places(own, widest)
    return value if places is None else _inserted(value, places)


def _inserted(value: Expr, places: tuple[int, ...]) -> Expr:
    if not places:
        return value
    if not value.is_boolean:
        return unsqueeze(value, *places)
    ranks = {len(extent(a).dims) for a in value.args if extent(a).dims or not extent(a).exact}
    if value.args and ranks == {len(extent(value).dims)}:
        return rebuild(value, [_inserted(a, places) if extent(a).dims else a for a in value.args])
    return truth.compare("gt", unsqueeze(truth.where(value, ONE, ZERO), *places), ZERO)  # operations move numbers


def _places(own: Extent, widest: Extent) -> tuple[int, ...] | None:
    """Where the widest shape has dimensions that `own` lacks, from the first of its names to the end.

    The names must come in the same order; of equal ones in the widest shape the last is meant. A size of 1 meets any.
    """
    missing: list[int] = []
    wanted = list(own.dims)
    for k in range(1, len(widest.dims) + 1):
        if not wanted:
            break
        if wanted[-1] == 1 or (isinstance(wanted[-1], str) and wanted[-1] == widest.dims[-k]):
            wanted.pop()
        else:
            missing.append(-k)
    return None if wanted else tuple(sorted(missing))
