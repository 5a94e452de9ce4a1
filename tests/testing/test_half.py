"""Checks of half precision see what shows in some draws only."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from symgrad.testing import CHECKS, Input, Subject
from symgrad.testing.checks import run


def least(x: Any, w: Any) -> Any:
    return (3 * x + w).amin()


class Least(Function):
    """Computes in float32, and finds the place of the least in what half precision has rounded."""

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        wide = torch.promote_types(x.dtype, torch.float32)
        return least(x.to(wide), w.to(wide)).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, w = inputs
        ctx.save_for_backward(3 * x + w == output)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (equal,) = ctx.saved_tensors
        share = equal * grad / equal.sum()
        return 3 * share, share


def test_the_place_of_an_extremum_is_looked_for_in_draws_that_round() -> None:
    """Of the first draw the least is the same number however it is rounded."""
    subject = Subject(
        "least", Least.apply, least, (Input("x"), Input("w")), shapes=(((2, 3), (2, 3)),), pointwise=False
    )
    found = [f.sentence for f in run(CHECKS["half_precision"], subject)]
    assert any("the gradient of x in float16 as called is nan, in truth" in sentence for sentence in found), found
