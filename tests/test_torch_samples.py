"""Generated tests sample where the formula has a value."""

from __future__ import annotations

import pytest

from symgrad.backends.torch.layout import Layout
from symgrad.backends.torch.samples import shapes
from symgrad.operation import compile_operation
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec


@pytest.mark.parametrize(("formula", "is_single_fine"), [("var(x * y)", False), ("sum(x * y)", True)])
def test_no_variance_of_a_single_element_is_sampled(formula: str, is_single_fine: bool) -> None:
    spec = parse_spec(f"op: spread\ntensors: {{x: , y: }}\noutputs: {{r: {formula}}}\n")
    found, _ = shapes(Layout(compile_operation(parse_formulas(spec))))
    assert found
    assert any(own == () or 1 in own for pair in found for own in pair or ()) == is_single_fine
