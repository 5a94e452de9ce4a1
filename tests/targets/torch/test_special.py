"""Special functions that torch cannot differentiate often enough have values and derivatives at the ends of domains."""

from __future__ import annotations

import pytest
import torch

from symgrad.targets.torch.runtime import _special


@pytest.mark.parametrize("a", [1.0, 2.0, 2.5, 3.0])
def test_incomplete_gamma_functions_have_values_and_slopes_at_zero_while_they_are_differentiated(a: float) -> None:
    order, x = torch.tensor(a, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for function, value, sign in ((_special.gammaincc, 1.0, -1.0), (_special.gammainc, 0.0, 1.0)):
        mapped = torch.func.vmap(lambda t, f=function: f(order, t))(x)
        assert mapped.tolist() == [value] * 3
        slope = torch.func.vmap(torch.func.grad(lambda t, f=function: f(order, t)))(x)
        assert slope.tolist() == [sign if a == 1 else 0.0] * 3
        second = torch.func.grad(torch.func.grad(lambda t, f=function: f(order, t)))(x[0])
        assert float(second) == sign * (-1.0 if a == 1 else 1.0 if a == 2 else 0.0)
