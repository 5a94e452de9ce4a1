"""What is read from what is kept, and what the rest costs."""

from __future__ import annotations

from random_expressions import X, Y, Z

from symgrad.ir.expr import symbol
from symgrad.plan.reading import readable_from


def test_a_sum_that_has_merged_with_other_terms_is_not_read_whole() -> None:
    difference = X - Y
    kept = frozenset({difference, Z})
    assert readable_from(kept, [difference * Z * symbol("x", "tangent")])
    merged = difference + Z  # of three terms
    assert difference not in merged.args
    assert not readable_from(kept, [merged * symbol("x", "tangent")])
