"""The zero test: identities between functions are proven, and what is not 0 never is."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

from symgrad.symbolic.field import Field, Undecided

X, Y = sp.symbols("x y", real=True)
POINTS = {X: [mp.mpf("0.3"), mp.mpf("1.7")], Y: [mp.mpf("0.9"), mp.mpf("0.2")]}


def is_zero(expression: sp.Expr) -> bool:
    return Field(lambda s: POINTS[X] if s is None else POINTS[s]).is_zero(expression)


ZERO = {
    "exponentials of sums": sp.exp(X + Y) - sp.exp(X) * sp.exp(Y),
    "powers of exponentials": sp.exp(X / 2) ** 6 - sp.exp(3 * X),
    "softplus on both sides": sp.log(1 + sp.exp(X)) - X - sp.log(1 + sp.exp(-X)),
    "logarithm of a product": sp.log(X * (1 + Y**2) / 6) - sp.log(X) - sp.log(1 + Y**2) + sp.log(2) + sp.log(3),
    "roots": sp.sqrt(1 + X**2) ** 3 - (1 + X**2) * sp.sqrt(1 + X**2),
    "root below the line": (1 + X**2 / (sp.sqrt(1 + X**2) + 1)) - sp.sqrt(1 + X**2),
    "cube roots": sp.cbrt(1 + X) ** 4 - (1 + X) * sp.cbrt(1 + X),
    "powers with symbols": X**Y * X ** (1 - Y) - X,
    "sine and cosine": sp.sin(X) ** 4 - (1 - sp.cos(X) ** 2) ** 2,
    "odd and even": sp.sin(Y - X) + sp.sin(X - Y) + sp.cos(X - Y) - sp.cos(Y - X),
    "derivative of asinh": sp.diff(sp.asinh(X), X) - 1 / sp.sqrt(X**2 + 1),
    "derivative of tanh": sp.diff(sp.tanh(X), X) - 4 / (sp.exp(X) + sp.exp(-X)) ** 2,
    "decimals in exponents": sp.exp(sp.Rational(8943, 10**5) * X) * sp.exp(X / 7)
    - sp.exp(X * sp.Rational(162601, 700000)),
}


@pytest.mark.parametrize("name", ZERO)
def test_identities_are_proven(name: str) -> None:
    assert is_zero(ZERO[name])


@pytest.mark.parametrize("name", ZERO)
def test_what_is_nearly_an_identity_is_not_proven(name: str) -> None:
    assert not is_zero(ZERO[name] + sp.Rational(1, 10**30) * sp.exp(X))


def test_a_sign_that_differs_between_points_is_no_proof() -> None:
    with pytest.raises(Undecided, match="sign"):
        is_zero(sp.sqrt((X - 1) ** 2 * Y) - (X - 1) * sp.sqrt(Y))
