"""A derivative is written so that autograd can differentiate it wherever it could the formula."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64
from symgrad.accuracy.sample import Sample
from symgrad.accuracy.smoothness import Smoothness
from symgrad.ir.expr import make, symbol

X = symbol("x")


def test_what_passes_through_infinity_has_no_derivative() -> None:
    formula, sample = X / (X**2 + 1), Sample({FLOAT64: [{X: 0.0}, {X: 1.5}]})
    smoothness = Smoothness(formula, sample)
    assert smoothness.is_lost(1 / (1 / X + X))
    assert not smoothness.is_lost(formula)
    assert not smoothness.is_lost(X / make("hypot", X, 1 + 0 * X) ** 2)
    assert not Smoothness(1 / X, sample).is_lost(X / X**2), "nor has the formula"
    assert not Smoothness(formula, Sample({FLOAT64: [{X: 1.5}]})).is_lost(1 / (1 / X + X))


def test_what_overflows_in_the_square_of_a_divisor_has_no_derivative_beside_a_large_tensor() -> None:
    points = [{X: v} for v in (-1e3, -1.5, 0.5, 2.0, 1e3)]
    slope, s = make("sigmoid", -X), make("sigmoid", X)
    smoothness = Smoothness(s * slope / (1 + s), Sample({FLOAT32: points, FLOAT64: points}))
    assert smoothness.is_lost_beside_large(slope / (1 / s + 1))
    assert not smoothness.is_lost_beside_large(slope * s / (1 + s))
    assert not Smoothness(s, Sample({FLOAT32: points[1:4], FLOAT64: points})).is_lost_beside_large(1 / (1 / s))


def test_second_derivatives_far_from_zero_are_numbers() -> None:
    """Smish: a divisor of 1/sigmoid(x) was as accurate, and its own derivative divided by the square."""
    item = compiled_text("op: f\ntensors: {x: }\noutputs: {y: x * tanh(log(1 + sigmoid(x)))}\n")
    x = torch.tensor([-30.0, -60.0, -80.0, -100.0, 60.0, 100.0], requires_grad=True)
    (first,) = torch.autograd.grad(item.function(x).sum(), x, create_graph=True)
    (found,) = torch.autograd.grad(first.sum(), x)
    assert found.isfinite().all()
    wide = x.detach().double().requires_grad_()
    (first,) = torch.autograd.grad(item.composite(wide).sum(), wide, create_graph=True)
    (true,) = torch.autograd.grad(first.sum(), wide)
    torch.testing.assert_close(found.double()[:2], true[:2], rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("formula", "second"),
    [("a * log1p(x**2)", 2.0), ("a * log(1 + x**2) + 0*b", 2.0), ("log(a*x**2 + a*b + b)", 1.0), ("log1p(x**2)", 2.0)],
)
def test_logarithms_of_squares_have_second_derivatives_at_zero(formula: str, second: float) -> None:
    names = [n for n in ("x", "a", "b") if n in formula.replace("log1p", "")]
    declared = ", ".join(f"{n}: {{domain: '(0, oo)'}}" if n != "x" else "x: " for n in names)
    item = compiled_text(f"op: f\ntensors: {{{declared}}}\noutputs: {{y: '{formula}'}}\n")
    values = {"x": torch.zeros(3, dtype=torch.float64, requires_grad=True)}
    values |= {"a": torch.ones(3, dtype=torch.float64), "b": torch.ones(3, dtype=torch.float64)}
    x = values["x"]
    (first,) = torch.autograd.grad(item.function(*(values[n] for n in names)).sum(), x, create_graph=True)
    (found,) = torch.autograd.grad(first.sum(), x)
    assert found.tolist() == pytest.approx([second] * 3)


@pytest.mark.parametrize(
    "formula",
    [
        "n**2 / (1 + h * n**2)",
        "n**2 / (n**2 + h**2) * h**2",
        "n * h / (n**2 + h**2)",
        "n**3 / (h**3 + n**3)",
        "h * n**2 / (h + n**2)",
    ],
)
def test_quotients_of_powers_have_second_derivatives_at_zero(formula: str) -> None:
    """Written over 1 / n**2, or as another value that is, they have none; h is not 0."""
    item = compiled_text(f"op: f\ntensors: {{n: , h: }}\noutputs: {{y: '{formula}'}}\n")
    second: list[torch.Tensor] = []
    for function in (item.function, item.composite):
        n = torch.tensor([0.0, 0.0, 0.0, 1.5], dtype=torch.float64, requires_grad=True)
        h = torch.tensor([0.3, 1.7, 20.0, 0.4], dtype=torch.float64, requires_grad=True)
        first = torch.autograd.grad(function(n, h).sum(), (n, h), create_graph=True)
        second += [torch.stack(torch.autograd.grad(0.3 * first[0].sum() + first[1].sum(), (n, h)))]
    torch.testing.assert_close(*second)


def test_what_a_sum_of_a_gradient_reads_can_be_differentiated() -> None:
    """The loss of Bayesian personalised ranking: its quotient by a sigmoid squares it, in the sum of a row, too."""
    shapes = "p: {shape: [B]}, q: {shape: [B, K]}"
    item = compiled_text(
        f"op: f\ntensors: {{{shapes}}}\noutputs: {{y: '-mean(log(sigmoid(p[:, None] - q) + 1e-10))'}}\n"
    )
    p = torch.tensor([-120.0, -80.0, -50.0, -20.0, 3.0], requires_grad=True)
    second: list[torch.Tensor] = []
    for function in (item.function, item.composite):
        (first,) = torch.autograd.grad(function(p, torch.zeros(5, 1)), p, create_graph=True)
        second += torch.autograd.grad(first.sum(), p)
    torch.testing.assert_close(*second, rtol=1e-4, atol=1e-30)


def test_where_many_forms_have_no_second_derivative_one_is_taken_that_has() -> None:
    """The distance on a sphere of two points of one meridian: written over the sine of no difference it is NaN."""
    item = compiled_text(
        "op: f\ntensors: {a: , b: , c: , d: }\n"
        "let: {h: sin((c - a) / 2)**2 + cos(a) * cos(c) * sin((d - b) / 2)**2}\noutputs: {y: 2 * asin(sqrt(h))}\n"
    )
    second: list[torch.Tensor] = []
    for function in (item.function, item.composite):
        points = [torch.tensor([v], dtype=torch.float64, requires_grad=True) for v in (0.8, 0.1, 0.9, 0.1)]
        first = torch.autograd.grad(function(*points), points, create_graph=True)
        second.append(torch.stack(torch.autograd.grad(sum(g * (k + 1) for k, g in enumerate(first)), points)))
    torch.testing.assert_close(*second)
