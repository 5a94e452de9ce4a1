"""Formulas that are rational in one exponential, written with one exponential."""

from __future__ import annotations

import mpmath as mp
import pytest

from symgrad.accuracy.evaluate import exact
from symgrad.accuracy.exponentials import rational_forms
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological

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
