"""Activations are torch's, their slopes at kinks too."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from compiled import compiled_text
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
    "5 * x % 2": lambda x: (5 * x) % 2,
    "5 * x % (2 + sin(x)) * x": lambda x: (5 * x) % (2 + x.sin()) * x,
    "fmod(5 * x, 2 + sin(x))": lambda x: (5 * x).fmod(2 + x.sin()),
    "2 % (1 + x**2)": lambda x: torch.full_like(x, 2) % (1 + x**2),
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


def test_remainders_are_exact() -> None:
    """A quotient that rounds to a whole number would leave all of the divisor, or less than nothing."""
    x = torch.tensor([3.0, 5.0, -5.0, 1e10, 7.5, -0.3], dtype=torch.float64)
    by = torch.tensor([0.1, 3.0, 3.0, 0.1, -2.0, 0.1], dtype=torch.float64)
    for text, right in {"x % w": torch.remainder, "fmod(x, w)": torch.fmod}.items():
        op = compiled_text(f"{{op: f, tensors: {{x: , w: }}, outputs: {{z: '{text}'}}, options: {{kernels: none}}}}")
        assert torch.equal(op.function(x, by), right(x, by))


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("text", "values", "slopes"),
    [
        ("where(isnan(x), 3, x * w)", [2.0, 3.0, INF, -INF], [2.0, 0.0, 2.0, 2.0]),
        ("where(isinf(x), 3, x * w)", [2.0, NAN, 3.0, 3.0], [2.0, 2.0, 0.0, 0.0]),
        ("where(isfinite(x), x * w, 3)", [2.0, 3.0, 3.0, 3.0], [2.0, 0.0, 0.0, 0.0]),
        ("nan_to_num(x, 3, oo, -oo) * w", [2.0, 6.0, INF, -INF], [2.0, 0.0, 0.0, 0.0]),
        ("nan_to_num(x, 0, posinf=5, neginf=-4) * w", [2.0, 0.0, 10.0, -8.0], [2.0, 0.0, 0.0, 0.0]),
    ],
)
def test_what_is_no_number_is_told_apart(text: str, values: list[float], slopes: list[float]) -> None:
    op = compiled_text(f"{{op: f, tensors: {{x: , w: }}, outputs: {{z: '{text}'}}, options: {{kernels: none}}}}")
    x = torch.tensor([1.0, NAN, INF, -INF], requires_grad=True)
    found = op.function(x, torch.tensor(2.0))
    torch.testing.assert_close(found, torch.tensor(values), equal_nan=True)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), x)[0], torch.tensor(slopes))
