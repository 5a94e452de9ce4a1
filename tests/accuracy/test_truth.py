"""True values at points: to the digits that are promised, as limits, or not at all."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from random_expressions import X, Y

from symgrad.accuracy.evaluate import Exact, exact
from symgrad.accuracy.truth import Table
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ir.truth import where
from tests.accuracy.test_evaluate import POSITIVE


def test_truth_survives_cancellation_of_any_depth() -> None:
    one_minus_cos = (1 - make("cos", X)) / X**2
    for x in (1e-25, 1e-30, 1e-60):
        (truth,) = Table([{X: x}])(one_minus_cos)
        assert truth is not None
        assert abs(truth.value - 0.5) < mp.mpf(2) ** -70
    (tiny,) = Table([{X: 1e-30}])(make("log", 1 + X**4))
    assert tiny is not None
    assert abs(tiny.value / mp.mpf(1e-30) ** 4 - 1) < mp.mpf(2) ** -70
    (deep,) = Table([{X: 1e-30}])((X - make("sin", X)) / X**3 - ex.num(Fraction(1, 6)))
    assert deep is not None
    assert abs(deep.value / (mp.mpf(1e-30) ** 2 / 120) + 1) < mp.mpf(2) ** -60


def test_zeros_are_believed_where_nothing_cancels_and_at_last_where_all_does() -> None:
    relu, gap = make("relu", X), where(POSITIVE, X, ex.ZERO)
    for root in (relu, relu * make("exp", X), gap**2 * Y, make("tanh", relu) + gap, X * 0 + relu):
        values = Exact([{X: -1.5, Y: 2.0}], 120)
        assert values(root)[0] == 0
        assert values.plainly_zero(root, 0)
        (truth,) = Table([{X: -1.5, Y: 2.0}])(root)
        assert truth is not None
        assert truth.value == 0
    cancelled = make("exp", X + Y) - make("exp", Y + X) * make("add", ex.ONE, X, make("mul", ex.MINUS_ONE, X))
    values = Exact([{X: -1.5, Y: 2.0}], 120)
    assert values(cancelled)[0] == 0
    assert not values.plainly_zero(cancelled, 0)
    (truth,) = Table([{X: -1.5, Y: 2.0}])(cancelled)
    assert truth is not None
    assert truth.value == 0


def test_no_truth_where_it_is_infinite_or_undefined() -> None:
    points = [{X: v} for v in (-1.0, 0.0, 1.0)]
    assert [t is None for t in Table(points)(make("log", X))] == [True, True, False]
    assert [t is None for t in Table(points)(1 / X)] == [False, True, False]
    assert [t is None for t in Table(points)(where(POSITIVE, X, ex.OO))] == [True, True, False]


@pytest.mark.parametrize(
    ("root", "point", "limit"),
    [
        (make("expm1", X) / X, {X: 0.0}, 1),
        ((make("exp", X) - make("exp", Y)) / (X - Y), {X: 1.5, Y: 1.5}, mp.exp(1.5)),
        (make("log1p", X**2) / X, {X: 0.0}, 0),
        (X / make("abs", X), {X: 0.0}, None),
        (X * Y / (X**2 + Y**2), {X: 0.0, Y: 0.0}, None),
        (X * make("log", X), {X: 0.0}, None),
        (make("log", X) / X, {X: 0.0}, None),
        (make("log", X), {X: -1.0}, None),
    ],
    ids=str,
)
def test_a_limit_is_what_all_sides_tend_to(root: Expr, point: Any, limit: Any) -> None:
    assert Table([point])(root) == [None]
    (truth,) = Table([point], limits=True)(root, [X])
    assert (truth is None) == (limit is None)
    if truth is not None:
        assert abs(truth.value - limit) < mp.mpf(2) ** -50
        assert truth.slopes.keys() == {X}


@pytest.mark.parametrize(
    ("root", "limit"),
    [(X * make("log", X), 0), (ex.power(X, ex.HALF) * make("log", X), 0), (make("log", X) / X, None)],
    ids=str,
)
def test_a_limit_at_an_end_of_a_domain_is_what_the_formula_tends_to_inside(root: Expr, limit: Any) -> None:
    (truth,) = Table([{X: 0.0}], limits=True, ends={X: [0.0]})(root, [X])
    assert (truth is None) == (limit is None)
    if truth is not None:
        assert abs(truth.value - limit) < mp.mpf(2) ** -50


def test_slopes_are_derivatives_in_size() -> None:
    (truth,) = Table([{X: 1.5, Y: -0.5}])(make("exp", X * Y), [X, Y])
    assert truth is not None
    expected = {X: 0.5 * math.exp(-0.75), Y: 1.5 * math.exp(-0.75)}
    for symbol, size in expected.items():
        assert float(truth.slopes[symbol]) == pytest.approx(size, rel=1e-6)


def test_a_truth_is_two_floats_and_the_power_of_two_above_it() -> None:
    tiny = Fraction(1, 2**70)
    cases = [
        (ex.num(Fraction(1, 3)) * X, Fraction(1, 3), -1),
        (X - ex.num(tiny), 1 - tiny, 0),
        (X + ex.num(tiny), 1 + tiny, 1),
        (make("sin", X) ** 2 + make("cos", X) ** 2, Fraction(1), 1),
        (X - 1, Fraction(0), 0),
    ]
    for root, expected, above in cases:
        (truth,) = Table([{X: 1.0}])(root)
        assert truth is not None
        high, low, exponent = truth.parts()
        assert abs(Fraction(high) + Fraction(low) - expected) <= expected / 2**100
        assert exponent == above


def test_values_as_floats_are_those_of_many_digits_and_nan_where_there_are_none() -> None:
    table = Table([{X: 1e-9}, {X: -1.0}, {X: 3.0}])
    found = table.floats(1 - make("cos", X) + make("log", X))
    assert found[0] == float(exact([1 - make("cos", X) + make("log", X)], {X: 1e-9}, 240)[0])
    assert math.isnan(found[1])
    assert math.isnan(table.floats(POSITIVE)[0])
    assert table.at([2])(X) == [3]
