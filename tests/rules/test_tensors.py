"""Every rule about tensor operations fires where it should, keeps the value, and is stable where the formula is not."""

from __future__ import annotations

import math

import pytest
import torch
from compiled import compiled_text, results

from symgrad.rules import TENSORS

torch.manual_seed(0)
X = torch.randn(3, 4, dtype=torch.float64)

# A formula of x of shape [N, C], and the rules that it must fire.
FORMULAS = {
    "log(sum(exp(x), dim=-1))": {"log-sum-exp"},
    "log(sum(exp(x)))": {"log-sum-exp"},
    "log(mean(exp(x), dim=0))": {"log-sum-exp"},
    "log(softmax(x, dim=0))": {"log-sum-exp"},
    "log((softmax(x, dim=0) + softmax(-x, dim=0)) / 2)": {"log-mixture"},
    "log(softmax(x, dim=0) / 4 + 3 * softmax(-x, dim=0) / 4)": {"log-mixture"},
    "sum(entr(softmax(x, dim=-1)), dim=-1)": {"entropy"},
    "exp(x) / sum(exp(x), dim=-1, keepdim=True)": {"softmax"},
    "exp(x) / sum(exp(x), dim=-1)": {"softmax", "inner-unsqueeze"},
    "exp(2*x) / sum(exp(x), dim=-1, keepdim=True)": {"softmax"},
    "exp(x) / sum(exp(x))": {"softmax"},
    "softmax(x - amax(x, dim=-1, keepdim=True), dim=-1)": {"shift"},
    "softmax(x - detach(max(x, dim=-1, keepdim=True).values), dim=-1)": {"shift"},
    "log_softmax(2*x + 3*mean(2*x, dim=0, keepdim=True), dim=0)": {"shift"},
    "exp(x - amax(x, dim=-1)) / sum(exp(x - amax(x, dim=-1)), dim=-1)": {"softmax", "inner-unsqueeze", "shift"},
    "amax(x, dim=0, keepdim=True) + log(sum(exp(x - amax(x, dim=0, keepdim=True)), dim=0, keepdim=True))": {"shift"},
    "squeeze(amax(x, dim=-1, keepdim=True), -1) + log(sum(exp(x - amax(x, dim=-1)), dim=-1))": {"log-sum-exp"},
    "3*max(x, dim=-1)[0] + 3*log(sum(exp(x - unsqueeze(max(x, dim=-1)[0], -1)), dim=-1))": {"shift"},
    "x - amax(x, dim=-1, keepdim=True) - logsumexp(x - amax(x, dim=-1, keepdim=True), dim=-1)": {
        "shift",
        "log-softmax",
    },
    "exp(x) / sum(exp(x), dim=[0, 1], keepdim=True)": {"softmax"},
    "x - log(sum(exp(x), dim=-1, keepdim=True))": {"log-sum-exp", "log-softmax"},
    "x - logsumexp(x, dim=-1)": {"log-softmax"},
    "2*x - logsumexp(x, dim=1, keepdim=True)": set(),
    "sqrt(sum(x**2, dim=-1))": {"norm"},
    "x / sqrt(sum(x**2))": {"norm"},
    "mean(x**2, dim=0) - mean(x, dim=0)**2": {"variance"},
    "mean(x**2) - mean(x)**2 + 1": {"variance"},
    "x / log(1 + sum(x**2, dim=-1))": {"inner-unsqueeze"},
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_rule_fires_and_keeps_the_value(formula: str) -> None:
    item = compiled_text(f"op: ruled\ntensors: {{x: {{shape: [N, C]}}}}\noutputs: {{y: '{formula}'}}\n")
    ((_, variant),) = item.operation.variants()
    names = {rule.name for rule in TENSORS}
    assert {s.rule for s in variant.recognitions["y"]} & names >= FORMULAS[formula]
    x = X.clone().requires_grad_()
    (got,), (want,) = results(item.function(x)), results(item.composite(x))
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
    weights = torch.rand_like(got)
    pairs = [torch.autograd.grad((y * weights).sum(), x, create_graph=True)[0] for y in (got, want)]
    torch.testing.assert_close(*pairs, rtol=1e-10, atol=1e-13)
    assert torch.autograd.gradgradcheck(item.function, X.clone().requires_grad_(), fast_mode=True)


def test_every_rule_is_among_the_formulas() -> None:
    assert set().union(*FORMULAS.values()) == {rule.name for rule in TENSORS}


@pytest.mark.parametrize("formula", [f for f in FORMULAS if "exp(" in f])
def test_large_values_do_not_overflow(formula: str) -> None:
    item = compiled_text(f"op: ruled\ntensors: {{x: {{shape: [N, C]}}}}\noutputs: {{y: '{formula}'}}\n")
    for offset in (1e4, -1e4):
        if "2*x" in formula and offset > 0:
            continue  # exp(x) itself is beyond float32
        x = (X.float() + offset).requires_grad_()
        (y,) = results(item.function(x))
        (grad,) = torch.autograd.grad(y.sum(), x)
        assert y.isfinite().all()
        assert grad.isfinite().all()


def test_the_logarithm_of_a_mixture_of_vanishing_probabilities_is_finite() -> None:
    body = "op: ruled\ntensors: {x: , w: }\noutputs: {y: 'sum(log(softmax(x, dim=-1) + softmax(w, dim=-1)), dim=-1)'}\n"
    x, w = (torch.tensor([200.0, 0.0, -200.0], requires_grad=True) for _ in range(2))
    (y,) = results(compiled_text(body).function(x, w))
    torch.testing.assert_close(y.detach(), torch.tensor(3 * math.log(2) - 600))
    torch.testing.assert_close(torch.autograd.grad(y, (x, w)), (torch.tensor([-1.0, 0.5, 0.5]),) * 2)


def test_the_entropy_of_what_vanishes_or_is_masked_has_derivatives() -> None:
    text = "op: entropy\ntensors: {x: {shape: [N, C]}}\noutputs: {y: 'sum(entr(softmax(x, dim=-1)), dim=-1)'}\n"
    function = compiled_text(text).function
    x = torch.tensor([[-1e4, 0.0, 1.0], [-torch.inf, 0.5, 0.0], [0.0, 900.0, -900.0]], requires_grad=True)
    y = function(x)
    p = torch.softmax(x.detach().double(), dim=-1)
    assert torch.allclose(y.double(), torch.special.entr(p).sum(-1))
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    expected = torch.special.entr(p) - p * torch.special.entr(p).sum(-1, keepdim=True)
    assert torch.allclose(slope.double(), expected, atol=1e-6)
    (second,) = torch.autograd.grad(slope.sum(), x)
    assert second[[0, 2]].isfinite().all()


def test_a_norm_of_zero_has_gradient_zero() -> None:
    item = compiled_text("op: ruled\ntensors: {x: {shape: [N, C]}}\noutputs: {y: 'sqrt(sum(x**2, dim=-1))'}\n")
    x = torch.zeros(2, 3, requires_grad=True)
    (grad,) = torch.autograd.grad(item.function(x).sum(), x)
    assert (grad == 0).all()
