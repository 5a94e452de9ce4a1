"""Of no elements a mean has a gradient of 0 in what they share, not 0 / 0."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text


def test_of_no_elements_a_mean_has_gradient_zero_in_what_they_share() -> None:
    body = "op: loss\ntensors: {x: {shape: [N, H]}, w: {shape: [H]}}\noutputs: {y: 'mean((x * w)**2)'}\n"
    w = torch.ones(3, requires_grad=True)
    (grad,) = torch.autograd.grad(compiled_text(body).function(torch.ones(0, 3), w), w)
    assert (grad == 0).all()


@pytest.mark.parametrize(
    "formula",
    [
        "mean(w * x)",
        "mean(w * x, dim=0)",
        "mean(w * x, dim=[0, 1], keepdim=True)",
        "mean(mean(tanh(x) * w, dim=1, keepdim=True), dim=0)",
        "var(w * x, dim=0, correction=0)",
    ],
)
def test_an_empty_batch_gives_parameters_a_gradient_of_zero(formula: str) -> None:
    """Of no elements a sum is 0, and 0 / 0 is no number."""
    item = compiled_text(
        f"{{op: f, tensors: {{x: {{shape: [N, C]}}, w: {{shape: [C]}}}}, outputs: {{y: '{formula}'}}}}"
    )
    x, w = torch.rand(0, 3, requires_grad=True), torch.rand(3, requires_grad=True)
    found, right = (torch.autograd.grad(f(x, w).sum(), (x, w)) for f in (item.function, item.composite))
    torch.testing.assert_close(found, right)
    assert not right[1].any()
