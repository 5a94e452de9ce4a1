"""What is simulated of autograd is what torch's autograd computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from symgrad.accuracy.autograd import Autograd
from symgrad.accuracy.evaluate import FLOAT32
from symgrad.ir.expr import Expr
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec

POINTS = [(12.0, 1.0), (0.5, 2.0), (-3.0, 0.7), (100.0, 1.5), (1e-3, -2.0), (2.0, 2.0)]
FORMULAS: dict[str, Callable[..., Any]] = {
    "x * sigmoid(t * x)": lambda x, t: x * torch.sigmoid(t * x),
    "log(1 + exp(x * t))": lambda x, t: torch.log(1 + torch.exp(x * t)),  # not finite at 100
    "sqrt(x**2 + t**2) - x / t": lambda x, t: torch.sqrt(x**2 + t**2) - x / t,
    "where(x > 0, sqrt(x), x * t)": lambda x, t: torch.where(x > 0, torch.sqrt(x), x * t),  # NaN at -3
    "max(x, t) * tanh(x)**3": lambda x, t: torch.maximum(x, t) * torch.tanh(x) ** 3,
    "erf(x) - min(x, 1) / (2 + t)": lambda x, t: torch.erf(x) - torch.clamp_max(x, 1) / (2 + t),
}


@pytest.mark.parametrize("text", FORMULAS)
def test_derivatives_are_those_of_torch_with_its_errors(text: str) -> None:
    program = parse_formulas(parse_spec(f"op: own\ntensors: {{x: , t: }}\noutputs: {{y: '{text}'}}\n"))
    x, t = (program.symbols[name] for name in "xt")
    found = Autograd(program.outputs["y"], [dict(zip((x, t), point, strict=True)) for point in POINTS], FLOAT32)
    leaves = [torch.tensor(column, requires_grad=True) for column in zip(*POINTS, strict=True)]
    grads = torch.autograd.grad(FORMULAS[text](*leaves).sum(), leaves)
    for symbol, grad in zip((x, t), grads, strict=True):
        _assert_alike(found, symbol, grad)


def _assert_alike(found: Autograd, symbol: Expr, grad: torch.Tensor) -> None:
    """Equal up to what sigmoid at 12 amplifies, and NaN where torch has NaN."""
    ours = torch.tensor(found(symbol))
    torch.testing.assert_close(ours, grad, rtol=1e-2, atol=0, equal_nan=True)
    assert torch.isclose(ours, grad, rtol=1e-5, equal_nan=True).sum() >= len(ours) - 1


def test_what_cancels_in_the_backward_pass_is_lost() -> None:
    program = parse_formulas(parse_spec("op: own\ntensors: {x: , t: }\noutputs: {y: x * sigmoid(t * x)}\n"))
    x, t = (program.symbols[name] for name in "xt")
    (slope,) = Autograd(program.outputs["y"], [{x: 20.0, t: 1.0}], FLOAT32)(t)
    assert slope == 0  # 8e-7
