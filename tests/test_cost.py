"""The cost model against what torch does."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_expressions import ALPHA, TABLE, TENSORS, X, Y, Z, expressions
from test_plan import stored

from symgrad import expr as ex
from symgrad import truth
from symgrad.backends.torch.printer import Printer
from symgrad.cost import backward_cost, composite_saves, cost, operation_cost, total
from symgrad.expr import Expr, make, symbol
from symgrad.functions import FUNCTIONS
from symgrad.machine import machine
from symgrad.plan import saved_by_composite
from symgrad.traversal import topological


@pytest.mark.parametrize("name", TABLE)
def test_a_row_says_what_torch_saves(name: str) -> None:
    symbols = [ex.ONE if name == "polygamma" and i == 0 else symbol("abc"[i]) for i in range(FUNCTIONS[name].arity[0])]
    root = make(name, *symbols)
    named = [s for s in symbols if s.op == "sym"]
    text = Printer({s: s.name for s in named})(root)
    low, high = FUNCTIONS[name].sample
    tensors = [(torch.rand(64) * (high - low) + low).requires_grad_() for _ in named]

    def function(*values: torch.Tensor) -> torch.Tensor:
        scope = {"torch": torch, "F": torch.nn.functional} | {s.name: v for s, v in zip(named, values, strict=True)}
        result: torch.Tensor = eval(text, scope)
        return result

    assert stored(function, tensors)[0] == 64 * saved_by_composite([root])


@settings(deadline=None, max_examples=60)
@given(expressions(*TENSORS, ALPHA), expressions(*TENSORS, ALPHA))
def test_sharing_never_costs(left: Expr, right: Expr) -> None:
    together = cost(left, right)
    assert max(cost(left), cost(right)) <= together + 1e-9
    assert cost(left, left) == cost(left)
    assert all(operation_cost(n) >= 0 for n in topological(*machine([left, right])))


def test_scalars_and_leaves_cost_nothing() -> None:
    for free in (X, ALPHA, ALPHA * ALPHA + 1, make("exp", ALPHA), ex.PI, ex.num(3), truth.compare("gt", ALPHA, 0)):
        assert cost(free) == 0
    assert cost(ALPHA * X) < cost(X * Y)
    assert cost(make("exp", ALPHA) * X) == cost(ALPHA * X)


def test_order_of_costs() -> None:
    assert cost(X + Y) < cost(make("exp", X)) < cost(make("erf", X)) < cost(make("lgamma", X))
    assert cost(X * X) < cost(X**5)
    assert cost(make("sigmoid", X)) < cost(1 / (1 + make("exp", -X)))


def test_every_operation_has_a_cost() -> None:
    for name in TABLE:
        assert operation_cost(make(name, *[X] * FUNCTIONS[name].arity[0])) > 0


def test_what_is_fixed_has_no_backward() -> None:
    everything = backward_cost([make("sin", X * Y)])
    assert 0 < backward_cost([make("sin", X * Y)], frozenset({Y})) < everything
    assert backward_cost([make("sin", X * Y)], frozenset({X, Y})) == 0
    assert composite_saves([make("sin", X * Y)], frozenset({X, Y})) == frozenset()


def test_a_choice_keeps_its_condition() -> None:
    condition = truth.compare("gt", X, 0)
    assert composite_saves([truth.where(condition, Y, Z)]) == {condition}
    assert composite_saves([truth.where(condition, ex.ONE, ex.ZERO)]) == frozenset()


@given(st.lists(st.sampled_from([0.1, 0.2, 0.6, 0.7, 0.9, 1.0, 1.3, 2.5, 30.0]), max_size=40), st.randoms())
@settings(max_examples=50, deadline=None)
def test_equal_costs_have_equal_sums_in_any_order(figures: list[float], random: Random) -> None:
    exact = sum(Fraction(str(figure)) for figure in figures)
    shuffled = random.sample(figures, len(figures))
    assert total(figures) == total(shuffled) == total([float(exact)])
