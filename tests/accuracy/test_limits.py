"""Accurate forms keep the limits at infinity that the formula has as it stands, and pay for nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from compiled import compiled_text

from symgrad.accuracy.evaluate import FLOAT64
from symgrad.accuracy.limits import Limits
from symgrad.accuracy.sampling import ALL_REALS, sample_points
from symgrad.ir.expr import Expr, make, symbol
from symgrad.spec.interval import Interval

X, Y = symbol("x"), symbol("y")
POSITIVE = Interval(0.0, math.inf, True, True)


def limits(formula: Expr, domain: Interval = ALL_REALS) -> Limits:
    return Limits(formula, sample_points(dict.fromkeys(formula.tensors, domain), {}, 200)[FLOAT64])


def finite(x: Expr) -> Expr:
    return make("finite", x)


def test_a_quotient_of_infinities_gets_its_limit() -> None:
    form = X / (1 + X)
    assert limits(1 - 1 / (1 + X), POSITIVE).kept(form) is finite(X) / (1 + finite(X))


def test_a_part_of_a_longer_sum_is_bounded_with_it() -> None:
    form = (X + 1 - Y) / (X + 1)
    assert limits(1 - Y / (X + 1)).kept(form) is (finite(X + 1) - Y) / finite(X + 1)


def test_a_form_that_has_its_limits_stays() -> None:
    for form in (X * X, make("tanh", X), 1 / (1 + X**2), make("exp", X) * Y):
        assert limits(form).kept(form) is form


def test_nothing_is_paid_where_the_formula_itself_is_no_number() -> None:
    form = X / (1 + X**2)  # infinity over infinity, though it vanishes
    assert limits(form).kept(form) is form


def test_infinities_outside_the_domain_do_not_matter() -> None:
    formula = 1 - 1 / (1 + X)
    assert limits(formula, Interval(0.0, 1.0, False, False)).kept(X / (1 + X)) is X / (1 + X)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("formula", ["sqrt(x**2 + 1) - 1", "log(1 + x**2)", "x - log1p(x)", "1 - 1 / (1 + abs(x))"])
def test_compiled_operations_are_numbers_where_the_composite_is(formula: str, dtype: torch.dtype) -> None:
    found = compiled_text(f"op: far\ntensors: {{x: }}\noutputs: {{y: '{formula}'}}\n")

    def results(f: Any) -> Iterator[torch.Tensor]:
        x = torch.tensor([math.inf, -math.inf, math.nan], dtype=dtype, requires_grad=True)
        y = f(x)
        yield y
        yield from torch.autograd.grad(y.sum(), x)

    for own, composite in zip(results(found.function), results(found.composite), strict=True):
        numbers = ~composite.isnan()
        torch.testing.assert_close(own[numbers], composite[numbers], rtol=1e-6, atol=1e-25)
        assert own[2].isnan()


def test_what_is_cut_off_has_no_gradient_beside_infinity_either() -> None:
    found = compiled_text("op: cut\ntensors: {x: , y: }\noutputs: {z: 'min(max(x, 0), 6) * y'}\n")
    x = torch.tensor([7.0, 3.0, -1.0], requires_grad=True)
    (slope,) = torch.autograd.grad(found.function(x, torch.full((3,), math.inf)).sum(), x)
    assert slope.tolist() == [0, math.inf, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_vanishes_meets_no_overflow(dtype: torch.dtype) -> None:
    """x * exp(x) and its like, in the derivative of a formula that is rational in one exponential."""
    found = compiled_text("op: far\ntensors: {x: }\noutputs: {y: x * tanh(log(1 + exp(x)))}\n")
    largest = torch.finfo(dtype).max
    x = torch.tensor([-largest, largest], dtype=dtype, requires_grad=True)
    assert torch.autograd.grad(found.function(x).sum(), x)[0].tolist() == pytest.approx([0, 1], abs=1e-6)
