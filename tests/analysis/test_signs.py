"""What is known of signs follows from the functions and from declared domains."""

from __future__ import annotations

import math

import pytest

from symgrad.analysis.signs import _ODD, _POSITIVE, measured, positive, same_sign
from symgrad.ir import truth
from symgrad.ir.expr import make, symbol
from symgrad.ir.truth import compare
from symgrad.ops.functions import FUNCTIONS
from symgrad.spec.interval import Interval

X, ALPHA, BETA, N = symbol("x"), symbol("alpha", "float"), symbol("beta", "float"), symbol("n", "int")
DOMAINS = {ALPHA: Interval(0.0, math.inf, True, True), BETA: Interval(0.0, math.inf, False, True)}


@pytest.mark.parametrize("name", sorted(_ODD))
def test_a_function_has_the_sign_of_its_argument(name: str) -> None:
    meaning = FUNCTIONS[name].meaning
    assert meaning is not None
    for x in (-0.7, -1e-9, 0, 1e-9, 0.7):
        assert math.copysign(bool(x), x or 1) == math.copysign(bool(meaning(x)), meaning(x) or 1)


@pytest.mark.parametrize("name", sorted(_POSITIVE))
def test_a_function_is_positive(name: str) -> None:
    meaning = FUNCTIONS[name].meaning
    assert meaning is not None
    assert all(meaning(x) > 0 for x in (-3.0, -0.7, 0, 0.7, 3.0))


def test_signs_of_products() -> None:
    assert positive(ALPHA * make("exp", X), DOMAINS)
    assert not positive(BETA, DOMAINS) and not positive(X, DOMAINS) and not positive(ALPHA * BETA, DOMAINS)
    assert same_sign(ALPHA * make("expm1", X / ALPHA), DOMAINS) is X
    assert same_sign(-2 * ALPHA * make("tanh", X), DOMAINS) is -X
    assert same_sign(X**3, DOMAINS) is X
    for kept in (BETA * X, X**2, X + 1):
        assert same_sign(kept, DOMAINS) is kept


def test_of_what_is_compared_with_zero_the_sign_is_read() -> None:
    w = symbol("w")
    y = make("exp", X)
    assert measured(compare("gt", y - w, 0), frozenset({y})) == {y}
    assert measured(compare("gt", make("amax", y, dim=-1), w), frozenset({y})) == {y}
    assert measured(compare("gt", y, w), frozenset({y, w})) == {y, w}
    assert measured(truth.logical("and", compare("lt", w, 0), compare("lt", w, y)), frozenset({y})) == {y}
    assert measured(compare("lt", w, 0), frozenset({w})) == frozenset()
