"""A minimum cut of a directed graph: the least capacity that separates a source from a sink."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

__all__ = ["Network"]

N = TypeVar("N", bound=Hashable)


class Network(Generic[N]):
    """A directed graph with capacities; an edge without one lets everything through."""

    def __init__(self) -> None:
        self._residual: dict[N, dict[N, float]] = {}

    def add(self, start: N, end: N, capacity: float = float("inf")) -> None:
        """An edge; added again, it has the new capacity."""
        self._residual.setdefault(start, {})[end] = capacity
        self._residual.setdefault(end, {}).setdefault(start, 0)

    def beyond_cut(self, source: N, sink: N) -> set[N] | None:
        """The nodes on the sink's side of the minimum cut that is nearest to the sink; None where nothing separates.

        Flow is pushed along shortest paths until there is none left: which cut is found does not depend on the paths.
        """
        left = {node: dict(edges) for node, edges in self._residual.items()}
        while path := _shortest(left, source, sink):
            amount = min(left[a][b] for a, b in path)
            if amount == float("inf"):
                return None
            for a, b in path:
                left[a][b] -= amount
                left[b][a] += amount
        back: dict[N, list[N]] = {}
        for node, edges in left.items():
            for end, capacity in edges.items():
                if capacity > 0:
                    back.setdefault(end, []).append(node)
        found, pending = {sink}, [sink]
        while pending:
            new = [n for n in back.get(pending.pop(), ()) if n not in found]
            found.update(new)
            pending += new
        return found


def _shortest(left: dict[N, dict[N, float]], source: N, sink: N) -> Iterable[tuple[N, N]]:
    """The edges of a shortest path on which there is capacity left; none, where there is no such path."""
    before = {source: source}
    pending = deque([source])
    while pending and sink not in before:
        node = pending.popleft()
        for end, capacity in left.get(node, {}).items():
            if capacity > 0 and end not in before:
                before[end] = node
                pending.append(end)
    path: list[tuple[N, N]] = []
    node = sink
    while node in before and node != source:
        path.append((before[node], node))
        node = before[node]
    return path
