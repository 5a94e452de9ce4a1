"""The cost model against what torch does."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from random_expressions import ALPHA, TABLE, TENSORS, X, Y, expressions

from symgrad.accuracy.cost import cost, operation_cost, total
from symgrad.accuracy.machine import machine
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS


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


def test_what_takes_longer_costs_more() -> None:
    assert cost(X + Y) < cost(make("exp", X)) < cost(make("erf", X)) < cost(make("lgamma", X))
    assert cost(X * X) < cost(X**5)
    assert cost(make("sigmoid", X)) < cost(1 / (1 + make("exp", -X)))


def test_every_operation_has_a_cost() -> None:
    for name in TABLE:
        assert operation_cost(make(name, *[X] * FUNCTIONS[name].required)) > 0


@given(st.lists(st.sampled_from([0.1, 0.2, 0.6, 0.7, 0.9, 1.0, 1.3, 2.5, 30.0]), max_size=40), st.randoms())
@settings(max_examples=50, deadline=None)
def test_equal_costs_have_equal_sums_in_any_order(figures: list[float], random: Random) -> None:
    exact = sum(Fraction(str(figure)) for figure in figures)
    shuffled = random.sample(figures, len(figures))
    assert total(figures) == total(shuffled) == total([float(exact)])
