"""The nn.Module that owns parameters, and what its test calls it with."""

from __future__ import annotations

import pytest
from compiled import compiled_text

from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.owner import facts_to_test

NAMED = "x: {shape: [N, C]}, w: {shape: [C]}"


@pytest.mark.parametrize(
    ("tensors", "formula", "parameters", "expected"),
    [
        ("x: , w: ", "x * w", "w: {init: 1, shape: [4]}", ((2, 4), (4,))),
        ("x: , w: ", "x @ w", "w: {init: 1, shape: [5, 7]}", ((2, 5), (5, 7))),
        ("x: {shape: [..., C]}, w: ", "x * w", "w: {init: 1, shape: [7]}", ((2, 1), (7,))),
        (NAMED, "x * w", "w: {init: 1, shape: [7]}", ((3, 7), (7,))),
        (f"{NAMED}, b: {{shape: [C]}}", "x * w + b", "w: {init: 1, shape: [7]}, b: 0", ((3, 7), (7,), (7,))),
        ("x: {shape: [..., C]}, w: {shape: [C]}", "x * w", "w: 1.0", ((2, 2), (2,))),
    ],
)
def test_a_module_is_called_with_tensors_that_fit_its_parameters(
    tensors: str, formula: str, parameters: str, expected: tuple[tuple[int, ...], ...]
) -> None:
    module = f"{{parameters: {{{parameters}}}}}"
    item = compiled_text(f"{{op: f, tensors: {{{tensors}}}, outputs: {{y: {formula}}}, module: {module}}}")
    shapes = ((3, 2), (2,), (2,))[: len(item.spec.tensors)]
    facts = facts_to_test(Layout(item.operation), shapes, [])
    assert facts is not None and facts["shapes"] == expected
