"""Constants in C++ are the numbers they stand for."""

from __future__ import annotations

from fractions import Fraction

import pytest

from symgrad.ir import expr as ex
from symgrad.lower.clike import clike
from symgrad.targets.cpp.printer import CppPrinter


@pytest.mark.parametrize(
    "value",
    ["3", "1/3", "-2/7", "1/1175091669949317120000", "1175091669949317120001/7", "36893488147419103232", "1/10"],
)
def test_a_rational_is_written_with_integers_that_cpp_has(value: str) -> None:
    """From 2**64 on a compiler takes what is left of the digits, and only warns."""
    text = clike(CppPrinter({}, {})(ex.num(Fraction(value))))
    assert eval(text) == pytest.approx(float(Fraction(value)), rel=2**-52, abs=0)
    digits = [part for part in text.replace("-", " ").split() if part.isdigit()]
    assert all(int(part) < 2**63 for part in digits)
