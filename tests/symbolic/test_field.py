"""The zero test: identities between functions are proven, and what is not 0 never is."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import mpmath as mp
import pytest
import sympy as sp
from effort import at_most

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ops.functions import FUNCTIONS
from symgrad.symbolic.from_sympy import from_sympy
from symgrad.symbolic.rational_functions import Undecided
from symgrad.symbolic.reading import is_zero as reads_as_zero

X, Y = sp.symbols("x y", real=True)
N = sp.Symbol("n", integer=True)
OWN = {X: symbol("x"), Y: symbol("y"), N: symbol("n", "int")}
POINTS = {
    OWN[X]: [mp.mpf("0.3"), mp.mpf("1.7")],
    OWN[Y]: [mp.mpf("0.9"), mp.mpf("0.2")],
    OWN[N]: [mp.mpf(2), mp.mpf(3)],
}
MANY = sp.Add(*(sp.erf(X + k) for k in range(45)))
TURN = 2 * ex.PI * OWN[N] * OWN[N]


def values(of: Expr | None) -> list[mp.mpf]:
    return POINTS[OWN[X] if of is None else of]


def is_zero(expression: sp.Expr | Expr) -> bool:
    own = expression if isinstance(expression, Expr) else from_sympy(expression, OWN)
    return reads_as_zero(own, ex.ZERO, values)


def sum_of_logs(n: int) -> Expr:
    return ex.add(*(make("log", OWN[X] + k) for k in range(n)))


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
    "a step of lgamma": make("lgamma", OWN[X] + 3) - make("lgamma", OWN[X]) - sum_of_logs(3),
    "a step of digamma": make("polygamma", ex.num(1), OWN[X]) - make("polygamma", ex.num(1), OWN[X] + 1) - OWN[X] ** -2,
    "Lambert W": make("exp", make("lambertw", OWN[X])) * make("lambertw", OWN[X]) - OWN[X],
    "more functions than a field has at first": (MANY + 1) ** 2 - MANY**2 - 2 * MANY - 1,
    "whole turns": make("sin", OWN[X] - TURN) - make("sin", OWN[X]) + make("cos", TURN) - 1,
    "decimals in exponents": sp.exp(sp.Rational(8943, 10**5) * X) * sp.exp(X / 7)
    - sp.exp(X * sp.Rational(162601, 700000)),
}


@pytest.mark.parametrize("name", ZERO)
def test_identities_are_proven(name: str) -> None:
    assert is_zero(ZERO[name])


@pytest.mark.parametrize("name", ZERO)
def test_what_is_nearly_an_identity_is_not_proven(name: str) -> None:
    error = ex.num(Fraction(1, 10**30)) * make("exp", OWN[X])
    own = ZERO[name] if isinstance(ZERO[name], Expr) else from_sympy(ZERO[name], OWN)
    assert not is_zero(own + error)


@pytest.mark.parametrize("angle", [ex.PI * OWN[N], 2 * ex.PI * OWN[Y], 2 * OWN[N], TURN / 3])
def test_other_angles_than_whole_turns_count(angle: Expr) -> None:
    assert not reads_as_zero(make("sin", OWN[X] + angle) - make("sin", OWN[X]), ex.ZERO, values)


def test_a_sign_that_differs_between_points_is_no_proof() -> None:
    with pytest.raises(Undecided, match="sign"):
        is_zero(sp.sqrt((X - 1) ** 2 * Y) - (X - 1) * sp.sqrt(Y))


def test_a_function_that_is_not_real_at_a_point_is_no_proof() -> None:
    """SymPy's loggamma of a negative number is complex, and the sign of what is made of it is not to be had."""
    below = make("lgamma", -OWN[X])
    with pytest.raises(Undecided, match="real"):
        reads_as_zero(make("pow", below**2, ex.HALF) - below, ex.ZERO, values)


DERIVATIVES = {
    "a product": (X * sp.exp(X * Y) * sp.sin(X), sp.exp(X * Y) * ((1 + X * Y) * sp.sin(X) + X * sp.cos(X))),
    "a power of powers": (X**Y, Y * X ** (Y - 1)),
    "an exponent": (Y**X, Y**X * sp.log(Y)),
    "a root": (sp.sqrt(1 + X**2), X / sp.sqrt(1 + X**2)),
    "a quotient": (X / (1 + sp.exp(-X)), (1 + sp.exp(-X) + X * sp.exp(-X)) / (1 + sp.exp(-X)) ** 2),
    "a function of SymPy's": (sp.erf(X * Y), 2 * Y * sp.exp(-(X**2) * Y**2) / sp.sqrt(sp.pi)),
    "an argument that stands twice": (sp.atan2(X, X * Y), sp.S(0)),
    "orders of a Bessel function": (sp.besselj(1, X), sp.besselj(0, X) - sp.besselj(1, X) / X),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_are_taken_without_the_table_of_functions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    formula, slope = (from_sympy(e, OWN) for e in DERIVATIVES[name])
    for row in FUNCTIONS.values():
        monkeypatch.setattr(type(row), "partials", property(lambda row: pytest.fail("the table was asked")))
    assert reads_as_zero(formula, slope, values, OWN[X])
    assert not reads_as_zero(formula, slope + OWN[X], values, OWN[X])


def test_what_a_formula_shares_is_read_once() -> None:
    shared = OWN[X]
    for _ in range(60):
        shared = 1 / (1 + shared)
    with at_most(calls=150_000):
        assert not reads_as_zero(shared, ex.ZERO, values, OWN[X])


def test_elementary_formulas_are_proven_without_sympy() -> None:
    code = (
        "import sys; from symgrad.compiler.compile import compile_operation; from symgrad.parse import parse_formulas;"
        "from symgrad.spec import parse_spec; from symgrad.symbolic.certify import certificate;"
        "spec = parse_spec('op: o\\ntensors: {x: , t: }\\noutputs: {y: x * sigmoid(t * x)}\\n');"
        "assert certificate(compile_operation(parse_formulas(spec))).proven; assert 'sympy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
