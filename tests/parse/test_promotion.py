"""Whole numbers become floats where their powers are fractions."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text


@pytest.mark.parametrize("formula", ["x * 2**n", "x * 2**(-n)", "x * 3**(1 - n)", "x * n**n"])
def test_a_whole_number_to_a_negative_power_is_a_fraction(formula: str) -> None:
    """To torch it is 0."""
    op = compiled_text(f"op: f\ntensors: {{x: , n: {{dtype: int}}}}\noutputs: {{y: '{formula}'}}\n").function
    x, n = torch.full((4,), 2.0, dtype=torch.float64), torch.tensor([3, -2, 1, -1])
    expected = eval(formula, {"x": x, "n": n.double()})
    torch.testing.assert_close(op(x, n), expected)
