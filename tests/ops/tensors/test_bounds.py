"""Slices whose bounds are hyperparameters, against Python's own slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from compiled import compiled_text
from torch import Tensor

TEXT = """op: f
tensors: {{x: {{shape: [N, C]}}}}
hyperparameters: {{k: {{type: int, default: 1}}}}
outputs: {{y: "{}"}}
test: {{values: {{k: [1, 2]}}, shapes: {{x: [3, 5]}}}}
"""
FORMULAS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "sin(x[:, :k])": lambda x, k: x[:, :k].sin(),
    "x[:, k:]**2": lambda x, k: x[:, k:] ** 2,
    "x[..., -k:]**2": lambda x, k: x[..., -k:] ** 2,
    "exp(x[:-k])": lambda x, k: x[:-k].exp(),
    "x[:, k:2*k+1]**3": lambda x, k: x[:, k : 2 * k + 1] ** 3,
    "x[1:, k - 3:]**2": lambda x, k: x[1:, k - 3 :] ** 2,
    "x[:, k:C - 1] * x[:, 1:C - k]": lambda x, k: x[:, k : x.shape[1] - 1] * x[:, 1 : x.shape[1] - k],
    "cat([x[:, k:], x[:, :k]], dim=-1) * x": lambda x, k: torch.cat([x[:, k:], x[:, :k]], -1) * x,
    "(x[:, k:] - x[:, :-k])**2": lambda x, k: (x[:, k:] - x[:, :-k]) ** 2,
}


def call(formula: str) -> Any:
    module: Any = compiled_text(TEXT.format(formula)).module
    return module.f


@pytest.mark.parametrize(("formula", "plain"), FORMULAS.items(), ids=list(FORMULAS))
def test_values_and_derivatives_are_those_of_slices(formula: str, plain: Callable[[Tensor, int], Tensor]) -> None:
    f = call(formula)
    for k in (1, 2):
        x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
        torch.testing.assert_close(f(x, k=k), plain(x, k), rtol=1e-9, atol=0)
        found, want = (torch.autograd.grad(y.square().sum(), x)[0] for y in (f(x, k=k), plain(x, k)))
        torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-12)

        def own(x: Tensor, k: int = k) -> Any:
            return f(x, k=k)

        assert torch.autograd.gradcheck(own, (x,), check_forward_ad=True, check_batched_grad=True)
        assert torch.autograd.gradgradcheck(own, (x,))


def test_minus_zero_is_the_start_as_in_python() -> None:
    x = torch.randn(2, 3)
    assert torch.equal(call("x[..., -k:]**2")(x, k=0), x**2)
    assert call("sin(x[..., :-k])")(x, k=0).shape == (2, 0)


@pytest.mark.parametrize(("formula", "k"), [("sin(x[:, :k])", 4), ("x[:, k:]**2", 4), ("x[:, k:2*k+1]**3", 2)])
def test_bounds_beyond_the_dimension_are_refused_at_the_call(formula: str, k: int) -> None:
    with pytest.raises(ValueError, match="a dimension of size 3 has no slice"):
        call(formula)(torch.randn(2, 3), k=k)


def test_gradients_of_what_has_equal_sizes_are_not_summed() -> None:
    """A size that a bound gives is known: two slices between the same bounds cannot broadcast."""
    text = compiled_text(TEXT.format("(x[:, k:] - x[:, :-k])**2")).text
    assert "sum_to_size" not in text
