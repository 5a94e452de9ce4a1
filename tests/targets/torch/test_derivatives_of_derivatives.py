"""What a derivative is made of has derivatives too, also where torch knows none."""

from __future__ import annotations

from pathlib import Path

import mpmath as mp
import pytest
import torch
from compiled import compiled_text

from benchmarks.search.draw import Drawn
from benchmarks.search.made import Made
from symgrad.ops.functions import BY_AUTOGRAD, FUNCTIONS

_NAMES = sorted(name.removesuffix("_by_autograd") for name in {row.name for row in BY_AUTOGRAD.values()})


@pytest.mark.parametrize("name", _NAMES)
def test_second_derivatives_of_functions_that_torch_does_not_differentiate(name: str, tmp_path: Path) -> None:
    order = "2.5, " * FUNCTIONS[name].orders
    function = Made(Drawn(1, "pointwise", f"{name}({order}x)"), tmp_path, draft=True).function
    low, high = FUNCTIONS[name].sample
    x = torch.tensor([low + share * (high - low) for share in (0.2, 0.5, 0.7)], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(function, (x,), check_fwd_over_rev=True, fast_mode=True)


@pytest.mark.parametrize("domain", ["", "{domain: '(0, oo)'}"])
def test_an_angle_has_no_slope_at_the_origin_as_in_torch(domain: str) -> None:
    item = compiled_text(f"\nop: angle\ntensors: {{y: , x: {domain}}}\noutputs: {{z: '2*atan2(y, x)'}}\n")
    y, x = (torch.tensor([0.0, -0.0, 0.0, 1.0, 3e-30], requires_grad=True) for _ in range(2))
    if domain:
        assert "where" not in item.text.partition("def backward")[2]
        y, x = y[3:], x[3:]
    mine = torch.autograd.grad(item.function(y, x).sum(), (y, x))
    usual = torch.autograd.grad((2 * torch.atan2(y.double(), x.double())).sum(), (y, x))
    torch.testing.assert_close(mine, usual)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_derivatives_of_a_bessel_function_about_zero_are_those_of_its_series(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    function = Made(Drawn(1, "pointwise", "besselj(0, x)"), tmp_path, draft=True).function
    points = [0.0, 1e-30, -1e-25, 1e-10, 1e-4, 0.019, 0.021, -0.24, 0.26, 1.5]
    x = torch.tensor(points, dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x)
    tolerance = {torch.float32: 1e-4, torch.float64: 1e-6}[dtype]  # torch's own functions are off by 1e-8
    for n, found in ((1, slope), (2, second)):
        true = [float(mp.besselj(0, mp.mpf(v), derivative=n)) for v in x.tolist()]
        torch.testing.assert_close(found.double(), torch.tensor(true).double(), rtol=tolerance, atol=1e-12 + tolerance)
