"""Rules of algebra that hold only under conditions ask for these."""

from __future__ import annotations

from symgrad.ir.expr import make, symbol
from symgrad.rules import algebra


def test_growth_is_limited_only_where_the_other_factor_vanishes_with_it() -> None:
    x, c = symbol("x", "tensor"), symbol("c", "tensor")
    assert algebra.clamped_growth(x**2 * make("exp", -x)) is not None
    assert algebra.clamped_growth(x**2 * make("exp", -((x / c) ** 2) / 2)) is None
    assert algebra.clamped_growth(c**2 * make("exp", -c * (x - c) ** 2)) is None  # at x = c nothing vanishes
    assert algebra.clamped_growth(c**2 * make("exp", -x * c)) is None
    assert algebra.clamped_growth((x + c) ** 2 * make("exp", -((x - c) ** 2))) is None
