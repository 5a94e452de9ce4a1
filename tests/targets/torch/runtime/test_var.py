"""The variance by operations on whole vectors is torch's."""

from __future__ import annotations

import pytest
import torch

from symgrad.targets.torch.runtime import _runtime as rt


@pytest.mark.filterwarnings("ignore:var")  # degrees of freedom
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("correction", [0, 1, 3])
@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2), (1,)])
def test_the_variance_is_that_of_torch(dim, correction, keepdim):
    x = torch.randn(3, 2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    own = rt.var(x, dim, correction=correction, keepdim=keepdim)
    other = x.var(dim, correction=correction, keepdim=keepdim)
    torch.testing.assert_close(own, other, equal_nan=True)
    assert own.shape == other.shape
    if correction < 2:
        gradients = [torch.autograd.grad(v.sin().sum(), x)[0] for v in (own, other)]
        torch.testing.assert_close(*gradients, equal_nan=True)


def test_a_mean_that_is_large_beside_the_variance():
    x = 1e4 + torch.randn(1000, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(rt.var(x), x.double().var().float(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_squares_and_their_sum_do_not_overflow_in_half_precision(dtype):
    """That of 300 among zeros, and of 2000 numbers: both sums are above 65504."""
    few = torch.zeros(100).index_fill(0, torch.tensor([7]), 300)
    many = 50 + 10 * torch.randn(2000, generator=torch.Generator().manual_seed(0))
    for x in (few.to(dtype), many.to(dtype)):
        own = rt.var(x)
        assert own.dtype == dtype
        torch.testing.assert_close(own, x.double().var().to(dtype), rtol=torch.finfo(dtype).eps, atol=0)
