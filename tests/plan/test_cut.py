"""A cut is the smallest of all that suffice, and that of a network the one that networkx finds, which torch brings."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, combinations
from typing import Any

import pytest
from compiled import SPECS
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_expressions import ALPHA, TENSORS, X, Y, expressions

from symgrad.accuracy.cost import is_product
from symgrad.analysis.sizes import Sizes
from symgrad.differentiate.modes import vjp
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.parse import parse_formulas
from symgrad.plan.cut import cut_before, minimum_cut
from symgrad.spec import load_spec

networkx = pytest.importorskip("networkx")
G = symbol("grad_y", "cotangent")
DEAR = {"black_scholes_call", "student_t_log_prob"}  # to compile as a whole: their plain derivatives are cut here


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


# ---------------------------------------------------------------------------------------------- of graphs
def given_by_call(node: Expr) -> bool:
    """Whether backward has a leaf without saving it: a cotangent, a Python value or a constant."""
    return not node.tensors or (node.op == "sym" and node["kind"] in ("cotangent", "tangent"))


def read(node: Expr) -> list[Expr]:
    """The arguments whose data a node reads, rather than their shape."""
    skip = TENSOR_OPS[node.op].shape_only if node.op in TENSOR_OPS else frozenset()
    return [a for k, a in enumerate(node.args) if k not in skip]


def suffices(saved: frozenset[Expr], gradients: Sequence[Expr]) -> bool:
    """Whether the gradients can be computed from the saved values and what the call gives."""
    pending, seen = list(gradients), set(saved)
    while pending:
        node = pending.pop()
        if node in seen or given_by_call(node):
            continue
        seen.add(node)
        if node.op == "sym":
            return False
        pending += read(node)
    return True


def data(gradients: Sequence[Expr], saved: frozenset[Expr] = frozenset()) -> set[Expr]:
    """All values whose data the gradients read, down to those that are saved."""
    pending, seen = list(gradients), set()
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            pending += [] if node in saved else read(node)
    return seen


def is_mask(node: Expr) -> bool:
    """Whether a value may be saved that has no derivative: a truth value, or the places of an input's elements."""
    return bool(node.args) and (node.is_boolean or (node.op.endswith("_indices") and node.args[0].op == "sym"))


def bytes_of(values: Sequence[Expr] | frozenset[Expr], sizes: Sizes) -> float:
    return round(sum(round(sizes.bytes(v), 3) for v in values), 3)


def fewest_bytes(gradients: Sequence[Expr], outputs: Sequence[Expr], masks: bool, sizes: Sizes) -> float:
    """By trying every set of inputs, outputs and masks."""
    reached = data(gradients)
    floats_of_forward = {n for n in reached if n.tensors and not any(given_by_call(s) for s in n.tensors)}
    saveable = [n for n in floats_of_forward if n.op == "sym" or n in outputs or (masks and is_mask(n))]
    assert len(saveable) <= 14
    some = chain.from_iterable(combinations(saveable, r) for r in range(len(saveable) + 1))
    enough = [s for s in some if suffices(frozenset(s), gradients)]
    frugal = [s for s in enough if not repeats(frozenset(s), gradients, outputs)]
    return min(bytes_of(s, sizes) for s in frugal or enough)


def repeats(saved: frozenset[Expr], gradients: Sequence[Expr], outputs: Sequence[Expr]) -> bool:
    """Whether a product, convolution or sort of forward is computed once more: for a gradient, or to save a mask."""
    again = data(gradients, saved) - saved
    for mask in saved:
        again |= data(mask.args, frozenset(outputs)) - {*outputs} if is_mask(mask) else set()
    return any(is_product(n) and not any(given_by_call(s) for s in n.tensors) for n in again)


def check_cut(gradients: Sequence[Expr], outputs: Sequence[Expr]) -> None:
    names, sizes = {value: f"y{i}" for i, value in enumerate(outputs) if value.op != "sym"}, Sizes.of(outputs)
    for masks in (True, False):
        cut = minimum_cut(gradients, names, sizes, masks=masks)
        assert suffices(frozenset(cut), gradients)
        assert len(set(cut)) == len(cut)
        assert all(v.op == "sym" or v in names or (masks and is_mask(v)) for v in cut)
        assert bytes_of(cut, sizes) == fewest_bytes(gradients, outputs, masks, sizes)


@pytest.mark.parametrize("stem", sorted(DEAR))
def test_the_cut_of_plain_derivatives_is_the_smallest(stem: str) -> None:
    program = parse_formulas(load_spec(next(p for p in SPECS if p.stem == stem)))
    seeds = {root: symbol(f"grad_{name}", "cotangent") for name, root in program.outputs.items()}
    tensors = [program.symbols[t.name] for t in program.spec.tensors if t.grad]
    check_cut(list(vjp(seeds, tensors).values()), list(program.outputs.values()))


SETTINGS = settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


@SETTINGS
@given(expressions(*TENSORS, ALPHA), expressions(*TENSORS), st.booleans())
def test_the_cut_of_derivatives_is_the_smallest(first: Expr, second: Expr, both: bool) -> None:
    outputs = [first, second] if both else [first]
    assume(all(not o.is_static for o in outputs))
    seeds = {o: symbol(f"grad_{i}", "cotangent") for i, o in enumerate(outputs)}
    gradients = list(vjp(seeds, TENSORS).values())
    reached = data(gradients)
    assume(sum(n.is_boolean for n in reached) <= 8)
    check_cut(gradients, outputs)


@SETTINGS
@given(st.lists(expressions(*TENSORS, G), min_size=1, max_size=3), st.data())
def test_the_cut_of_any_graph_is_the_smallest(gradients: list[Expr], draw: st.DataObject) -> None:
    reached = [n for n in data(gradients) if n.args and n.tensors and not any(given_by_call(s) for s in n.tensors)]
    assume(sum(n.is_boolean for n in reached) <= 7)
    floats = sorted((n for n in reached if not n.is_boolean), key=lambda n: n.order)
    outputs = draw.draw(st.lists(st.sampled_from(floats), max_size=3, unique=True)) if floats else []
    check_cut(gradients, outputs)


def test_equal_cuts_keep_what_is_nearer_to_the_gradients() -> None:
    y = make("exp", X)
    assert minimum_cut([G * y], {y: "y"}) == [y]
    assert minimum_cut([G * y], {}) == [X]
    mask = truth.compare("gt", X, 0)
    assert minimum_cut([truth.where(mask, G, ex.ZERO)], {}) == [mask]
    assert minimum_cut([truth.where(mask, G, ex.ZERO)], {}, masks=False) == [X]
    assert minimum_cut([truth.where(mask, G * X, ex.ZERO)], {}) == [X]


def test_shapes_are_not_saved() -> None:
    total = make("sum_to", G, X)
    assert minimum_cut([total], {}) == []
    assert minimum_cut([make("sum_to", G * Y, X)], {}) == [Y]
