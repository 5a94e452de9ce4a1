"""What is compared with its own extremum is evaluated as it was when it was reduced."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text

from symgrad.differentiate.ties import compared, held, released
from symgrad.ir.expr import make, symbol
from symgrad.ir.truth import compare, where

X = symbol("x")


def test_only_a_region_beside_its_own_extremum_is_held() -> None:
    region = X * X
    largest = make("amax", region, dim=None, keepdim=False)
    assert held(compare("eq", region, largest)) is compare("eq", make("held", region), largest)
    for other in (
        compare("eq", X * 2, largest),
        compare("eq", X, make("amax", X, dim=None, keepdim=False)),
        compare("lt", region, largest),
    ):
        assert held(other) is other
    assert released(held(compare("eq", region, largest))) is compare("eq", region, largest)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "formula",
    [
        "amin(x / (1 + y**2))",
        "amax(y / (1 + x**2), dim=-1, keepdim=True)",
        "amax(max(x, y) * (x / (1 + x**2)), dim=0)",
        "amin(sqrt(softmax(x, dim=-1)**2 + 0.5))",
        "where(x / (1 + y**2) == amax(x / (1 + y**2), dim=1, keepdim=True), x * y, 0)",
    ],
)
def test_an_extremum_of_a_region_has_a_gradient(formula: str, dtype: torch.dtype) -> None:
    item = compiled_text(f'{{op: f, tensors: {{x: , y: }}, outputs: {{r: "{formula}", s: x + y}}}}')
    x, y = (t.to(dtype).requires_grad_() for t in torch.linspace(-2, 3, 24, dtype=torch.float64).view(2, 3, 4) + 0.1)
    for differentiated in (False, True):
        own, right = (
            torch.autograd.grad(f(x, y)[0].sum(), (x, y), create_graph=differentiated, materialize_grads=True)
            for f in (item.function, item.composite)
        )
        torch.testing.assert_close(own, right)
    own, right = (torch.func.jvp(f, (x, y), (x * 0 + 1, y)) for f in (item.function, item.composite))
    torch.testing.assert_close(own, right)


def test_what_is_held_in_comparisons_alone_is_a_part_of_the_formula_again() -> None:
    x, y = symbol("x", "tensor"), symbol("y", "tensor")
    total, quotient = x + y, make("held", (x - y) / x)
    largest = make("amax", total, dim=-1, keepdim=True)
    root = where(compare("eq", total, largest), y * quotient, 0)
    assert held(root) is not root and compared(held(root)) is root
    assert released(held(root)) is where(compare("eq", total, largest), y * (x - y) / x, 0)
