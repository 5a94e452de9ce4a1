"""The composite is the formula as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mpmath as mp
import pytest
import torch
from compiled import OWN_SPECS, SAMPLE, compiled, compiled_text, results

from symgrad.accuracy.evaluate import Exact
from symgrad.ir.branches import absent
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS

broadcast_tensors: Any = torch.broadcast_tensors
broadcast_shapes: Any = torch.broadcast_shapes


@pytest.mark.parametrize("path", SAMPLE, ids=lambda p: p.stem)
def test_the_composite_is_worth_the_formula(path: Path) -> None:
    item = compiled(path)
    program = item.operation.program
    if any(n.op in TENSOR_OPS for o in program.outputs.values() for n in topological(o)):
        pytest.skip("not pointwise")
    for setting in item.hyperparameters(3):
        tensors = item.tensors()
        found = results(item.composite(*tensors, *setting))
        given = {program.symbols[h.name]: v for h, v in zip(item.spec.hyperparameters, setting, strict=True)}
        given |= {absent(t.name): False for t in item.spec.tensors}
        flat = (
            [t.flatten() for t in broadcast_tensors(*tensors)]
            if len({t.shape for t in tensors}) > 1
            else [t.flatten() for t in tensors]
        )
        points = [
            {
                **given,
                **{
                    program.symbols[t.name]: column[k].item() for t, column in zip(item.spec.tensors, flat, strict=True)
                },
            }
            for k in (0, 7, 11)
        ]
        for y, root in zip(found, program.outputs.values(), strict=True):
            for k, true in zip((0, 7, 11), Exact(points, 120)(root), strict=True):
                value = y.expand(broadcast_shapes(*[t.shape for t in tensors])).flatten()[k].item()
                assert abs(mp.mpf(value) - true) <= 1e-11 * (abs(true) + 1)


def test_the_composite_is_differentiable_by_autograd() -> None:
    item = compiled_text("\nop: eager\ntensors: {x: }\nhyperparameters: {n: 3}\noutputs: {y: x**n, z: exp(x)}\n")
    x = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)
    y, z = item.composite(x, 3)
    torch.testing.assert_close(torch.autograd.grad(y.sum() + z.sum(), x)[0], (3 * x**2 + x.exp()).detach())


def test_an_optional_tensor_is_its_default() -> None:
    item = compiled(next(p for p in OWN_SPECS if p.stem == "optional_tensor"))
    x = torch.rand(3)
    torch.testing.assert_close(item.composite(x, None), x.tanh())
    torch.testing.assert_close(item.composite(x, torch.ones(3)), x.tanh() + 1)
