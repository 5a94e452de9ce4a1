"""What generated tests of JAX and MLX modules are given."""

from __future__ import annotations

import pytest
from compiled import compiled_text

from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.tests import facts
from symgrad.targets.jax.spellings import JAX


@pytest.mark.parametrize(
    ("tensors", "large"),
    [
        ("x: , k: ", ["((16, 17), (16, 17))"]),
        ("x: , k: {shape: [1]}", ["((16, 17), (1,))"]),
        ("x: , k: {shape: []}", ["((16, 17), ())"]),
        ("x: {shape: []}, k: {shape: []}", []),
        ("x: , k: {shape: [2]}", []),  # 17 columns do not fit
    ],
)
def test_large_shapes_are_those_that_were_declared(tensors: str, large: list[str]) -> None:
    text = f"op: f\ntensors: {{{tensors}}}\noutputs: {{y: x * k}}\n"
    assert facts(Layout(compiled_text(text).operation, JAX))["large"] == large
