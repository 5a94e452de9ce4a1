"""Errors are found where they arise, not where they are seen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from random_expressions import ALPHA, X, Y

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Format
from symgrad.accuracy.localise import culprits, neighbourhood
from symgrad.accuracy.sample import Sample
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make


def blamed(form: Expr, values: Sequence[float], target: Format = FLOAT32, y: float = 1.3) -> list[Expr]:
    points = {t: [{X: t.round(v), Y: t.round(y), ALPHA: 0.3} for v in values] for t in (FLOAT32, FLOAT64)}
    return culprits(form, Sample(points), target, range(len(values)))


EXP_MINUS_1 = make("exp", X) - 1


@pytest.mark.parametrize("target", [FLOAT32, FLOAT64], ids=["float32", "float64"])
def test_the_difference_that_cancels_is_blamed(target: Format) -> None:
    assert blamed(EXP_MINUS_1, [1e-4], target) == [EXP_MINUS_1]
    assert blamed(EXP_MINUS_1 * make("cos", Y) + Y * 0, [1e-4], target)[0] is EXP_MINUS_1


def test_what_is_undefined_where_its_operands_are_not_is_blamed() -> None:
    quotient = make("expm1", X) / X
    assert blamed(ex.sqrt(quotient), [0.0])[0] is quotient


def test_what_passes_an_error_on_is_not_blamed() -> None:
    form = make("tanh", EXP_MINUS_1) / make("cosh", X)
    assert blamed(form, [1e-4]) == [EXP_MINUS_1]


def test_nothing_is_blamed_where_nothing_errs() -> None:
    assert blamed(EXP_MINUS_1, [2.0, 5.0]) == []
    assert blamed(make("expm1", X) * Y + make("sin", X), [1e-4, 0.5, 3.0]) == []
    assert blamed(EXP_MINUS_1, []) == []


def test_the_logarithm_beside_one_is_blamed_for_its_sum() -> None:
    total = 1 + X
    assert total in blamed(make("log", total), [1e-4]) or make("log", total) in blamed(make("log", total), [1e-4])


def test_an_operand_beyond_the_range_is_blamed() -> None:
    square = X**2
    found = blamed(square / (1 + square), [1e30])
    assert square in found
    assert found[0] in (square, 1 + square)
    assert blamed(square / (1 + square), [1e30], FLOAT64) == []
    underflow = make("exp", -X)
    assert underflow in blamed(make("log", underflow), [200.0])


def test_the_worst_comes_first() -> None:
    mild, bad = make("exp", X) - ex.num(3) / 2, make("cos", X) - 1
    found = blamed(mild * bad, [0.4, 0.01])
    assert found[0] is bad


def test_only_the_points_asked_for_count() -> None:
    points = {t: [{X: t.round(v)} for v in (1e-4, 3.0)] for t in (FLOAT32, FLOAT64)}
    sample = Sample(points)
    assert culprits(EXP_MINUS_1, sample, FLOAT32, [0]) == [EXP_MINUS_1]
    assert culprits(EXP_MINUS_1, sample, FLOAT32, [1]) == []


def test_scalars_conditions_and_choices_are_never_blamed() -> None:
    scalar = make("exp", ALPHA * ex.num(1) / 10**9) - 1
    condition = truth.compare("gt", EXP_MINUS_1, 0)
    form = truth.where(condition, X * scalar, Y)
    assert blamed(form, [1e-4]) == [EXP_MINUS_1]


def test_the_neighbourhood_is_operands_and_two_operations_above() -> None:
    inner = EXP_MINUS_1
    first, second, third = make("tanh", inner), make("sin", make("tanh", inner)), None
    third = make("atan", second)
    form = third * Y
    found = neighbourhood(form, [inner])
    assert {inner, make("exp", X), first, second} <= found
    assert third not in found
    assert form not in found
    assert X not in found
    assert neighbourhood(form, []) == frozenset()
