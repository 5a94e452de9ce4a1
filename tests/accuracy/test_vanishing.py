"""Where a sum of the formula is 0, a form is 0 as well, and not what rounding left."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from compiled import compiled_text

from symgrad.accuracy.evaluate import FLOAT32
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.simulate import Simulation
from symgrad.accuracy.vanishing import divided_first, nearly_equal, sums_vanish, ties
from symgrad.ir.expr import make, symbol
from symgrad.ir.truth import compare

X, S, M = (symbol(n, "tensor") for n in "xsm")
NEAR = [{X: 0.3, S: 1.7, M: 0.9}, {X: 5.1, S: 0.2, M: 3.3}, {X: 20.0, S: 30.0, M: 0.11}]
EXTREME = [{X: 1e-30, S: 1e30, M: 1e3}, {X: 1e30, S: 1e-30, M: 1e-3}]


def test_sums_are_exactly_zero_at_the_points() -> None:
    total = M**2 - S
    points = sums_vanish(make("exp", X) / total, [*NEAR, *EXTREME], NEAR)
    solved = [v for v in Simulation(points, FLOAT32)(machine_form(total)) if v == 0]
    assert len(solved) >= 4 and any(p[X] == FLOAT32.round(1.2345e-4) for p in points)
    assert sums_vanish(total, [], []) == []


def test_no_variable_leaves_its_range() -> None:
    inside = [{X: 0.5, S: 0.25, M: 0.75}, {X: 0.9, S: 0.3, M: 0.8}]
    points = sums_vanish(X - 4 + M, inside, inside)
    assert all(0.5 <= p[X] <= 0.9 and 0.75 <= p[M] <= 0.8 for p in points)


def test_a_difference_is_small_beside_both_tensors_and_exact() -> None:
    points = nearly_equal(make("exp", M * (X - S)), [*NEAR, *EXTREME], NEAR)
    assert max(p[X] for p in points) > 1e9
    assert len(points) == 8
    assert all(0 < abs(FLOAT32.round(p[X] - p[S])) == abs(p[X] - p[S]) < 1e-5 * abs(p[X]) for p in points)
    assert nearly_equal(X + S, [*NEAR, *EXTREME], NEAR) == [] == nearly_equal(X - S, NEAR, [])
    inside = [{X: 0.4, S: 0.25}, {X: 0.9, S: 0.8}]
    assert all(0.4 <= p[X] <= 0.9 and 0.25 <= p[S] <= 0.8 for p in nearly_equal(X - S, inside, inside))


def test_a_sum_is_divided_by_everything_or_by_one_thing_before_it_is_multiplied() -> None:
    difference, others = X - S, (S, X + M)
    found = {frozenset(form.factors) for form in divided_first(M * difference / S / (X + M))}
    assert found == {
        frozenset({M, make("held", difference / S / (X + M))}),
        *(frozenset({M, make("held", difference / d), 1 / (others[1 - k])}) for k, d in enumerate(others)),
    }
    assert list(divided_first(M * (X - S))) == [] == list(divided_first((X - S) / M))
    b = symbol("b", "float")  # Adam's correction of its bias: a number of Python is what it is
    assert list(divided_first(M * (1 - b) / (1 - b**5))) == []


AT_A_DIFFERENCE = [
    "v * (t - s) / k",
    "w + v * (t - s) / k",
    "v * (t - s)**2 / k",
    "v * (t - s) / (k + (t - s))",
    "v * exp(-(t - s)**2 / k) + w",
    "v / (w + (t - s) / k)",
    "log(1 + (t - s) / k) * v",
    "w + v * (t - s) / k + (t - s)**2 / 2",
    "w * t / (w * t - (w - k)) + s * v",
]


@pytest.mark.parametrize("formula", AT_A_DIFFERENCE)
def test_what_a_small_difference_has_of_digits_stays(formula: str) -> None:
    """It is exact, and its parts divided apart are not."""
    tensors = "{v: , t: , s: , w: , k: {domain: '(0, oo)'}}"
    item = compiled_text(f"op: f\ntensors: {tensors}\noutputs: {{y: '{formula} + 0*w*s'}}\n")
    for level in (300.0, 1e4, 1e6, 1.7e9):
        values = [torch.tensor(x) for x in (1.5, level * (1 + 2.0**-18), level, 0.7, 0.3)]
        found, composite, true = (
            [y.detach(), *torch.autograd.grad(y, given, materialize_grads=True)]
            for call, dtype in ((item.function, None), (item.composite, None), (item.composite, torch.float64))
            for given in [[x.to(dtype or x.dtype).requires_grad_() for x in values]]
            for y in [call(*given)]
        )
        for own, theirs, right in zip(found, composite, true, strict=True):
            assert (own - right).abs() <= 1e-5 * right.abs() + 10 * (theirs - right).abs()


def test_both_sides_of_a_comparison_are_equal_at_ties() -> None:
    sides = X + S, M
    points = ties(make("where", compare("gt", *sides), X, M**2), [*NEAR, *EXTREME], NEAR)
    assert len(points) >= 3 and all(p[X] + p[S] == p[M] for p in points)
    assert ties(X + S - M, NEAR, NEAR) == []


@pytest.mark.parametrize("formula", ["a * sin(x + s - max(x + s, k))", "a * exp(x - max(x, k - s))", "a * min(x*s, k)"])
def test_each_side_of_an_extremum_has_half_of_the_gradient_where_both_are_equal(formula: str) -> None:
    item = compiled_text(f"{{op: f, tensors: {{a: , x: , s: , k: }}, outputs: {{y: '{formula}'}}}}")
    a, x, s = (torch.tensor(v, requires_grad=True) for v in (2.0, 3.0, 1.5))
    k = (x * s if "x*s" in formula else x + s).detach().requires_grad_()
    found, right = (torch.autograd.grad(f(a, x, s, k), (a, x, s, k)) for f in (item.function, item.composite))
    torch.testing.assert_close(found, right)


@pytest.mark.parametrize(
    "formula", ["x * (1 - a)**arange(T)", "where(arange(T) >= 1, x * (1 - a)**max(arange(T) - 1, 0), 0)"]
)
def test_a_power_of_zero_with_the_exponent_zero_is_one(formula: str) -> None:
    """Not the exponential of 0 * log(0), which is more accurate elsewhere."""
    shapes = 'x: {shape: [B, T]}, a: {shape: [], domain: "[0, 1]"}'
    item = compiled_text(f"op: f\ntensors: {{{shapes}}}\noutputs: {{y: '{formula}'}}\n")
    x, a = torch.rand(2, 3), torch.ones(())
    torch.testing.assert_close(item.function(x, a), item.composite(x, a))


DENSITIES = {
    "(2 * a - 1) * log(x) - a / b * x**2": ("0.5", lambda x, a, b: (2 * a - 1) * x.log() - a / b * x**2),
    "log(a / b) + (a - 1) * log(x / b) - (x / b)**a": (
        "1",
        lambda x, a, b: (a / b).log() + (a - 1) * (x / b).log() - (x / b) ** a,
    ),
    "(a - 1) * log(x) - (a + b) * log(1 + x)": ("1", lambda x, a, b: (a - 1) * x.log() - (a + b) * (1 + x).log()),
}


@pytest.mark.parametrize("formula", DENSITIES)
def test_a_coefficient_that_is_zero_leaves_no_noise(formula: str) -> None:
    shape, written = DENSITIES[formula]
    tensors = ", ".join(f'{n}: {{domain: "(0, oo)"}}' for n in "xab")
    item = compiled_text(f'op: f\ntensors: {{{tensors}}}\noutputs: {{y: "{formula}"}}\n')
    x = torch.tensor([1e-2, 1e-3, 1e-5, 0.4, 7.0])
    results: list[Any] = []
    for function, dtype in ((item.function, torch.float32), (written, torch.float64)):
        leaf = x.to(dtype).requires_grad_()
        settings = (torch.full_like(leaf, float(shape)).detach(), torch.full_like(leaf, 0.7).detach())
        (slope,) = torch.autograd.grad(function(leaf, *settings).sum(), leaf)
        results.append(slope)
    torch.testing.assert_close(results[0].double(), results[1], rtol=2e-6, atol=0)


def test_second_derivatives_are_numbers_where_a_sum_is_zero() -> None:
    tensors = ", ".join(f'{n}: {{domain: "(0, oo)"}}' for n in "smg")
    item = compiled_text(f'op: f\ntensors: {{{tensors}}}\noutputs: {{y: "atan2(m * g, m**2 - s)"}}\n')
    given = [torch.tensor([v], requires_grad=True) for v in (1.0, 1.0, 0.5)]
    seconds = []
    for f in (item.function, item.composite):
        slopes = torch.autograd.grad(f(*given).sum(), given, create_graph=True)
        seconds.append(torch.autograd.grad(torch.stack(slopes).sum(), given))
    torch.testing.assert_close(*seconds)


def test_a_derivative_that_is_divided_first_is_computed_so() -> None:
    """Of the frequency in Planck's law: its square leaves the range of float32 where the quotient does not."""
    tensors = "nu: {domain: '(0, oo)'}, t: {domain: '(0, oo)'}"
    item = compiled_text(f"op: f\ntensors: {{{tensors}}}\noutputs: {{y: 2 * nu**3 / (exp(nu / t) - 1)}}\n")
    nu, t = torch.tensor(1e-30, requires_grad=True), torch.tensor(0.5)
    torch.testing.assert_close(torch.autograd.grad(item.function(nu, t), nu)[0], torch.tensor(2e-30), rtol=1e-5, atol=0)


def test_nothing_is_widened_that_divides_first() -> None:
    item = compiled_text("op: f\ntensors: {v: , t: , s: , k: {domain: '(0, oo)'}}\noutputs: {y: v * (t - s) / k}\n")
    for _, variant in item.operation.variants():
        assert not variant.wide_values and not variant.wide_slopes and not variant.wide_alone
