"""Polynomials in one variable: what is factored multiplies back, and what is divided is exact."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.accuracy import polynomial as poly
from symgrad.accuracy.evaluate import exact
from symgrad.accuracy.polynomial import UNIT, Polynomial
from symgrad.ir.expr import num, symbol

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


def polynomial(*coefficients: int) -> Polynomial:
    return tuple(map(Fraction, coefficients))


def test_small_polynomials_by_hand() -> None:
    p, q = polynomial(2, 3, 1), polynomial(1, 1)
    assert poly.mul(q, polynomial(2, 1)) == p
    assert poly.divided(p, q) == polynomial(2, 1)
    assert poly.divided(q, p) is None and poly.divided(polynomial(1, 0, 1), q) is None
    assert poly.add(p, polynomial(0, 0, -1)) == polynomial(2, 3)
    assert poly.power(q, 3) == polynomial(1, 3, 3, 1)
    assert poly.mul(p, ()) == ()
    assert poly.horner(p, symbol("x")) is symbol("x") * (symbol("x") + 3) + 2


@pytest.mark.parametrize("roots", [(0, 1, -2), (-1, -1), (3, 0, 0, 2)])
def test_rational_roots_are_factors_of_their_own(roots: tuple[int, ...]) -> None:
    p = polynomial(-6)
    for r in roots:
        p = poly.mul(p, polynomial(-r, 1))
    scale, found = poly.factors(poly.mul(p, polynomial(5, 1, 1)))
    product = (scale,)
    for factor, n in found.items():
        product = poly.mul(product, poly.power(factor, n))
    assert product == poly.mul(p, polynomial(5, 1, 1))
    assert sum(found.values()) == len(roots) + 1
