"""A minimum cut: of random graphs, that of all subsets; the one nearest to the sink; none where nothing separates."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from symgrad.plan.cut import Network


@pytest.mark.parametrize("seed", range(25))
def test_the_cut_is_that_of_least_capacity_and_nearest_to_the_sink(seed: int) -> None:
    generator = random.Random(seed)
    nodes = range(6)
    edges = {(a, b): generator.randint(1, 9) for a in nodes for b in nodes if a != b and generator.random() < 0.5}
    network = Network[int]()
    for (a, b), capacity in edges.items():
        network.add(a, b, capacity)
    sides = [{5, *some} for size in range(5) for some in combinations(range(1, 5), size)]

    def capacity(side: set[int]) -> int:
        return sum(c for (a, b), c in edges.items() if a not in side and b in side)

    least = min(map(capacity, sides))
    found = network.beyond_cut(0, 5)
    assert found is not None
    assert capacity(found) == least
    assert all(found <= side for side in sides if capacity(side) == least)


def test_what_nothing_separates_has_no_cut() -> None:
    network = Network[str]()
    network.add("source", "a")
    network.add("a", "sink")
    assert network.beyond_cut("source", "sink") is None


def test_a_sink_that_is_not_reached_is_beyond_every_cut() -> None:
    network = Network[str]()
    network.add("source", "a", 1)
    network.add("b", "sink", 1)
    assert network.beyond_cut("source", "sink") == {"b", "sink"}
