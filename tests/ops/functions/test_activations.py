"""Activations are torch's, their slopes at kinks too."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from derivatives import check, rand

CALLS = {
    "elu(x)": F.elu,
    "elu(x, 1.5)": lambda x: F.elu(x, 1.5),
    "celu(x, alpha=2)": lambda x: F.celu(x, 2.0),
    "selu(x)": F.selu,
    "leaky_relu(x)": F.leaky_relu,
    "leaky_relu(x, 0.2)": lambda x: F.leaky_relu(x, 0.2),
    "threshold(x, 0.5, 2)": lambda x: F.threshold(x, 0.5, 2.0),
    "hardtanh(x)": F.hardtanh,
    "hardtanh(x, -0.5, max_val=2)": lambda x: F.hardtanh(x, -0.5, 2.0),
    "relu6(3 * x)": lambda x: F.relu6(3 * x),
    "hardsigmoid(3 * x)": lambda x: F.relu6(3 * x + 3) / 6,  # torch has no second derivative of its own
    "hardswish(3 * x)": lambda x: F.hardswish(3 * x),
    "softshrink(x)": F.softshrink,
    "hardshrink(x)": F.hardshrink,
    "tanhshrink(x)": F.tanhshrink,
    "softsign(x)": F.softsign,
    "mish(x)": F.mish,
    "logit(sigmoid(x))": lambda x: x.sigmoid().logit(),
    "exp2(x)": torch.exp2,
    "x * trunc(3 * x)": lambda x: x * (3 * x).detach().trunc(),
    "fmod(5 * x, 2)": lambda x: (5 * x).fmod(2),
    "lerp(x, x**2, 0.3)": lambda x: torch.lerp(x, x**2, 0.3),
    "addcmul(x, x, sin(x), value=2)": lambda x: torch.addcmul(x, x, x.sin(), value=2),
    "addcdiv(x, x, 4 + x)": lambda x: torch.addcdiv(x, x, 4 + x),
    "x * detach(sin(x))": lambda x: x * x.sin().detach(),
}
KINKS = torch.tensor([0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -0.25], dtype=torch.float64)


@pytest.mark.parametrize("text", CALLS)
def test_is_torchs(text: str) -> None:
    torch.manual_seed(0)
    check(text, {"x": rand(40)}, like=CALLS[text], declare=(True,))


@pytest.mark.parametrize(
    "text", ["elu(x)", "leaky_relu(x)", "hardtanh(x)", "softshrink(x)", "hardshrink(x)", "celu(x, alpha=2)"]
)
def test_kinks_are_torchs(text: str) -> None:
    check(text, {"x": KINKS}, like=CALLS[text], declare=(True,), order=1)
