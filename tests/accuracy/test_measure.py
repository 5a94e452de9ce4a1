"""The measure of error: known errors score what they must, and what no form can help is not counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_expressions import ALPHA, TENSORS, X, Y, expressions

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Format
from symgrad.accuracy.measure import PRECISIONS, Judge, Score, ulp_text
from symgrad.accuracy.sample import Sample
from symgrad.accuracy.sampling import ALL_REALS, sample_points
from symgrad.accuracy.simulate import ROUGH
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make
from symgrad.ir.truth import compare, where


def judge(formula: Expr, values: Sequence[float], symbol: Expr = X) -> Judge:
    return Judge(formula, {t: [{symbol: t.round(v)} for v in values] for t in (FLOAT32, FLOAT64)})


def ulp(formula: Expr, form: Expr, values: Sequence[float], target: Format = FLOAT32, **how: Any) -> float:
    return judge(formula, values).score(form, target, **how).ulp


MODERATE = [0.5 + 0.37 * k for k in range(12)]


# ---------------------------------------------------------------------------------------------- known errors
@pytest.mark.parametrize("count", [1, 3, 10, 1000])
@pytest.mark.parametrize("target", [FLOAT32, FLOAT64], ids=["float32", "float64"])
def test_an_error_of_so_many_ulp_scores_as_many(count: int, target: Format) -> None:
    """x + n ulp for x in [1, 2), where an ulp of x is the conditioning."""
    off = X + ex.num(Fraction(count) * Fraction(2) ** (1 - target.precision))
    assert ulp(X, off, [1.25, 1.5, 1.75], target) == count - 1


def test_errors_are_in_ulp_of_the_truth_at_every_magnitude() -> None:
    relative = ex.num(1 + Fraction(2) ** -10)
    for value in (1.5e-30, 1.5, 1.5e17):
        found = ulp(X, X * relative, [value])
        ulps_of_one = 2.0**13
        assert ulps_of_one <= found <= 2 * ulps_of_one


def test_the_worst_point_counts() -> None:
    form = truth.where(truth.compare("gt", X, 4), X * 2, X)
    measured = judge(X, [1.0, 2.0, 5.0]).measure(form, FLOAT32)
    assert measured.errors[0] == measured.errors[1] == 0
    assert measured.errors[2] > 1e6
    assert measured.score.ulp == measured.errors[2]


def test_a_correctly_rounded_form_scores_nothing_beyond_half() -> None:
    for formula in (make("exp", X), make("log", X), X * X, 1 / X, make("tanh", X)):
        assert ulp(formula, formula, MODERATE) <= 0.5
        assert ulp(formula, formula, MODERATE, FLOAT64) <= 0.5


def test_cancellation_is_seen() -> None:
    formula = make("exp", X) - 1
    assert ulp(formula, formula, [1e-3]) > 100
    assert ulp(formula, formula, [1e-5]) > 1e4
    assert ulp(formula, make("expm1", X), [1e-3, 1e-5]) <= 0.5


def test_wide_evaluation_hides_what_double_does_not_lose() -> None:
    formula = make("exp", X) - 1
    assert ulp(formula, formula, [1e-3], wide=True) <= 0.5
    assert ulp(formula, formula, [1e-12], wide=True) > 100
    assert judge(formula, [1e-3]).score(formula, FLOAT64, wide=True) == judge(formula, [1e-3]).score(formula, FLOAT64)


# ---------------------------------------------------------------------------------------------- conditioning
def test_what_an_ulp_of_the_input_changes_is_forgiven() -> None:
    """cos next to a zero: the neighbours of x differ by many ulp, and each of their values is as good."""
    near_zero = FLOAT32.round(math.pi / 2)
    (own,) = judge(make("cos", X), [near_zero]).references(FLOAT32)
    with mp.workprec(200):
        slope = abs(mp.sin(mp.mpf(near_zero)))
        credit = slope * FLOAT32.ulp(near_zero) / FLOAT32.ulp(mp.cos(mp.mpf(near_zero)))
    assert own.credit == pytest.approx(float(credit), rel=1e-6)
    assert own.credit > 1e5


@pytest.mark.parametrize(("precision", "one", "both", "scaled"), [("auto", 1, 1, 1.5), ("strict", 0.5, 0.5, 0.375)])
def test_credit_adds_up_over_what_the_precision_counts(precision: str, one: float, both: float, scaled: float) -> None:
    """An ulp of each tensor and of each hyperparameter; strict counts half an ulp of tensors alone."""
    point = {X: 1.5, Y: 1.25, ALPHA: 3.0}
    sample = Sample({FLOAT32: [point], FLOAT64: [point]})
    found = []
    for formula in (X, X + Y, X * ALPHA):  # 1.5, 2.75 with an ulp twice as large, 4.5 with one four times as large
        (reference,) = Judge(formula, sample, PRECISIONS[precision]).references(FLOAT32)
        found.append(reference.credit)
    assert found == [one, both, pytest.approx(scaled)]


@pytest.mark.parametrize("op", ["sign", "floor"])
def test_a_jump_that_an_ulp_of_the_input_leads_across_is_forgiven(op: str) -> None:
    """x*x - 2 next to a zero, and x*x next to 2: which side of it that is, no rounding tells."""
    square = X * X
    formula = make(op, square - 2 if op == "sign" else square)
    values = [FLOAT32.round(math.sqrt(2)), 1.25]
    above, beside = judge(formula, values).references(FLOAT32)
    assert above.beside_jump and not beside.beside_jump
    assert judge(formula, values).score(formula, FLOAT32).ulp == 0
    assert judge(formula, values).score(formula / make("sign", X - X), FLOAT32).nonfinite == 2  # a number it must be


def test_a_value_at_a_jump_itself_is_not_beside_it() -> None:
    (own,) = judge(make("sign", X * X - 4), [2.0]).references(FLOAT32)
    assert not own.beside_jump


def test_a_variable_that_is_zero_has_no_credit() -> None:
    (own,) = judge(X + 1, [0.0]).references(FLOAT32)
    assert own.credit == 0


# ---------------------------------------------------------------------------------------------- not finite
def test_results_that_are_not_finite_count_before_everything_else() -> None:
    formula = make("log", 1 + make("exp", X))
    score = judge(formula, [-200.0, 1.0, 90.0, 100.0, 1e4]).score(formula, FLOAT32)
    assert score.nonfinite == 3
    stable = judge(formula, [1.0, 90.0, 100.0, 1e4]).score(make("softplus", X), FLOAT32)
    assert stable == Score(0, stable.ulp)
    assert stable < score
    assert Score(0, 1e9) < Score(1, 0.0)


def test_results_without_a_right_digit_are_counted() -> None:
    formula = make("expm1", X)
    written = make("exp", X) - 1
    points = [1e-9, 1e-30, 0.5]  # neither of the first ones is near
    assert judge(formula, points).score(written, FLOAT32).lost == 2
    assert judge(formula, points).score(formula, FLOAT32).lost == 0
    near = Judge(formula, {FLOAT32: [{X: 0.5}]}).errors_of([-3.0], FLOAT32).score
    assert (near.lost, near.failures) == (10, 0)


def test_nan_counts_too() -> None:
    formula = make("exp", X) / (1 + make("exp", X))
    assert judge(formula, [100.0]).score(formula, FLOAT32).nonfinite == 1
    assert judge(formula, [100.0]).score(formula, FLOAT64).nonfinite == 0


def test_an_infinity_is_no_error_where_an_ulp_of_the_input_leads_to_a_pole() -> None:
    """1 / (x + y - 1) at x = 1 - y that is off by much less than an ulp of 1."""
    formula = 1 / (X + Y - 1)
    own = Judge(formula, {FLOAT32: [{X: 1.0, Y: FLOAT32.round(1e-30)}, {X: 0.5, Y: 0.25}]})
    assert own.errors_of([math.inf, -4.0], FLOAT32).score == Score(0, 0.0)
    assert own.errors_of([-math.inf, -4.0], FLOAT32).score == Score(0, 0.0)
    assert own.errors_of([math.nan, -4.0], FLOAT32).score.nonfinite == 1
    assert own.errors_of([math.inf, math.inf], FLOAT32).score.nonfinite == 1


def test_a_value_that_overflow_made_wrong_is_as_wrong_as_it_is() -> None:
    formula = X**2 / (1 + X**2)  # x / inf * x
    points = {t: [{X: t.round(1e30)}] for t in (FLOAT32, FLOAT64)}
    strict = Judge(formula, points, PRECISIONS["strict"])
    assert strict.score(formula, FLOAT32).ulp == 2.0**24
    assert strict.score(formula, FLOAT64).ulp <= 2


@pytest.mark.parametrize("large", [False, True])
def test_what_is_wrong_beyond_1e18_counts_apart_unless_a_domain_names_such_values(large: bool) -> None:
    formula = X**2 / (1 + X**2)
    points = {t: [{X: t.round(v)} for v in (1.0, 1e30)] for t in (FLOAT32, FLOAT64)}
    found = Judge(formula, Sample(points, large=[X] if large else ())).score(formula, FLOAT32)
    assert found.far == (not large)
    assert (found.ulp == 2.0**24) == large


def test_where_the_truth_is_not_representable_nothing_counts() -> None:
    formula = make("exp", X)
    for values in ([89.0, 200.0], [1e30]):
        found = judge(formula, values)
        assert not found.references(FLOAT32)
        assert found.score(formula, FLOAT32) == found.score(ex.ZERO * X, FLOAT32) == Score(0, 0.0)
    assert len(judge(formula, [89.0, 200.0]).references(FLOAT64)) == 2


def test_where_the_truth_is_infinite_or_undefined_nothing_counts() -> None:
    assert not judge(make("log", X), [0.0, -1.0]).references(FLOAT32)
    assert not judge(1 / X, [0.0]).references(FLOAT64)
    assert judge(make("log", X), [-1.0, 2.0]).references(FLOAT32)[0].index == 1


def test_below_the_normal_range_results_may_flush_to_zero() -> None:
    formula = X * ex.num(Fraction(1, 10**30))
    assert ulp(formula, ex.ZERO * X, [1e-12]) == 0
    assert ulp(formula, ex.ZERO * X, [1e-5]) > 1e6
    assert judge(formula, [1e-12]).score(ex.num(1) + 0 * X, FLOAT32).ulp > 1e30


def test_truth_values_are_right_or_wrong() -> None:
    formula = truth.compare("gt", X, 1)
    assert judge(formula, [0.5, 1.5]).score(formula, FLOAT32) == Score(0, 0.0)
    assert judge(formula, [0.5, 1.5]).score(truth.compare("lt", X, 1), FLOAT32) == Score(2, 0.0)


# ---------------------------------------------------------------------------------------------- scores
def test_a_score_is_good_where_nothing_is_to_be_gained() -> None:
    assert Score(0, 2.5).good
    assert not Score(0, 2.6).good
    assert not Score(1, 0.0).good


@settings(deadline=None, max_examples=25, derandomize=True)
@given(expressions(*TENSORS), st.sampled_from([FLOAT32, FLOAT64]))
def test_errors_are_never_negative_and_measuring_changes_nothing(root: Expr, target: Format) -> None:
    if root.is_static:
        return
    symbols = sorted(root.tensors, key=lambda s: s.name)
    points = sample_points(dict.fromkeys(symbols, ALL_REALS), {}, 30)
    first, second = Judge(root, points), Judge(root, Sample(points))
    errors = first.measure(root, target).errors
    assert errors == second.measure(root, target).errors
    assert all(e >= 0 for e in errors.values())
    assert first.measure(root, target) is first.measure(root, target)
    assert {r.index for r in first.references(target)} == set(errors)


def test_a_thorough_check_looks_far_outside() -> None:
    points = [{X: v} for v in (0.5, 1.0, 2.0)]
    sample = Sample({FLOAT32: points, FLOAT64: points})
    clamped = make("minimum", X, ex.num(10**9))
    assert sample.check(X, clamped)
    assert not sample.thorough_check(X, clamped)
    assert sample.thorough_check(2 * X, X * 2 * make("exp", 0 * X))


def test_a_thorough_check_looks_where_all_tensors_are_large_or_small() -> None:
    points = [{X: 0.5, Y: 0.7}, {X: 1.0, Y: 3.0}]
    sample = Sample({FLOAT32: points, FLOAT64: points})
    vanishing = make("exp", -((X / Y) ** 2)) / Y**2
    for growing in (X**2, X**-2):
        clamped = make("clamp", growing, ex.num(-(10**9)), ex.num(10**9))
        assert not sample.thorough_check(growing * vanishing, clamped * vanishing)


def test_failing_where_nothing_is_extreme_weighs_more() -> None:
    formula = make("exp", X) / (1 + make("exp", X))
    far, close = (judge(formula, [v]).score(formula, FLOAT32) for v in (1e4, 100.0))
    assert far.nonfinite == close.nonfinite == 1
    assert far.failures < close.failures


def test_a_value_saved_in_float32_spoils_what_cancels_in_float64() -> None:
    saved = make("exp", -X)
    own = judge(1 - saved, [1e-3, 1e-2, 0.1])
    assert own.score(1 - saved, FLOAT32, wide=True).ulp < 1
    assert own.error_with_rounded(1 - saved, saved) > 30
    assert own.error_with_rounded(1 - saved, X) < 1


def test_rough_errors_tell_luck_from_accuracy() -> None:
    formula = make("exp", X) / make("exp", X) - 1 + X
    own = judge(formula, [1e-6, 2.0])
    lucky = make("exp", X) * make("exp", -X) - 1 + X
    (narrow, double), _ = own.rough_errors(lucky, False, [0, 1]).values()
    assert narrow > 4
    assert double > 4
    assert own.rough_errors(X, True, [1]) == {1: (0.0, 0.0)}


def test_no_two_functions_are_off_alike_in_every_way() -> None:
    """What cancels then would pass as accurate."""
    assert len(set(zip(*ROUGH, strict=True))) == len(ROUGH[0])


@pytest.mark.parametrize(
    "value, text", [(0.0, "0.0"), (0.51, "0.6"), (2.5, "2.5"), (9.95, "10.0"), (12.0, "12"), (123456.0, "1e+05")]
)
def test_figures_are_rounded_up(value: float, text: str) -> None:
    assert ulp_text(value) == text
    assert value >= 10 or float(ulp_text(value)) >= value


def test_where_an_equality_holds_forms_are_compared_though_no_point_satisfies_it() -> None:
    chosen = compare("eq", Y, ex.num(Fraction(17, 10)))  # which no float is
    formula = where(chosen, 1 / X, X)
    points = [{X: a, Y: b} for a, b in ((0.5, 0.3), (2.0, -1.5), (-3.0, 7.0))]
    judge = Judge(formula, Sample({FLOAT32: points, FLOAT64: points}))
    assert judge.check(formula, X), "as far as points tell"
    assert not judge.agrees(X, formula)
    assert judge.agrees(1 / where(chosen, X, 1 / X), formula)


def test_what_whole_tensors_lead_to_counts_within_1e18() -> None:
    """Their results depend on each other: one that overflows alone is seldom met, and no reason for float64."""
    x, points = [30.0, 100.0], {FLOAT32: [{X: 30.0}, {X: 100.0}], FLOAT64: []}
    formula, overflowing = make("exp", X / 2), make("exp", X) / make("exp", X / 2)
    apart = Judge(formula, Sample(points, computed=True)).score(overflowing, FLOAT32)
    assert (apart.nonfinite, apart.far) == (0, 1)
    assert Judge(formula, Sample(points)).score(overflowing, FLOAT32).nonfinite == 1
    assert math.exp(x[1] / 2) > 1e18 > math.exp(x[0] / 2)


def test_a_result_of_whole_tensors_that_is_about_0_is_not_to_be_missed_altogether() -> None:
    """A gradient far below zero, behind a mask: its digits count nowhere, that it is no number does."""
    large = make("exp", -X)
    formula = large / (large + 1) ** 2
    apart = Judge(formula, Sample({FLOAT32: [{X: -30.0}, {X: -95.0}], FLOAT64: []}, computed=True))
    assert (apart.score(formula, FLOAT32).nonfinite, apart.score(formula, FLOAT32).far) == (1, 0)
    small = Judge(formula, Sample({FLOAT32: [{X: -50.0}], FLOAT64: []}, computed=True))
    rough = large * ex.num(Fraction(10001, 10000)) / (large + 1) / (large + 1)
    assert (small.score(rough, FLOAT32).ulp, small.score(rough, FLOAT32).far) == (0, 1)


def test_near_the_ends_of_the_range_is_left_out_where_that_is_asked_for() -> None:
    formula = make("exp", X) * 10**8  # at -100 it is small, and the exponential has few digits
    found = Judge(formula, {FLOAT32: [{X: -100.0}, {X: 1.0}], FLOAT64: []})
    assert found.score(formula, FLOAT32).ulp > 1e3
    assert found.score(formula, FLOAT32, safe=2.0**10).ulp < 2
