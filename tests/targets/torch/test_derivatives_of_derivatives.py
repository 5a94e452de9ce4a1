"""What a derivative is made of has derivatives too, also where torch knows none."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text

from symgrad.ops.functions import BY_AUTOGRAD

_NAMES = sorted(name.removesuffix("_by_autograd") for name in {row.name for row in BY_AUTOGRAD.values()})


@pytest.mark.parametrize("name", _NAMES)
def test_second_derivatives_of_functions_that_torch_does_not_differentiate(name: str) -> None:
    item = compiled_text(f"\nop: second\ntensors: {{x: }}\noutputs: {{y: '{name}(x)'}}\n")
    x = torch.tensor([0.4, 1.3, 2.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(item.function, (x,), check_fwd_over_rev=True, fast_mode=True)
