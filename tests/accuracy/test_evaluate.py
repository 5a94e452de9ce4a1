"""The reference itself: values over the reals against an independent evaluation, and what counts as equal."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from hypothesis import HealthCheck, assume, given, settings
from random_expressions import ALPHA, FLAG, MODE, POINT, TENSORS, N, X, Y, expressions, well_conditioned

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Check, Enclosed, Exact, Table, exact
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological
from symgrad.ir.truth import compare, logical, where

SETTINGS = settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
POSITIVE = compare("gt", X, 0)


def value(root: Expr, bits: int = 120, **values: Any) -> Any:
    point = {**POINT, **{s: values[s.name] for s in (X, Y, ALPHA) if s.name in values}}
    return exact([root], point, bits)[0]


# ---------------------------------------------------------------------------------------------- meaning
# Python's own functions and elementary identities, independent of the tables of symgrad.
IN_PYTHON: dict[str, Any] = {
    "exp": math.exp,
    "log": math.log,
    "expm1": math.expm1,
    "log1p": math.log1p,
    "log2": math.log2,
    "log10": math.log10,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "atan2": math.atan2,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "atanh": math.atanh,
    "hypot": math.hypot,
    "erf": math.erf,
    "erfc": math.erfc,
    "lgamma": math.lgamma,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "abs": abs,
    "maximum": max,
    "minimum": min,
    "relu": lambda x: max(x, 0.0),
    "clamp": lambda x, low, high: min(max(x, low), high),
    "sign": lambda x: (x > 0) - (x < 0),
    "sigmoid": lambda x: (1 + math.tanh(x / 2)) / 2,
    "softplus": lambda x: math.log1p(math.exp(-abs(x))) + max(x, 0),
    "logsigmoid": lambda x: -math.log1p(math.exp(-x)),
    "logaddexp": lambda a, b: math.log(math.exp(a) + math.exp(b)),
    "xlogy": lambda x, y: x * math.log(y) if x else 0.0,
    "xlog1py": lambda x, y: x * math.log1p(y) if x else 0.0,
    "sinc": lambda x: math.sin(math.pi * x) / (math.pi * x) if x else 1.0,
    "heaviside": lambda x, at_zero: float(x > 0) if x else at_zero,
    "add": lambda *a: math.fsum(a),
    "mul": lambda *a: math.prod(a),
    "pow": lambda a, b: math.sqrt(a) if b == 0.5 else a**b,
    "where": lambda c, a, b: a if c else b,
    "and": lambda *a: all(a),
    "or": lambda *a: any(a),
    "not": lambda a: not a,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "true": lambda: True,
    "false": lambda: False,
}
CONSTANTS = {"pi": math.pi, "E": math.e, "oo": math.inf, "nan": math.nan}


def in_python(root: Expr) -> Any:
    """The value at POINT in plain Python; None where a function is not in the standard library."""
    found: dict[Expr, Any] = {}
    for node in topological(root):
        if node.op == "sym":
            found[node] = POINT[node]
        elif node.op == "num":
            found[node] = float(node["value"])
        elif node.op == "const":
            found[node] = CONSTANTS[node["name"]]
        elif node.op not in IN_PYTHON:
            return None
        else:
            found[node] = IN_PYTHON[node.op](*(found[a] for a in node.args))
    return found[root]


@SETTINGS
@given(expressions(*TENSORS, ALPHA, N))
def test_values_are_those_of_plain_python(root: Expr) -> None:
    true = well_conditioned(root)
    assume(true is not None)
    plain = in_python(root)
    assume(plain is not None)
    assert math.isclose(float(value(root)), plain, rel_tol=1e-7, abs_tol=1e-12), (root, float(value(root)), plain)


@SETTINGS
@given(expressions(*TENSORS, ALPHA))
def test_more_bits_give_the_same_value_where_it_is_well_conditioned(root: Expr) -> None:
    assume(well_conditioned(root) is not None)
    coarse, fine = value(root, 120), value(root, 400)
    assert abs(coarse - fine) <= abs(fine) * mp.mpf(10) ** -20 + mp.mpf(10) ** -60


def test_truth_values_and_texts() -> None:
    assert value(compare("eq", MODE, ex.text("mean"))) is True
    assert value(compare("eq", MODE, ex.text("sum"))) is False
    assert value(where(FLAG, X, Y)) == POINT[X]
    assert value(logical("and", FLAG, compare("lt", X, 0))) is False


@pytest.mark.parametrize(
    "root",
    [
        make("log", -X),
        ex.sqrt(-X),
        ex.power(-X, ALPHA),
        make("asin", X + 2),
        make("acosh", X / 9),
        make("atanh", 1 + X),
        make("log1p", -2 - X),
        make("erfinv", X + 1),
        make("digamma", ex.ZERO * X - 3),
        make("log", X) - make("log", X - X + 0) * 0 + ex.NAN,
    ],
    ids=repr,
)
def test_undefined_over_the_reals_is_nan(root: Expr) -> None:
    assert mp.isnan(value(root))


def test_undefined_values_spread_but_not_from_a_dead_branch() -> None:
    partial = make("log", -X)
    assert mp.isnan(value(partial * 0 + Y * partial))
    assert value(where(POSITIVE, Y, partial)) == POINT[Y]
    assert mp.isnan(value(where(POSITIVE, partial, Y)))
    assert value(make("mul", where(POSITIVE, Y, partial), ex.num(2))) == 2 * POINT[Y]
    assert mp.isnan(value(where(POSITIVE, make("exp", partial), Y)))
    assert value(compare("gt", partial, 0)) is False
    assert value(compare("ne", partial, 0)) is True


def test_poles_are_infinite() -> None:
    assert value(make("log", X), x=0.0) == -mp.inf
    assert value(1 / X, x=0.0) == mp.inf
    assert value(make("atanh", X), x=1.0) == mp.inf
    assert value(make("lgamma", X), x=-2.0) == mp.inf
    assert value(X**ex.ZERO * Y, x=0.0) == POINT[Y]


def test_huge_arguments_take_bounded_time() -> None:
    tower: Expr = X
    for _ in range(6):
        tower = make("exp", tower)
    assert value(tower, x=2.0) == mp.inf
    assert value(make("exp", -tower), x=2.0) == 0
    assert value(make("tanh", -tower), x=2.0) == -1
    assert mp.isfinite(value(make("sin", X), 300, x=1e300))


# ---------------------------------------------------------------------------------------------- tables of truth
def test_truth_survives_cancellation_of_any_depth() -> None:
    one_minus_cos = (1 - make("cos", X)) / X**2
    for x in (1e-25, 1e-30, 1e-60):
        (truth,) = Table([{X: x}])(one_minus_cos)
        assert truth is not None
        assert abs(truth.value - 0.5) < mp.mpf(2) ** -70
    (tiny,) = Table([{X: 1e-30}])(make("log", 1 + X**4))
    assert tiny is not None
    assert abs(tiny.value / mp.mpf(1e-30) ** 4 - 1) < mp.mpf(2) ** -70
    (deep,) = Table([{X: 1e-30}])((X - make("sin", X)) / X**3 - ex.num(Fraction(1, 6)))
    assert deep is not None
    assert abs(deep.value / (mp.mpf(1e-30) ** 2 / 120) + 1) < mp.mpf(2) ** -60


def test_zeros_are_believed_where_nothing_cancels_and_at_last_where_all_does() -> None:
    relu, gap = make("relu", X), where(POSITIVE, X, ex.ZERO)
    for root in (relu, relu * make("exp", X), gap**2 * Y, make("tanh", relu) + gap, X * 0 + relu):
        values = Exact([{X: -1.5, Y: 2.0}], 120)
        assert values(root)[0] == 0
        assert values.plainly_zero(root, 0)
        (truth,) = Table([{X: -1.5, Y: 2.0}])(root)
        assert truth is not None
        assert truth.value == 0
    cancelled = make("exp", X + Y) - make("exp", Y + X) * make("add", ex.ONE, X, make("mul", ex.MINUS_ONE, X))
    values = Exact([{X: -1.5, Y: 2.0}], 120)
    assert values(cancelled)[0] == 0
    assert not values.plainly_zero(cancelled, 0)
    (truth,) = Table([{X: -1.5, Y: 2.0}])(cancelled)
    assert truth is not None
    assert truth.value == 0


def test_no_truth_where_it_is_infinite_or_undefined() -> None:
    points = [{X: v} for v in (-1.0, 0.0, 1.0)]
    assert [t is None for t in Table(points)(make("log", X))] == [True, True, False]
    assert [t is None for t in Table(points)(1 / X)] == [False, True, False]
    assert [t is None for t in Table(points)(where(POSITIVE, X, ex.OO))] == [True, True, False]


@pytest.mark.parametrize(
    ("root", "point", "limit"),
    [
        (make("expm1", X) / X, {X: 0.0}, 1),
        ((make("exp", X) - make("exp", Y)) / (X - Y), {X: 1.5, Y: 1.5}, mp.exp(1.5)),
        (make("log1p", X**2) / X, {X: 0.0}, 0),
        (X / make("abs", X), {X: 0.0}, None),
        (X * Y / (X**2 + Y**2), {X: 0.0, Y: 0.0}, None),
        (X * make("log", X), {X: 0.0}, None),
        (make("log", X) / X, {X: 0.0}, None),
        (make("log", X), {X: -1.0}, None),
    ],
    ids=str,
)
def test_a_limit_is_what_all_sides_tend_to(root: Expr, point: Any, limit: Any) -> None:
    assert Table([point])(root) == [None]
    (truth,) = Table([point], limits=True)(root, [X])
    assert (truth is None) == (limit is None)
    if truth is not None:
        assert abs(truth.value - limit) < mp.mpf(2) ** -50
        assert truth.slopes.keys() == {X}


@pytest.mark.parametrize(
    ("root", "limit"),
    [(X * make("log", X), 0), (ex.power(X, ex.HALF) * make("log", X), 0), (make("log", X) / X, None)],
    ids=str,
)
def test_a_limit_at_an_end_of_a_domain_is_what_the_formula_tends_to_inside(root: Expr, limit: Any) -> None:
    (truth,) = Table([{X: 0.0}], limits=True, ends={X: [0.0]})(root, [X])
    assert (truth is None) == (limit is None)
    if truth is not None:
        assert abs(truth.value - limit) < mp.mpf(2) ** -50


def test_slopes_are_derivatives_in_size() -> None:
    (truth,) = Table([{X: 1.5, Y: -0.5}])(make("exp", X * Y), [X, Y])
    assert truth is not None
    expected = {X: 0.5 * math.exp(-0.75), Y: 1.5 * math.exp(-0.75)}
    for symbol, size in expected.items():
        assert float(truth.slopes[symbol]) == pytest.approx(size, rel=1e-6)


def test_a_column_has_one_value_for_each_point() -> None:
    points = [{X: 1.0, Y: 2.0}, {X: 3.0, Y: 4.0}]
    values = Exact(points, 80)
    assert values(X * Y) == [2, 12]
    assert values(ex.num(Fraction(1, 2))) == [0.5, 0.5]
    assert values(make("exp", ex.ZERO)) == [1, 1]
    assert Exact([], 80)(X + 1) == []


# ---------------------------------------------------------------------------------------------- equality
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


# ---------------------------------------------------------------------------------------------- formats
def test_an_ulp_is_the_distance_of_neighbours() -> None:
    for number in (1.0, 1.5, 3.0, 1e-5, -7e20, 0.1):
        assert FLOAT64.ulp(number) == math.ulp(number)
    assert FLOAT32.ulp(1.0) == 2.0**-23
    assert FLOAT32.ulp(-3.0) == 2.0**-22
    for tiny in (0.0, 1e-60):
        assert FLOAT32.ulp(tiny) == 2.0**-149
    assert FLOAT64.ulp(1e-320) == math.ulp(0.0)


def test_rounding_to_a_format() -> None:
    assert FLOAT32.round(0.1) == 0.10000000149011612
    assert FLOAT32.round(1e39) == math.inf
    assert FLOAT32.round(mp.mpf(1) / 3) == pytest.approx(1 / 3, rel=2**-24, abs=0)
    assert FLOAT64.round(0.1) == 0.1
    assert FLOAT32.largest == FLOAT32.round(FLOAT32.largest) < FLOAT32.round(FLOAT32.largest * 1.0000001)


# ---------------------------------------------------------------------------------------------- columns
def test_what_an_enclosure_cannot_tell_is_none_beside_what_it_can() -> None:
    values = Enclosed([{X: 2.0}, {X: -1.0}, {X: 0.5}], 200)
    logarithm = make("log", X)
    for root in (logarithm, logarithm + X, 3 * logarithm, ex.power(logarithm, 2), where(POSITIVE, logarithm, X)):
        column = values.balls(root)
        expected = exact([root], {X: 2.0}, 200)[0], exact([root], {X: 0.5}, 200)[0]
        assert [float(v) for v in (column[0], column[2])] == [float(v) for v in expected]
        assert (column[1] is None) == (root.op != "where")


def test_a_truth_is_two_floats_and_the_power_of_two_above_it() -> None:
    tiny = Fraction(1, 2**70)
    cases = [
        (ex.num(Fraction(1, 3)) * X, Fraction(1, 3), -1),
        (X - ex.num(tiny), 1 - tiny, 0),
        (X + ex.num(tiny), 1 + tiny, 1),
        (make("sin", X) ** 2 + make("cos", X) ** 2, Fraction(1), 1),
        (X - 1, Fraction(0), 0),
    ]
    for root, expected, above in cases:
        (truth,) = Table([{X: 1.0}])(root)
        assert truth is not None
        high, low, exponent = truth.parts()
        assert abs(Fraction(high) + Fraction(low) - expected) <= expected / 2**100
        assert exponent == above


def test_values_as_floats_are_those_of_many_digits_and_nan_where_there_are_none() -> None:
    table = Table([{X: 1e-9}, {X: -1.0}, {X: 3.0}])
    found = table.floats(1 - make("cos", X) + make("log", X))
    assert found[0] == float(exact([1 - make("cos", X) + make("log", X)], {X: 1e-9}, 240)[0])
    assert math.isnan(found[1])
    assert math.isnan(table.floats(POSITIVE)[0])
    assert table.at([2])(X) == [3]
