"""Transposed convolutions and pools against torch's own operations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from derivatives import check, rand

SHAPES = {1: (2, 4, 7), 2: (2, 4, 5, 6), 3: (1, 2, 4, 3, 4)}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize(
    "how",
    [{}, {"stride": 2, "padding": 1}, {"stride": 2, "output_padding": 1}, {"dilation": 2}, {"groups": 2, "stride": 2}],
)
def test_transposed_convolution(dims: int, how: dict[str, Any]) -> None:
    text = "".join(f", {name}={value}" for name, value in how.items())
    x = rand(*SHAPES[dims][: dims + 2])
    weight, plain = rand(4, 3, *([3] * dims)), getattr(F, f"conv_transpose{dims}d")
    tensors = {"x": x, "w": weight}
    check(f"conv_transpose{dims}d(x, w{text})", tensors, like=lambda x, w: plain(x, w, **how))
    tensors["b"] = rand(6 if "groups" in how else 3)
    check(f"conv_transpose{dims}d(x, w, b{text})", tensors, like=lambda x, w, b: plain(x, w, b, **how), declare=(True,))


def test_convolution_in_three_dimensions() -> None:
    tensors = {"x": rand(1, 2, 4, 3, 4), "w": rand(3, 2, 2, 2, 2)}
    check("conv3d(x, w, stride=2, padding=1)", tensors, like=lambda x, w: F.conv3d(x, w, stride=2, padding=1))


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("name", ["avg", "max"])
@pytest.mark.parametrize("how", ["2", "2, stride=1", "3, stride=2, padding=1"])
def test_pool(name: str, dims: int, how: str) -> None:
    x, plain = rand(*SHAPES[dims]), getattr(F, f"{name}_pool{dims}d")
    known = eval(f"dict(kernel_size={how})")
    check(f"{name}_pool{dims}d(x, {how})", {"x": x}, like=lambda x: plain(x, **known))
    check(f"{name}_pool{dims}d(x, {how})", {"x": x[0]}, like=lambda x: plain(x, **known), declare=(True,), order=1)
