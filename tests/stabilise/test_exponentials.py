"""Formulas that are rational in one exponential, written with one exponential."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import pytest

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological
from symgrad.numerics.evaluate import exact
from symgrad.stabilise import polynomial as poly
from symgrad.stabilise.exponentials import rational_forms

X, Y = symbol("x"), symbol("y")


def f(name: str, x: Expr) -> Expr:
    return make(name, x)


FORMULAS = [
    f("sigmoid", X) * f("sigmoid", -X),
    X * f("tanh", f("softplus", X)),
    f("tanh", f("softplus", X)) + X * f("sigmoid", X) * f("cosh", f("softplus", X)) ** -2,
    Y * f("sigmoid", X) - (1 - Y) * f("sigmoid", -X),
    f("sinh", X / 2) / f("cosh", X / 2) ** 3,
    f("expm1", 2 * X) / (1 + f("exp", X)) ** 2,
    f("sigmoid", 3 * f("softplus", -X)),
]


@pytest.mark.parametrize("formula", FORMULAS, ids=str)
def test_forms_are_equal_with_one_argument_of_exp(formula: Expr) -> None:
    forms = list(rational_forms(formula))
    assert forms
    for form, identity in forms:
        atoms = {n.args[0] for n in topological(form) if n.op in ("exp", "expm1")}
        assert len(atoms) == 1
        for x, y in ((0.7, 1.9), (-1.3, 0.4), (2.5, -3.1), (-9.0, 0.1)):
            before, after = exact([formula, form], {X: x, Y: y}, 300)
            assert abs(before - after) <= abs(before) * mp.mpf(2) ** -150
        assert identity == all(n.op != "clamp" for n in topological(form))


@pytest.mark.parametrize(
    "formula",
    [
        X * Y,
        f("exp", X) + f("exp", Y),  # two exponentials
        f("exp", X) - Y,  # nothing to cancel
        f("exp", ex.PI * X) * f("sigmoid", X),  # no common exponent
        1 / (Y + f("exp", X)),  # no polynomial in the exponential alone
        f("sigmoid", X) ** 40 * f("sigmoid", -X),
    ],
    ids=str,
)
def test_other_formulas_are_left_alone(formula: Expr) -> None:
    for form, _ in rational_forms(formula):
        (before, after) = exact([formula, form], {X: 0.7, Y: 1.9}, 300)
        assert abs(before - after) <= abs(before) * mp.mpf(2) ** -150


def polynomial(*coefficients: int) -> poly.Polynomial:
    return tuple(map(Fraction, coefficients))


def test_polynomials() -> None:
    p, q = polynomial(2, 3, 1), polynomial(1, 1)
    assert poly.mul(q, polynomial(2, 1)) == p
    assert poly.divided(p, q) == polynomial(2, 1)
    assert poly.divided(q, p) is None and poly.divided(polynomial(1, 0, 1), q) is None
    assert poly.add(p, polynomial(0, 0, -1)) == polynomial(2, 3)
    assert poly.power(q, 3) == polynomial(1, 3, 3, 1)
    assert poly.mul(p, ()) == ()
    assert poly.horner(p, X) is ex.add(ex.mul(X, X + 3), 2)


@pytest.mark.parametrize("roots", [(0, 1, -2), (-1, -1), (3, 0, 0, 2)])
def test_factors_multiply_to_the_polynomial(roots: tuple[int, ...]) -> None:
    p = polynomial(-6)
    for r in roots:
        p = poly.mul(p, polynomial(-r, 1))
    scale, found = poly.factors(poly.mul(p, polynomial(5, 1, 1)))
    product = (scale,)
    for factor, n in found.items():
        product = poly.mul(product, poly.power(factor, n))
    assert product == poly.mul(p, polynomial(5, 1, 1))
    assert sum(found.values()) == len(roots) + 1
