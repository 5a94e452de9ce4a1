"""Samples reach both sides of comparisons where that is easy; where it is not, nothing is said of a right formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from symgrad.testing import CHECKS, Input, Subject, branches
from symgrad.testing.checks import run


def small_rows(w: Tensor, v: Tensor) -> Tensor:
    t = torch.linalg.vector_norm(w, dim=-1, keepdim=True)
    safe = torch.where(t < 1e-4, 1, t)
    c = torch.where(t < 1e-4, 1 / 2 - t**2 / 24, (1 - torch.cos(safe)) / safe**2)
    return v + c * w * (w * v).sum(-1, keepdim=True)


def far_away(x: Tensor) -> Tensor:
    return torch.where(x.sum(-1) > 1e9, x.sum(-1) ** 2, x.sin().sum(-1))


def of_rows(formula: Any, *names: str) -> Subject:
    inputs = tuple(Input(name) for name in names)
    rows = ((3, 3),) * len(names)
    return Subject("of_rows", formula, formula, inputs, shapes=(rows,), pointwise=False)


@pytest.mark.parametrize("subject", [of_rows(small_rows, "w", "v"), of_rows(far_away, "x")])
def test_a_right_formula_passes_whose_samples_are_all_on_one_side(subject: Subject) -> None:
    assert not run(CHECKS["every_branch"], subject)


def test_a_comparison_with_one_side_is_reached_by_one_tensor_alone() -> None:
    def formula(w: Tensor, v: Tensor) -> Tensor:
        return torch.where(w.sum(-1) - v.sum(-1) > 50, w.sum(-1) ** 2, v.sum(-1))

    subject = of_rows(formula, "w", "v")
    sampled = [tensors for _, tensors in branches.samples(subject, {})]
    assert not any((w.sum(-1) - v.sum(-1) > 50).any() for w, v in sampled)
    further = [tensors for _, tensors in branches.reached(subject, {}, sampled)]
    assert len(further) == 1
    assert all((w.sum(-1) - v.sum(-1) > 50).any() for w, v in further)


@pytest.mark.parametrize(("low", "sides"), [(0.85, {False, True}), (0.93, {False})])
def test_points_are_reached_by_steps_inside_of_the_domain(low: float, sides: set[bool]) -> None:
    def formula(x: Tensor) -> Tensor:
        return torch.where(x.sum(-1) < 2.75, x.sum(-1) ** 2, x.sum(-1))

    inputs = (Input("x", low=0.94, high=0.97, domain=(low, 1.6)),)
    subject = Subject("near", formula, formula, inputs, shapes=(((2, 3),),), pointwise=False)
    sampled = [tensors for _, tensors in branches.samples(subject, {})]
    found = [*sampled, *(tensors for _, tensors in branches.reached(subject, {}, sampled))]
    assert all(bool((x > low).all()) for (x,) in found)
    assert {bool(side) for (x,) in found for side in x.sum(-1) < 2.75} == sides


class Rising(torch.autograd.Function):
    """The square of a sum beyond a threshold, the sum below; forward mode compares with `BOUND`."""

    BOUND = 50.0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return rising(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        total = x.sum(-1, keepdim=True)
        return (grad.unsqueeze(-1) * torch.where(total > 50, 2 * total, 1)).expand_as(x)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        total = x.sum(-1)
        return torch.where(total > Rising.BOUND, 2 * total, 1) * tangent.sum(-1)


def rising(x: Tensor) -> Tensor:
    total = x.sum(-1)
    return torch.where(total > 50, total**2, total)


def test_a_comparison_that_is_wrong_in_forward_mode_alone_is_found_far_from_what_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subject = Subject("rising", Rising.apply, rising, (Input("x"),), shapes=(((2, 3),),), pointwise=False)
    assert not run(CHECKS["every_branch"], subject)
    monkeypatch.setattr(Rising, "BOUND", 1e9)
    assert any("the tangent is" in f.sentence for f in run(CHECKS["every_branch"], subject))
