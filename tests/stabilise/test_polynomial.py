"""Polynomials in one variable: what is factored multiplies back, and what is divided is exact."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.ir.expr import num, symbol
from symgrad.numerics.evaluate import exact
from symgrad.stabilise import polynomial as poly
from symgrad.stabilise.polynomial import UNIT, Polynomial

COEFFICIENTS = st.fractions(min_value=-5, max_value=5, max_denominator=4)
POLYNOMIALS = st.lists(COEFFICIENTS, min_size=1, max_size=4).filter(lambda c: c[-1] != 0).map(tuple)


@settings(deadline=None)
@given(POLYNOMIALS, POLYNOMIALS)
def test_a_product_divided_by_a_factor_is_the_other(p: Polynomial, q: Polynomial) -> None:
    assert poly.divided(poly.mul(p, q), q) == p


@settings(deadline=None)
@given(POLYNOMIALS)
def test_factors_multiply_back(p: Polynomial) -> None:
    scale, found = poly.factors(p)
    product: Polynomial = (scale,)
    for factor, times in found.items():
        product = poly.mul(product, poly.power(factor, times))
    assert product == p


def test_what_does_not_divide_has_no_quotient() -> None:
    assert poly.divided((Fraction(1), Fraction(0), Fraction(1)), (Fraction(1), Fraction(1))) is None
    assert poly.divided(UNIT, (Fraction(1), Fraction(1))) is None


@pytest.mark.parametrize("at", [Fraction(-2), Fraction(1, 3), Fraction(5)])
def test_nested_products_have_the_value_of_the_polynomial(at: Fraction) -> None:
    p = (Fraction(2), Fraction(0), Fraction(-3, 2), Fraction(1))
    x = symbol("x")
    (found,) = exact([poly.horner(p, x)], {x: float(at)}, 100)
    assert abs(float(found) - float(sum(c * at**k for k, c in enumerate(p)))) < 1e-12
    assert poly.horner(UNIT, x) is num(1)
