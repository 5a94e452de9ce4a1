"""Which formulas of integers have no gradient because they are integers."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text

from symgrad.errors import SpecError
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec


def spec(formula: str) -> str:
    return f'{{op: f, tensors: {{x: , k: {{dtype: int, grad: false}}}}, outputs: {{y: "{formula}", z: x}}}}'


@pytest.mark.parametrize(
    "formula", ["k", "2 * k + 1", "k**2", "sum(k, dim=-1)", "max(k, 3)", "k @ k.T", "2 * max(x, dim=0).indices"]
)
def test_an_integer_has_no_gradient(formula: str) -> None:
    with pytest.raises(SpecError, match="has no gradient"):
        parse_formulas(parse_spec(spec(formula)))


@pytest.mark.parametrize(
    "formula",
    [
        "k / 2",
        "k**-1",
        "exp(k)",
        "x * k",
        "where(k > 0, x, k)",
        "mean(x) + k",
        "k * pi",
        "where(x > 0, 1, 0)",
        "0 * x + 2",
    ],
)
def test_what_is_no_integer_may_have_one(formula: str) -> None:
    parse_formulas(parse_spec(spec(formula)))


@pytest.mark.parametrize(
    "place", ["count_nonzero(x > 0, dim=-1, keepdim=True) - 1", "sum(where(x > 0, 1, 0), -1, True)", "floor(x)"]
)
def test_whole_numbers_of_any_type_are_places(place: str) -> None:
    item = compiled_text(f"op: f\ntensors: {{x: {{shape: [B, N]}}}}\noutputs: {{y: 'gather(x, -1, {place})'}}\n")
    x = torch.tensor([[0.3, 1.7, 2.5, -2.0], [1.2, 0.4, -1.0, -3.0]], dtype=torch.float64)
    x = (x.abs() / 4 if "floor" in place else x).requires_grad_()
    torch.testing.assert_close(item.function(x), item.composite(x))
    assert torch.autograd.gradcheck(item.function, x)


def test_numbers_that_are_not_whole_are_no_places() -> None:
    with pytest.raises(SpecError, match="gather needs integers"):
        parse_formulas(parse_spec("{op: f, tensors: {x: {shape: [B, N]}}, outputs: {y: 'gather(x, -1, x + 1)'}}"))
