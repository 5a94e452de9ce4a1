"""Which formulas of integers have no gradient because they are integers."""

from __future__ import annotations

import pytest

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
