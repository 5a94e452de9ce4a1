"""Running products and log-sum-exps have torch's derivatives, also where it has none that are finite or right."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from compiled import compiled_text
from derivatives import check, rand
from torch.utils._python_dispatch import TorchDispatchMode

from symgrad.targets.torch.runtime import _runtime as rt


@pytest.mark.parametrize("text", ["cumprod(x, dim=1)", "cumprod(sin(x), -2) * x", "logcumsumexp(3 * x, dim=0)"])
def test_derivatives_are_torchs(text: str) -> None:
    torch.manual_seed(0)
    check(text, {"x": rand(5, 3)})


def test_a_running_product_is_differentiated_at_zeros() -> None:
    x = torch.tensor([[2.0, 0.0, 3.0, -1.0], [0.0, 2.0, 0.0, 5.0]], dtype=torch.float64)
    check("cumprod(x, dim=-1)", {"x": x})


def test_a_running_log_sum_exp_neither_overflows_nor_loses_small_shares() -> None:
    spec = "{op: f, tensors: {x: }, outputs: {y: 'logcumsumexp(x, dim=-1)'}}"
    op = compiled_text(spec)
    x = torch.tensor([-2000.0, 900.0, -30.0, 935.0, 1e4], requires_grad=True)
    y = op.function(x)
    (found,) = torch.autograd.grad(y[3], x)
    exact = torch.tensor([0.0, -35.0, -965.0, 0.0, -torch.inf], dtype=torch.float64).exp()
    exact[0] = 0
    torch.testing.assert_close(y, x.detach().double().logcumsumexp(-1).float())
    torch.testing.assert_close(found.double(), exact / (1 + exact[1]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 9, 13])
def test_the_scan_is_the_recurrence_and_the_other_one_its_transposed(size: int) -> None:
    torch.manual_seed(0)
    a, b, g = rand(size, 2), rand(size, 2), rand(size, 2)
    steps: list[torch.Tensor] = []
    for k in range(size):
        steps.append(b[k] + (a[k] * steps[-1] if steps else 0))
    found = rt.scan(a, b, 0)
    torch.testing.assert_close(found, torch.stack(steps) if steps else b)
    torch.testing.assert_close((found * g).sum(), (b * rt.scan_back(a, g, 0)).sum())


def test_the_scan_takes_a_few_operations_for_each_element() -> None:
    """Not for each element times the steps, as where every step goes over all of them."""
    counted: list[int] = []

    class Counted(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = func(*args, **(kwargs or {}))
            written = found if isinstance(found, torch.Tensor) and not func.is_view else torch.empty(0)
            counted.append(written.numel())
            return found

    a, b = torch.rand(2, 4096)
    with Counted():
        rt.scan(a, b, 0)
    assert sum(counted) < 7 * 4096


def test_a_scan_over_the_middle_of_a_broadcast_operand_is_right() -> None:
    a, b = rand(3, 1, 2), rand(3, 5, 2)
    expected = torch.stack([rt.scan(a[k].expand(5, 2), b[k], 0) for k in range(3)])
    torch.testing.assert_close(rt.scan(a, b, 1), expected)
    torch.testing.assert_close(rt.scan(a, b, -2), expected)
