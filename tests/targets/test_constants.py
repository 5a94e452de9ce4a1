"""Numbers as source keep their value; constants have names that say what they are."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import example, given, settings
from hypothesis import strategies as st

from symgrad.ir import expr as ex
from symgrad.ir.expr import make
from symgrad.ir.truth import compare
from symgrad.lower.code import source
from symgrad.targets.constants import constant_name, constant_value, number


@settings(deadline=None, max_examples=150)
@given(st.fractions().filter(lambda f: abs(f) < 10**300))
@example(Fraction(1, 10))
@example(Fraction("1.0507009873554804934193349852946"))
@example(Fraction(10**15))
@example(Fraction(10**15 + 1))
@example(Fraction(2**53 + 1))
@example(Fraction(1, 2**1074))
@example(Fraction(1, 3))
@example(Fraction(10**22 + 1, 3))
@example(Fraction(-1, 10**308))
def test_a_rational_is_correctly_rounded(value: Fraction) -> None:
    assert float(eval(source(number(value)))) == float(value)


def test_a_rational_is_a_quotient_only_where_its_decimals_never_end() -> None:
    texts = [source(number(Fraction(text))) for text in ("3", "-1/8", "0.044715", "2/3", "1000000000000000")]
    assert texts == ["3", "-0.125", "0.044715", "2 / 3", "1000000000000000.0"]


def test_a_constant_is_named_by_its_formula_and_never_twice_alike() -> None:
    root = ex.sqrt(2 / ex.PI)
    assert constant_name(ex.sqrt(2 * ex.PI), []) == "_SQRT_2_PI"
    assert constant_name(root, []) == "_SQRT_2_OVER_PI"
    assert constant_name(root, ["_SQRT_2_OVER_PI"]) == "_SQRT_2_OVER_PI_2"
    assert (
        constant_name(make("exp", ex.sqrt(ex.PI) + ex.sqrt(ex.E) + ex.num(Fraction(1, 7)) + ex.PI), []) == "_CONSTANT"
    )


def test_a_constant_beyond_every_float_is_infinite_as_it_is_at_a_pole() -> None:
    assert constant_value(make("exp", ex.num(1000))) == math.inf
    assert constant_value(make("log", ex.ZERO)) == -math.inf
    assert math.isnan(constant_value(make("log", ex.num(-1))) or 0)
    assert constant_value(compare("gt", ex.PI, 3)) is None
    assert constant_value(ex.PI) == math.pi
