"""The reference itself: values over the reals against an independent evaluation, and what counts as equal."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from hypothesis import HealthCheck, assume, given, settings
from random_expressions import ALPHA, FLAG, MODE, POINT, TENSORS, N, X, Y, expressions, well_conditioned

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Enclosed, Exact, exact
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


def test_a_column_has_one_value_for_each_point() -> None:
    points = [{X: 1.0, Y: 2.0}, {X: 3.0, Y: 4.0}]
    values = Exact(points, 80)
    assert values(X * Y) == [2, 12]
    assert values(ex.num(Fraction(1, 2))) == [0.5, 0.5]
    assert values(make("exp", ex.ZERO)) == [1, 1]
    assert Exact([], 80)(X + 1) == []


# ---------------------------------------------------------------------------------------------- equality


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
