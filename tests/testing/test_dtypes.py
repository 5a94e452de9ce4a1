"""Checks of dtypes ask of a Function what torch would give, also where the composite itself is refused."""

from __future__ import annotations

import pytest
import torch

from symgrad.testing import CHECKS, Input, Subject
from symgrad.testing.checks import run

ROWS = (((2, 3, 3), (2, 3, 3)),)


def decayed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Powers of places are of the default dtype, and a product in half precision does not take them."""
    return 0.5 ** torch.arange(3, device=x.device) * x @ w


@pytest.mark.parametrize("rounds", [False, True])
def test_numbers_of_the_default_dtype_have_a_part_in_that_of_a_result(rounds: bool) -> None:
    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        kind = torch.promote_types(x.dtype, w.dtype)
        wide = torch.promote_types(kind, torch.float32)
        result = decayed(x.to(wide), w.to(wide))
        return result.to(kind) if rounds else result

    subject = Subject("decayed", call, decayed, (Input("x"), Input("w")), shapes=ROWS, pointwise=False)
    found = [f.sentence for f in run(CHECKS["result_dtypes"], subject)]
    assert bool(found) is rounds, found
