"""What a sample does not show is found at ordinary points: a form that errs there is not kept."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from compiled import compiled_text
from torch.nn import functional as F

from symgrad.accuracy.counterexamples import counterexamples, ordinary_points
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64
from symgrad.accuracy.measure import Judge
from symgrad.accuracy.sample import Sample
from symgrad.accuracy.sampling import ALL_REALS
from symgrad.ir import truth
from symgrad.ir.expr import make, num, symbol

A, B, K = (symbol(n, "tensor") for n in "abk")
RANGES = dict.fromkeys((A, B), ALL_REALS)
WRITTEN = make("logaddexp", A, B)
NAIVE = make("log", make("exp", A) + make("exp", B))  # overflows and vanishes beyond 90
FEW = {target: [{A: 0.5, B: -0.75}, {A: 2.0, B: 1.0}] for target in (FLOAT32, FLOAT64)}


def test_a_form_that_its_sample_finds_accurate_is_shown_to_err() -> None:
    judge = Judge(WRITTEN, Sample(FEW))
    assert judge.score(NAIVE, FLOAT32).good
    more = counterexamples(judge, NAIVE, False, ordinary_points(WRITTEN, RANGES, {}), RANGES)
    assert more is not None and more.points[FLOAT32][:2] == FEW[FLOAT32]
    assert Judge(WRITTEN, more).score(NAIVE, FLOAT32).nonfinite and Judge(WRITTEN, more).score(NAIVE, FLOAT64).nonfinite


def test_an_accurate_form_has_no_counterexample() -> None:
    points = ordinary_points(WRITTEN, RANGES, {})
    other = make("maximum", A, B) + make("softplus", -make("abs", A - B))
    assert counterexamples(Judge(WRITTEN, Sample(FEW)), other, False, points, RANGES) is None


def test_the_conditioning_of_a_formula_is_no_counterexample() -> None:
    formula = make("sin", A * B)
    points = ordinary_points(formula, RANGES, {})
    same = 2 * make("sin", A * B / 2) * make("cos", A * B / 2)
    assert counterexamples(Judge(formula, Sample(FEW)), same, False, points, RANGES) is None


def test_what_cancels_in_the_formula_as_well_is_no_reason_for_float64() -> None:
    steps = ", ".join(f"h{k + 1}: 'tanh(h{k} * w + {k + 1}) + sin(h{k}) * w'" for k in range(6))
    given = f"{{op: f, tensors: {{x: , w: }}, let: {{h0: x, {steps}}}, outputs: {{y: h6}}, options: {{kernels: none}}}}"
    ((_, variant),) = compiled_text(given).operation.variants()
    assert not any(choice.chosen.wide for choice in variant.slope_choices.values())


def test_each_branch_of_a_rare_choice_gets_as_many_points() -> None:
    rare = truth.compare("lt", make("abs", K - num(3)), num(Fraction(1, 2)))
    formula = truth.where(rare, make("exp", A), A)
    points = ordinary_points(formula, {**RANGES, K: ALL_REALS}, {})
    taken = sum(abs(p[K] - 3) < 0.5 for p in points)
    assert 60 <= taken <= len(points) / 2


ZERO_INFLATED = """
op: zero_inflated
tensors: {logit: , lograte: , k: {grad: false, domain: "[0, oo)"}}
let:
  rate: exp(lograte)
  zero: logaddexp(logsigmoid(logit), logsigmoid(-logit) - rate)
  pos: logsigmoid(-logit) + k*lograte - rate - lgamma(k + 1)
outputs: {nll: "-where(k < 0.5, zero, pos)"}
"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_large_arguments_in_one_branch_are_no_blind_spot(dtype: torch.dtype) -> None:
    """It was infinite at a logit of -20 and a rate of 20, where the formula as written is 19."""
    logits, logs = torch.tensor([-200.0, -60, -30, -20, -3, 0, 3, 20]), torch.tensor([-10.0, 0, 3, 3.5, 5])
    pairs = torch.cartesian_prod(logits, logs)
    logit, lograte = pairs.to(dtype).T.contiguous().requires_grad_().unbind()
    nll = compiled_text(ZERO_INFLATED).function(logit, lograte, torch.zeros(len(pairs), dtype=dtype))
    own = torch.autograd.grad(nll.sum(), (logit, lograte))
    a, b = (v.detach().double().requires_grad_() for v in (logit, lograte))
    wanted = -torch.logaddexp(F.logsigmoid(a), F.logsigmoid(-a) - b.exp())
    true = torch.autograd.grad(wanted.sum(), (a, b))
    for got, want in zip((nll, *own), (wanted, *true), strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-9)


SOFT_CORE = """
op: soft_core
tensors: {r: {domain: "[0, oo)"}, lam: {domain: "[0, 1]"}}
hyperparameters: {eps: 1.0, sigma: 1.0, alpha: 0.5}
let: {d: alpha * (1 - lam) + (r / sigma)**6}
outputs: {e: 4 * eps * lam * (1 / d**2 - 1 / d)}
"""


@pytest.mark.parametrize("sigma", [1.0, 3.4, 300.0])
def test_a_form_without_digits_is_not_taken_for_a_few_points_where_others_are_not_finite(sigma: float) -> None:
    """It was multiplied out, to powers of 18 of what is subtracted then."""
    r = torch.tensor([0.3, 0.9, 1.0, 1.1, 3.0]) * sigma
    pairs = torch.cartesian_prod(r, torch.tensor([0.5, 0.99, 0.9999]))
    item, wide = compiled_text(SOFT_CORE), pairs.double().T.contiguous().requires_grad_()
    narrow = pairs.T.contiguous().requires_grad_()
    (own,) = torch.autograd.grad(item.function(*narrow, sigma=sigma).sum(), narrow)
    (true,) = torch.autograd.grad(item.composite(*wide, 1.0, sigma, 0.5).sum(), wide)
    torch.testing.assert_close(own.double(), true, rtol=1e-3, atol=1e-9)
