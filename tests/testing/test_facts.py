"""What is stated about an operation."""

import pytest
import torch

from symgrad.testing import Input, Subject


def _subject(**facts):
    inputs = (Input("x"), Input("a"))
    return Subject("op", torch.mul, torch.mul, inputs, **facts)


@pytest.mark.parametrize(
    "facts, broadcasts",
    [
        ({}, True),
        ({"shapes": (((2, 3), ()), ((), ()))}, True),
        ({"shapes": (((2, 3), ()), ((1, 1), ())), "ones_shapes": ((1, 1), ())}, False),
        ({"shapes": (((), ()),), "ones_shapes": ((), ())}, False),
        ({"shapes": (((2, 3), ()),)}, False),
        ({"pointwise": False}, False),
    ],
)
def test_a_declared_shape_is_never_sampled_as_another(facts, broadcasts):
    assert _subject(**facts).broadcasts is broadcasts
