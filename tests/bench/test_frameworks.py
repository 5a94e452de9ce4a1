"""The benchmark of JAX and MLX modules finds a module equal to that of PyTorch, and what misses a target."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from compiled import compiled_text

SWISH = "op: gate\ntensors: {x: , beta: {shape: []}}\noutputs: {y: x * sigmoid(beta * x)}\n"
NOISE = "op: noise\ntensors: {x: , seed: {dtype: int, shape: []}}\noutputs: {y: 'x + dropout(x, 0.5, seed)'}\n"


@pytest.fixture(scope="module")
def frameworks() -> Any:
    path = Path(__file__).parents[2] / "benchmarks" / "frameworks.py"
    spec = importlib.util.spec_from_file_location("benchmarks_frameworks", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module  # where its dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("target", ["jax", "mlx"])
@pytest.mark.parametrize("text", [SWISH, NOISE], ids=["gate", "noise"])
def test_a_module_is_that_of_torch(frameworks: Any, target: str, text: str) -> None:
    pytest.importorskip({"jax": "jax", "mlx": "mlx.core"}[target])
    operation = compiled_text(text).operation
    line = frameworks.Line(operation.program.spec.op, target)
    frameworks.examine(line, operation, 64, 0)
    assert set(line.differences) == set(frameworks.QUANTITIES)
    assert not list(line.faults())
    line.differences["value"] = 0.5
    assert list(line.faults()) == ["value differs by 5.0e-01"]
