"""Minimum cuts are those that networkx finds, which torch brings."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from symgrad.plan.cut import cut_before

networkx = pytest.importorskip("networkx")


def random_edges(generator: random.Random, nodes: int) -> dict[tuple[int, int], int | None]:
    pairs = [(a, b) for a in range(nodes) for b in range(nodes) if a != b and b != 0 and a != nodes - 1]
    chosen = generator.sample(pairs, generator.randint(1, len(pairs)))
    return {pair: None if generator.random() < 0.2 else generator.randint(1, 5) for pair in chosen}


@pytest.mark.parametrize("seed", range(60))
def test_a_cut_is_that_of_networkx(seed: int) -> None:
    generator = random.Random(seed)
    nodes = generator.randint(2, 9)
    edges = random_edges(generator, nodes)
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(nodes))
    for (a, b), capacity in edges.items():
        graph.add_edge(a, b, **({} if capacity is None else {"capacity": capacity}))
    right: Any = None
    with suppress(networkx.NetworkXUnbounded):
        right = networkx.minimum_cut(graph, 0, nodes - 1)[1][0]
    found = cut_before(nodes - 1, 0, edges)
    touched = {node for pair in edges for node in pair} | {0}
    assert (found if found is None else found & touched) == (right if right is None else right & touched)
