"""Divisors that overflow have finite slopes, so that second derivatives are numbers."""

from __future__ import annotations

import pytest
import torch

import symgrad
from symgrad.accuracy.machine import machine
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological
from symgrad.lower.growth import BOUNDED, with_bounded_divisors

X, Y = symbol("x"), symbol("y")
COSH = make("cosh", X)


def bounded(*values: Expr, leaves: tuple[Expr, ...] = ()) -> int:
    lowered = machine([*values, *leaves])
    roots = with_bounded_divisors(lowered[: len(values)], frozenset(lowered[len(values) :]))
    return sum(n.op == BOUNDED for n in topological(*roots))


@pytest.mark.parametrize("value", [X / COSH, Y / (1 + COSH), Y / COSH**2, X / make("expm1", X)], ids=str)
def test_what_divides_alone_is_bounded(value: Expr) -> None:
    assert bounded(value) == 1


@pytest.mark.parametrize(
    "value", [COSH, X * COSH, COSH + Y / COSH, make("cosh", Y) / make("tanh", X), X / Y**COSH], ids=str
)
def test_what_is_read_otherwise_is_left_as_it_is(value: Expr) -> None:
    assert bounded(value) == 0


def test_what_is_there_already_is_not_computed_anew() -> None:
    assert bounded(X / COSH, leaves=(COSH,)) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "formula", ["x*tanh(x)", "x/cosh(x)", "x*coth(x)", "x/expm1(x)", "log(sinh(x)/x)", "tanh(x)**3"]
)
def test_second_derivatives_are_numbers_where_divisors_overflow(formula: str, dtype: torch.dtype) -> None:
    module = symgrad.load(f"{{op: f, tensors: {{x: }}, outputs: {{y: '{formula}'}}, options: {{kernels: none}}}}")
    x = torch.tensor([-900.0, -100.0, 100.0, 900.0], dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(module.f(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x)
    expected = 1 / x.detach() ** 2 if "log" in formula else torch.zeros_like(x)
    torch.testing.assert_close(second, expected, rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_second_derivatives_of_a_normal_probability_are_numbers_far_above(dtype: torch.dtype) -> None:
    """The scaled complementary error function, which grows like exp(x**2), divides there."""
    module = symgrad.load("{op: f, tensors: {x: }, outputs: {y: log_ndtr(x)}, options: {kernels: none}}")
    x = torch.tensor([-900.0, -2.0, 2.0, 14.0, 88.0, 900.0], dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(module.f(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x)
    torch.testing.assert_close(second[1:3], -slope[1:3].detach() * (x + slope).detach()[1:3], rtol=1e-5, atol=0)
    torch.testing.assert_close(second[3:], torch.zeros_like(second[3:]), rtol=0, atol=1e-30)
    assert slope[3:].abs().max() < 1e-30
