"""Rational approximations about a point of cancellation: as precise as float64, exact at the point itself."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import pytest
import torch
from compiled import compiled_text
from random_expressions import ALPHA, X, Y

from symgrad.accuracy.approximate import Interval, Target, V, approximation, groups, is_readable, near, readings
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, exact
from symgrad.accuracy.measure import Judge
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import substitute, topological

f = make
CANCELLING: dict[str, tuple[Expr, Fraction]] = {
    "cosine": ((1 - f("cos", V)) / V**2, Fraction(1, 2)),
    "sine": ((V - f("sin", V)) / V**3, Fraction(1, 6)),
    "expm1": (f("exp", V) - 1 - V, Fraction(0)),
    "log": (V - f("log1p", V), Fraction(0)),
    "bernoulli": (V / f("expm1", V), Fraction(1)),
    "root": ((ex.sqrt(1 + V) - 1) / V, Fraction(1, 2)),
    "pole": (f("cosh", V) / f("sinh", V) - 1 / V, Fraction(0)),
    "shifted": (f("log", 1 + V) / V, Fraction(1)),
}
AROUND = Interval.around(Fraction(1, 4))


@pytest.mark.parametrize("name", CANCELLING)
def test_an_approximation_is_as_precise_as_float64(name: str) -> None:
    function, _ = CANCELLING[name]
    inside = approximation(Target(function, X, Fraction(0)), AROUND)
    assert inside is not None
    assert inside.symbols == {X}
    for k in range(-40, 41):
        v = 0.2499 * k / 40 + 1e-7
        (true,) = exact([function], {V: v}, 500)
        (own,) = exact([inside], {X: v}, 300)
        assert abs(own - true) <= abs(true) * mp.mpf(2) ** -51, v


def test_an_interval_may_reach_farther_on_the_side_without_a_pole() -> None:
    function = (1 / (1 + V) - f("log1p", V) / V) / V  # -1 is near
    assert approximation(Target(function, X, Fraction(0)), Interval.around(Fraction(9, 8))) is None
    interval = Interval(Fraction(-1, 4), Fraction(9, 8))
    form = near(Target(function, X, Fraction(0)), interval, ex.ONE, Y)
    assert form is not None
    for v in (-0.2499, -0.1, -1e-9, 1e-9, 0.3, 1.1249):
        (true,) = exact([function], {V: v}, 500)
        (own,) = exact([form], {X: v, Y: 7.0}, 300)
        assert abs(own - true) <= abs(true) * mp.mpf(2) ** -51, v
    assert exact([form, form], {X: -0.26, Y: 7.0}, 300) == exact([form, form], {X: 1.13, Y: 7.0}, 300) == [7, 7]


def test_what_is_linear_but_for_a_bound_leaves_no_pivot_and_has_no_approximation() -> None:
    function = 1 - f("clamp", V + 1, ex.num(Fraction(-9999, 10000)), ex.num(Fraction(9999, 10000)))
    interval = Interval(Fraction(-9, 8), Fraction(1, 2**30))
    assert approximation(Target(function, X, Fraction(1)), interval) is None


FAR: dict[str, tuple[Expr, Interval]] = {
    "both sides": (1 - V * f("atan", 1 / V), Interval.around(Fraction(1, 4))),
    "angle": (V * (f("atan", V) - ex.PI / 2), Interval(Fraction(0), Fraction(1, 4))),
    "digamma": (f("digamma", V) - f("log", V), Interval(Fraction(0), Fraction(1, 4))),
    "tail": (V * f("erfcx", V) - 1 / ex.sqrt(ex.PI), Interval(Fraction(0), Fraction(1, 8))),
    "other tail": (-V * f("erfcx", -V) - 1 / ex.sqrt(ex.PI), Interval(Fraction(-1, 8), Fraction(0))),
}


@pytest.mark.parametrize("name", FAR)
def test_what_cancels_at_infinity_is_a_function_of_the_reciprocal(name: str) -> None:
    function, interval = FAR[name]
    target = Target.about(None, function, X)
    form = near(target, interval, ex.ONE, Y)
    assert form is not None
    for v in (-1e30, -1e4, -30.0, -8.1, 8.1, 30.0, 1e4, 1e30):
        inside = interval.low < Fraction(1 / v) < interval.high
        (own,) = exact([form], {X: v, Y: 7.0}, 600)
        (true,) = exact([function], {V: v}, 900) if inside else (mp.mpf(7),)
        assert abs(own - true) <= abs(true) * mp.mpf(2) ** -51, v


@pytest.mark.parametrize("name", CANCELLING)
def test_the_limit_itself_is_right(name: str) -> None:
    function, limit = CANCELLING[name]
    inside = approximation(Target(function, X, Fraction(0)), AROUND)
    assert inside is not None
    with mp.workprec(200):
        expected = mp.mpf(limit.numerator) / limit.denominator
    assert exact([inside], {X: 0.0}, 200) == [expected]


@pytest.mark.parametrize("name", CANCELLING)
def test_so_near_the_point_that_all_digits_cancel(name: str) -> None:
    function, _ = CANCELLING[name]
    inside = approximation(Target(function, X, Fraction(0)), AROUND)
    assert inside is not None
    for v in (1e-30, -1e-20, 1e-9):
        (true,) = exact([function], {V: v}, 1500)
        (own,) = exact([inside], {X: v}, 300)
        assert abs(own - true) <= abs(true) * mp.mpf(2) ** -50


def test_even_functions_are_series_in_the_square() -> None:
    inside = approximation(Target(CANCELLING["cosine"][0], X, Fraction(0)), AROUND)
    assert inside is not None
    assert X**2 in topological(inside)
    assert not any(n.op == "pow" and n.args[1].number not in (2, -1) for n in topological(inside))


def test_about_another_point_and_with_another_variable() -> None:
    log = f("log", 1 + V) / V
    inside = approximation(Target(log, X * Y, Fraction(1)), AROUND)
    assert inside is not None
    point = {X: 1.5, Y: 0.75}
    with mp.workprec(200):
        distance = mp.mpf(1.5) * mp.mpf(0.75) - 1
        expected = mp.log(1 + distance) / distance
        assert abs(exact([inside], point, 200)[0] - expected) <= expected * mp.mpf(2) ** -52


@pytest.mark.parametrize(
    "function",
    [
        f("log", V),
        f("abs", V) * f("cos", V) + V,
        f("log", f("abs", V)) * V,
        ex.sqrt(f("abs", V)),
        f("exp", 1 / V),
        f("sin", 1 / V) * V**2,
        truth.where(truth.compare("gt", V, 0), V, 3 * V),
    ],
    ids=repr,
)
def test_what_is_no_power_series_is_refused(function: Expr) -> None:
    assert approximation(Target(function, X, Fraction(0)), AROUND) is None


def test_a_radius_that_reaches_a_singularity_is_refused() -> None:
    assert approximation(Target(V - f("log1p", V), X, Fraction(0)), Interval.around(Fraction(2))) is None
    assert approximation(Target(V / f("sin", V), X, Fraction(0)), Interval.around(Fraction(4))) is None


def test_a_one_sided_domain_is_no_obstacle() -> None:
    function = f("acosh", 1 + V) / ex.sqrt(2 * V)
    inside = approximation(Target(function, X, Fraction(0)), AROUND)
    assert inside is not None
    (own,), (true,) = exact([inside], {X: 0.2}, 200), exact([function], {V: 0.2}, 300)
    assert abs(own - true) <= true * mp.mpf(2) ** -52


def test_a_side_on_which_the_function_overflows_is_no_part_of_an_approximation() -> None:
    """x * erfcx(x) far above 0 has one, and below 0 grows as exp(x**2): what holds above is no digit of it there."""
    about_infinity = Target.about(None, V * make("erfcx", V), X)
    assert approximation(about_infinity, Interval.around(Fraction(1, 2))) is None
    one_sided = approximation(about_infinity, Interval(Fraction(0), Fraction(1, 2)))
    assert one_sided is not None
    (own,), (true,) = exact([one_sided], {X: 5.0}, 200), exact([X * f("erfcx", X)], {X: 5.0}, 300)
    assert abs(own - true) <= true * mp.mpf(2) ** -52


def test_forms_that_are_joined_are_right_on_both_sides_where_neither_is_accurate_everywhere() -> None:
    op = compiled_text("\nop: f\ntensors: {x: }\noutputs: {y: 'x / (2 + erfcx(x))'}\noptions: {kernels: none}\n")
    x = torch.tensor([-20.0, -9.0, -2.8, -1.0, 0.5, 2.1, 10.0, 30.0, 1e4, 1e8], requires_grad=True)
    (own,) = torch.autograd.grad(op.function(x).sum(), x)
    wide = x.detach().double().requires_grad_()
    (true,) = torch.autograd.grad((wide / (2 + torch.special.erfcx(wide))).sum(), wide)
    torch.testing.assert_close(own.double(), true, rtol=1e-6, atol=1e-37)


def test_near_keeps_the_formula_beyond_the_radius() -> None:
    formula = (1 - f("cos", X)) / X**2 * Y
    form = near(Target(CANCELLING["cosine"][0], X, Fraction(0)), AROUND, Y, formula)
    assert form is not None
    assert form.op == "where"
    assert form.args[0] is truth.compare("lt", f("abs", X), ex.num(AROUND.high))
    assert form.args[2] is formula
    points = [{X: v, Y: 3.0} for v in (-2.0, -0.2, -1e-4, 1e-7, 0.1, 0.249, 0.6)]
    judge = Judge(formula, {FLOAT32: [{X: FLOAT32.round(p[X]), Y: 3.0} for p in points], FLOAT64: points})
    assert judge.score(form, FLOAT32).ulp < 3
    assert judge.score(form, FLOAT64).ulp < 6
    assert judge.score(formula, FLOAT32).ulp > 1e6


def test_readings_are_the_node_again() -> None:
    for node in ((1 - f("cos", X * ALPHA)) / X, Y * (f("exp", X) - 1 - X), X * f("sin", Y) - X * Y, (X - Y) ** 2 / X):
        found = list(readings(node))
        for factor, variable, function in found:
            assert V not in factor.symbols
            point = {X: 1.25, Y: 0.375, ALPHA: 0.75}
            before, after = exact([node, factor * substitute(function, {V: variable})], point, 300)
            assert abs(before - after) <= abs(before) * mp.mpf(2) ** -200
    assert any(v is X * ALPHA for _, v, _ in readings((1 - f("cos", X * ALPHA)) / X))
    assert any(factor is X for factor, _, _ in readings(X * f("sin", Y) - X * Y))
    assert any(v in (X - Y, Y - X) for _, v, _ in readings(f("expm1", Y - X) / (X - Y)))


def test_groups_are_terms_with_a_reading_together() -> None:
    """In log(x)/expm1(y*log(x)) - 1/y the variable is y*log(x), of which y is a divisor, and log(x) a common factor."""
    logarithm = f("log", X)
    two = logarithm / f("expm1", Y * logarithm) - 1 / Y
    assert two in groups(two + ALPHA * logarithm)
    (reading,) = ((v, own) for factor, v, own in readings(two) if factor is logarithm)
    assert reading == (Y * logarithm, 1 / f("expm1", V) - 1 / V)
    square = X**2 / Y
    cancelling = f("log1p", square) - square / (1 + square)
    assert cancelling in groups(cancelling + X)
    assert groups(f("sin", X) + f("exp", X)) == (), "all of a sum is read as it is"


def test_a_product_that_can_only_be_read_as_itself_is_not_readable() -> None:
    assert is_readable(f("exp", X) * (f("expm1", X - Y) / (X - Y) - 1))
    assert not is_readable((X - f("exp", Y)) / Y)


def test_an_order_that_is_too_high_does_not_hide_a_lower_one() -> None:
    """Of 9 by 9 coefficients there is a pole in this interval; 7 by 7 are precise enough."""
    target = Target.about(Fraction(1), V - f("log", V) - 1, X)
    assert approximation(target, Interval(Fraction(-15, 32), Fraction(3, 8))) is not None


@pytest.mark.parametrize("formula", ["sigmoid(exp(3*x))", "tanh(exp(3*x))", "1 / (1 + exp(-exp(3*x)))"])
def test_double_exponentials_have_an_end(formula: str) -> None:
    """Their limits have more digits than a memory."""
    x = torch.tensor([-2.0, 0.0, 1.0, 3.0], dtype=torch.float64, requires_grad=True)
    item = compiled_text(f"op: f\ntensors: {{x: }}\noutputs: {{y: {formula}}}\n")
    own, right = (torch.autograd.grad(f(x).sum(), x)[0] for f in (item.function, item.composite))
    torch.testing.assert_close(own, right)
