"""Where not all gradients are wanted, no more is kept than by the composite, and the gradients are the same."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text, stored, subsets

from symgrad.ir.expr import make, symbol
from symgrad.plan.saving import Plan, Saved
from symgrad.plan.subsets import spared

LAYERS = "{x: {shape: [n, i]}, w: {shape: [o, i]}, v: {shape: [o, i]}}"


@pytest.mark.parametrize(
    ("tensors", "formula"),
    [
        ("{a: , b: , t: }", "a*exp(-b*t)*sin(t)"),
        ("{a: , b: , t: {grad: false}}", "a*exp(-b*t)*sin(t)"),
        ("{x: , y: }", "relu(1 - x*y)"),
        (
            "{a: {shape: [n, d]}, p: {shape: [n, d]}, q: {shape: [n, d]}}",
            "relu(norm(a-p, dim=-1) - norm(a-q, dim=-1) + 1)",
        ),
        ("{x: , y: , z: }", "relu(x*sigmoid(abs(y)) + z)"),
        ("{x: {shape: [n, d]}, w: {shape: [d]}}", "w*x*sigmoid(mean(w*x, dim=-1, keepdim=True))"),
        (LAYERS, "relu(x @ w.T)**2 @ v"),
    ],
)
def test_no_more_is_kept_in_both_ways_to_count(tensors: str, formula: str) -> None:
    item = compiled_text(f"\nop: some\ntensors: {tensors}\noutputs: {{o: '{formula}'}}\n")
    for wanted in subsets(item):
        tensors_ = item.tensors(wanted, dtype=torch.float32)
        own, plain = (stored(f, tensors_) for f in (item.function, item.composite))
        assert own[0] <= plain[0] or own[1] <= plain[1], (wanted, own, plain)


@pytest.mark.parametrize("formula", ["a*exp(-b*t)*sin(t)", "relu(a*sigmoid(abs(b)) + t)"])
def test_gradients_are_those_of_the_composite_whichever_are_wanted(formula: str) -> None:
    item = compiled_text(f"\nop: some\ntensors: {{a: , b: , t: }}\noutputs: {{o: '{formula}'}}\n")
    for wanted in subsets(item):
        tensors = item.tensors(wanted)
        inputs = [t for t in tensors if t.requires_grad]
        plain = [torch.autograd.grad(f(*tensors).sum(), inputs) for f in (item.function, item.composite)]
        torch.testing.assert_close(*plain)
        results = [f(*tensors).sin().sum() for f in (item.function, item.composite)]
        first = [torch.autograd.grad(y, inputs, create_graph=True) for y in results]
        second = [torch.autograd.grad(sum(g.sin().sum() for g in f), inputs) for f in first]
        torch.testing.assert_close(*first)
        torch.testing.assert_close(*second)


def test_no_product_is_repeated_for_one_gradient() -> None:
    tensors = "{x: {shape: [n, i]}, w: {shape: [o, i]}, b: {shape: [o]}}"
    item = compiled_text(f"\nop: some\ntensors: {tensors}\noutputs: {{o: 'tanh(2 * (x @ w.T) + b)'}}\n")
    ((_, variant),) = item.operation.variants()
    assert [s.without for s in variant.plan.extras] == [frozenset()]


def test_what_one_gradient_alone_does_without() -> None:
    """y*f(x)*g(x) wants both functions for y, of which the composite keeps the product."""
    x, y, g = symbol("x"), symbol("y"), symbol("grad", "cotangent")
    one, other = make("exp", x), make("lgamma", x)
    product = one * other
    saved = [Saved(v, "input", 4, "") for v in (x, y)] + [Saved(v, "intermediate", 4, "") for v in (one, other)]
    plan = Plan(tuple(saved), 16, 16, 1.0, 1.0)
    formulas = {"o": make("expand", product, x) * y}
    gradients = {y: [g * product], x: [g * y * (one + other)]}
    found = {s.value: s.without for s in spared(plan, formulas, gradients, frozenset()).saved if s.without}
    assert found == {one: frozenset({"y"})}  # exp is the cheaper one
    alone = {y: [g * product], x: [g * y]}
    assert spared(plan, formulas, alone, frozenset()) == plan  # nothing would be kept for anyone
    assert spared(plan, {"o": y + x}, {y: [g], x: [g]}, frozenset()) == plan
