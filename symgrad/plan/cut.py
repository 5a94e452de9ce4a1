"""A minimum cut of a network, by augmenting paths (J. Edmonds, R. Karp, 1972)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Mapping

__all__ = ["cut_before"]

Node = Hashable
Edges = Mapping[tuple[Node, Node], "int | None"]


def cut_before(sink: Node, source: Node, edges: Edges) -> set[Node] | None:
    """The nodes from which the sink cannot be reached any more once a minimum cut is taken out; None if there is none.

    `edges` are capacities, None where an edge cannot be cut. Of the minimum cuts it is the one nearest to the sink,
    whatever the order of the edges.
    """
    left: dict[Node, dict[Node, int | None]] = defaultdict(dict)  # what may still flow along an edge, and back
    for (start, end), capacity in edges.items():
        left[start][end] = capacity
        left[end].setdefault(start, 0)
    while True:
        before = _reached(source, left)
        if sink not in before:
            break
        path = [sink]
        while path[-1] != source:
            path.append(before[path[-1]])
        steps = list(zip(path[1:], path, strict=False))
        free = [c for start, end in steps if (c := left[start][end]) is not None]
        if not free:
            return None
        flow = min(free)
        for start, end in steps:
            for a, b, change in ((start, end, -flow), (end, start, flow)):
                own = left[a][b]
                left[a][b] = None if own is None else own + change
    against: dict[Node, dict[Node, int | None]] = defaultdict(dict)
    for start, ends in left.items():
        for end, capacity in ends.items():
            against[end][start] = capacity
    return set(left) - set(_reached(sink, against))


def _reached(start: Node, left: Mapping[Node, Mapping[Node, int | None]]) -> dict[Node, Node]:
    """The nodes that are reached where something may still flow, each with the one before it on a shortest path."""
    before: dict[Node, Node] = {start: start}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for end, capacity in left[node].items():
            if capacity != 0 and end not in before:
                before[end] = node
                queue.append(end)
    return before
