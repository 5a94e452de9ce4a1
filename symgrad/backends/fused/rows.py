"""The order in which a row is worked on: passes over it that reduce it, and what follows from them for all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from symgrad.backends.fused.elements import ROW_OPS
from symgrad.expr import Expr
from symgrad.traversal import topological


@dataclass(frozen=True)
class Stage:
    """One pass over a row: what it reduces, and what is then computed once for the row from reductions alone."""

    reductions: tuple[Expr, ...]
    settled: tuple[Expr, ...]


def stages(roots: Sequence[Expr]) -> tuple[Stage, ...]:
    """The passes over a row before the one that writes, each with what needs no later one."""
    depth: dict[Expr, int] = {}
    for node in topological(*roots):
        depth[node] = max((depth[a] for a in node.args), default=0) + (node.op in ROW_OPS)
    settled = _settled(roots)
    return tuple(
        Stage(
            tuple(n for n in depth if n.op in ROW_OPS and depth[n] == number),
            tuple(n for n in settled if depth[n] == number),
        )
        for number in range(1, max((depth[n] for n in depth if n.op in ROW_OPS), default=0) + 1)
    )


def _settled(roots: Sequence[Expr]) -> list[Expr]:
    """Values that follow from reductions of a row alone, and that something for each element reads."""
    order = topological(*roots)
    row: dict[Expr, bool] = {}
    for node in order:
        row[node] = node.op in ROW_OPS or (
            not node.is_static and bool(node.args) and all(a.is_static or row[a] for a in node.args)
        )
    users: dict[Expr, None] = dict.fromkeys(r for r in roots if row[r])
    for node in order:
        if not row[node] or node.op in ROW_OPS:
            users.update(dict.fromkeys(a for a in node.args if row[a]))
    return [n for n in users if n.op not in ROW_OPS]


__all__ = ["Stage", "stages"]
