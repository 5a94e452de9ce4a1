"""Equal expressions are told from others by their values, cancellation and poles included."""

from __future__ import annotations

from fractions import Fraction

from random_expressions import X, Y

from symgrad.accuracy.equality import Check
from symgrad.ir import expr as ex
from symgrad.ir.expr import make

GRID = [{X: x, Y: y} for x in (-3.0, -0.4, 0.3, 2.5) for y in (-1.1, 0.9)]


def test_a_zero_that_terms_leave_by_cancelling_says_nothing_if_values_agree_elsewhere() -> None:
    complement, scaled = make("exp", X**2) * (1 - make("erf", X)), make("erfcx", X)
    near, far = {X: 1.0}, {X: 1e30}  # where 1 - erf(x) is 0 in any precision
    assert Check([near, far])(complement, scaled)
    assert not Check([near, far])(complement, 2 * scaled)
    assert not Check([far])(complement, scaled)


def test_what_rounding_leaves_of_cancelled_powers_says_nothing_if_values_agree_elsewhere() -> None:
    first, second = X**Y, ex.num(2) ** Y
    slope = 10**30 * (X ** (Y - 1) / (first + second) - X ** (2 * Y - 1) / (first + second) ** 2)
    whole = 10**30 * X ** (Y - 1) * second / (first + second) ** 2
    near, far = {X: 1.5, Y: 2.0}, {X: 9.9, Y: 1e6 + 0.13}  # where slope is noise in any precision
    assert Check([near, far])(slope, whole)
    assert not Check([near, far])(slope, 2 * whole)
    assert not Check([far])(slope, whole)


def test_equal_expressions_pass_and_others_do_not() -> None:
    check = Check(GRID)
    assert check(make("sigmoid", X), 1 / (1 + make("exp", -X)))
    assert check((X + Y) ** 2, X**2 + 2 * X * Y + Y**2)
    assert not check(make("sigmoid", X), make("sigmoid", -X))
    assert not check(X, make("abs", X))
    assert not check(X, X + ex.num(Fraction(1, 2**35)))
    assert check(X, X + ex.num(Fraction(1, 2**60)))


def test_deep_cancellation_is_not_taken_for_a_difference() -> None:
    check = Check([{X: 1e-100}, {X: 1e-40}])
    assert check(1 - make("cos", X), 2 * make("sin", X / 2) ** 2)
    assert not check(1 - make("cos", X), make("sin", X / 2) ** 2)


def test_an_undefined_value_stays_undefined() -> None:
    """But a single point may be continued: sin(x) / x at 0."""
    log = make("log", X)
    assert not Check(GRID)(log, make("log", make("abs", X)))
    origin = Check([{X: 0.0}])
    assert origin(make("mul", make("sin", X), make("pow", X, ex.MINUS_ONE)), make("sinc", X / ex.PI))
    assert not Check([{X: 1.0}])(ex.sqrt(-X), X)
