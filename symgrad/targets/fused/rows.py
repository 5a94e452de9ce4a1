"""The order in which a row is worked on: passes over it that reduce it, and what follows from them for all of it.

What is reduced must be as long as a row: a tensor that broadcasts along it has fewer elements than the pass sees.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.targets.fused.model import Operand
from symgrad.targets.fused.picks import known_before
from symgrad.targets.fused.terms import REDUCTIONS, ROW_OPS, Unsupported, View, length, of_elements

__all__ = ["Stage", "compared", "kept", "spans", "stages"]


@dataclass(frozen=True)
class Stage:
    """One pass over a row: what it reduces, and what is then computed once for the row from reductions alone."""

    reductions: tuple[Expr, ...]
    settled: tuple[Expr, ...]


def stages(roots: Sequence[Expr], known: Collection[Expr] = (), beside: Collection[Expr] = ()) -> tuple[Stage, ...]:
    """The passes over a row before the one that writes, each with what needs no later one.

    Where some reductions are known beforehand, or what is picked of a row, the first stage is no pass: it settles what
    follows from these alone. Reductions `beside` that the roots do not read join the first pass that has read for them.
    """
    known = (*known, *known_before(topological(*roots, leaves=known)))
    depth: dict[Expr, int] = {}
    for node in topological(*roots, leaves=known):
        above = () if node in known else node.args
        depth[node] = max((depth[a] for a in above), default=0) + (node.op in ROW_OPS and node not in known)
    settled = _settled(roots, known)
    found = [
        Stage(
            tuple(n for n in depth if n.op in ROW_OPS and n not in known and depth[n] == number),
            tuple(n for n in settled if depth[n] == number),
        )
        for number in range(not known, max((depth[n] for n in depth if n.op in ROW_OPS), default=0) + 1)
    ]
    for node in beside:
        place = _joined(found, node)
        if place is not None and not any(node in stage.reductions for stage in found):
            found[place] = replace(found[place], reductions=(*found[place].reductions, node))
    return tuple(found)


def _joined(found: Sequence[Stage], node: Expr) -> int | None:
    """The first pass that reads all that a reduction does, after those that reduce what it follows from."""
    earlier = {n for n in topological(*node.args) if n.op in ROW_OPS}
    for place, stage in enumerate(found):
        if not earlier and node.symbols <= frozenset().union(*(n.symbols for n in stage.reductions)):
            return place
        earlier.difference_update(stage.reductions)
    return None


def compared(roots: Sequence[Expr]) -> dict[Expr, Expr]:
    """What is compared with its own extremum along a row, and that extremum.

    Computed a second time such a value may be rounded otherwise, where the compiler contracts a product and a sum in
    another way, and then no element of the row is the largest. So it is computed once and held for the whole row.
    """
    found: dict[Expr, Expr] = {}
    for node in topological(*roots):
        if node.op == "eq":
            for value, extremum in (node.args, node.args[::-1]):
                if extremum.op in _EXTREMA and extremum.args[0] is value:
                    found[value] = extremum
    return found


_EXTREMA = ("row_max", "row_min")


def kept(before: Sequence[Expr], after: Sequence[Expr]) -> tuple[Expr, ...]:
    """The reductions that `before` keeps where that spares `after` a pass over the row to know them.

    They are those that both share, and others of `after` for which `before` has read the row anyway.
    """
    extrema = compared(after).values()
    reduced = [n for stage in stages(after) for n in stage.reductions if n not in extrema]
    own = stages(before)
    shared = [n for stage in own for n in stage.reductions if n in reduced]
    more = [n for n in reduced if n not in shared and _joined(own, n) is not None]
    for node in tuple(more):  # those that spare no pass are not worth a number
        fewer = [n for n in more if n is not node]
        if _passes(after, [*shared, *fewer]) == _passes(after, [*shared, *more]):
            more = fewer
    known = [n for stage in stages(before, beside=more) for n in stage.reductions if n in (*shared, *more)]
    return tuple(known) if _passes(after, known) < _passes(after, ()) else ()


def _passes(roots: Sequence[Expr], known: Collection[Expr]) -> int:
    return sum(bool(stage.reductions) for stage in stages(roots, known))


def _settled(roots: Sequence[Expr], known: Collection[Expr]) -> list[Expr]:
    """Values that follow from reductions of a row alone, and that something for each element reads."""
    order = topological(*roots, leaves=known)
    row: dict[Expr, bool] = {}
    for node in order:
        row[node] = (
            node in known
            or node.op in ROW_OPS
            or (not node.is_static and bool(node.args) and all(a.is_static or row[a] for a in node.args))
        )
    users = [n for n in order if n not in known and (not row[n] or n.op in ROW_OPS)]
    read = [*(r for r in roots if row[r]), *(a for n in users for a in n.args if row[a])]
    stored: dict[Expr, None] = {}
    while read:
        node = read.pop(0)
        if node.is_boolean:  # a row keeps numbers: a truth value follows from them where it is read
            read = [*(a for a in node.args if row[a]), *read]
        elif node not in known and node.op not in ROW_OPS:
            stored[node] = None
    return list(stored)


def spans(order: Sequence[Expr], operands: Sequence[Operand], shape: Sequence[View]) -> tuple[tuple[int, ...], ...]:
    """For each reduction in `order` the places of the operands of which one has to be as long as a row.

    Left out are those where one surely is: `shape` are the tensors that broadcast to that of the pass. Raises
    Unsupported where nothing that is reduced has an element for each of a row, and where rows have different numbers of
    elements: no call has tensors that broadcast then.
    """
    long = [view for view in shape if length(view) != 1]
    lengths = {length(view) for view in long}
    if len([n for n in lengths if isinstance(n, (int, str))]) > 1:
        raise Unsupported("rows of several lengths")
    places = {o.leaf: k for k, o in enumerate(operands) if -1 not in o.dims}
    found: dict[tuple[int, ...], None] = {}
    for node in order:
        if node.op in REDUCTIONS:
            along = [n for n in of_elements(node.args[0]) if n in places]
            if not along:
                raise Unsupported("a reduction of a reduction")
            known = {length(View(n, operands[places[n]].dims)) for n in along} - {None}
            if not (len(lengths) == 1 and lengths & known) and not {v.tensor for v in long} <= set(along):
                found[tuple(sorted(places[n] for n in along))] = None
    return tuple(found)
