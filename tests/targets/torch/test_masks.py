"""Masks are of what forward compared before it was rounded: gradients in half precision are those of wide numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

import symgrad

FORMULAS = {
    "largest": "amax(x + w + 1/3, dim=-1)",
    "least": "amin(exp(x) + w, dim=-1)",
    "least_of_all": "amin(x*3 + w)",
    "kept": "amin(x*x + w, dim=-1, keepdim=True) * 1",
    "beside": "amax(x + w/3, dim=-1, keepdim=True) + x",
    "twice": "amax(x - amax(x, dim=-1, keepdim=True)/3 + w, dim=-1)",
    "of_sums": "amax(cumsum(x + w/3, dim=-1), dim=-1)",
    "of_relu": "amax(relu(x + w/3), dim=-1)",
    "of_size": "norm(exp(x)/3 + w, p=oo, dim=-1)",
    "of_two": "maximum(x + w/3, w + x/7)",
    "clamped": "clamp(exp(x)/3 + w/7, -1, 1/3)",
    "chosen": "where(exp(6*x) < exp(6*w) + 70000, x, w)",
}
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def _results(function: Any, x: Tensor, w: Tensor) -> list[Tensor]:
    """The gradients, those of them that may be differentiated again, and the tangents along each input."""
    arguments = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = function(*arguments)
    cotangent = torch.linspace(0.5, 1.5, y.numel(), dtype=torch.float64).reshape(y.shape).to(y.dtype)
    found = [*torch.autograd.grad(y, arguments, cotangent, retain_graph=True)]
    found += torch.autograd.grad(y, arguments, cotangent, create_graph=True)
    for k in range(2):
        with forward_ad.dual_level():
            given = [forward_ad.make_dual(t, torch.ones_like(t)) if i == k else t for i, t in enumerate((x, w))]
            found.append(forward_ad.unpack_dual(function(*given)).tangent)
    return [t.detach().double() for t in found]


@pytest.mark.parametrize("save", ["auto", "memory"])
@pytest.mark.parametrize("name", FORMULAS)
def test_the_extremum_is_that_of_what_was_computed(name: str, save: str) -> None:
    shaped = {n: {"shape": ["B", "N"]} for n in "xw"}
    operation = symgrad.op(name, y=FORMULAS[name], tensors=shaped, options={"kernels": "none", "save": save})
    for first, second in [*((d, d) for d in DTYPES), (torch.bfloat16, torch.float32), (torch.float16, torch.bfloat16)]:
        torch.manual_seed(0)
        x, w = torch.randn(96, 16).to(first), torch.randn(96, 16).to(second)
        tolerance = 2 * torch.finfo(torch.promote_types(first, second)).eps if first == second else 0.02
        for found, true in zip(_results(operation, x, w), _results(operation, x.double(), w.double()), strict=True):
            assert (found - true).abs().max() <= 4 * tolerance * true.abs().max(), (name, first, second)
