"""Two forms in one: a threshold between where each is accurate, and none where there is no such place."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest
from random_expressions import X, Y

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Format
from symgrad.accuracy.measure import PRECISIONS, Judge
from symgrad.accuracy.regimes import joined
from symgrad.accuracy.sampling import ALL_REALS, sample_points
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make
from symgrad.spec.interval import Interval

POSITIVE = Interval(0.0, float("inf"), True, True)


def judge(formula: Expr, tensors: Mapping[Expr, Interval]) -> Judge:
    return Judge(formula, sample_points(tensors, {}, 200), PRECISIONS["strict"])


def check(formula: Expr, forms: list[Expr], tensors: Mapping[Expr, Interval]) -> list[Expr]:
    """Every choice is accurate although none of the forms alone is; the conditions."""
    own = judge(formula, tensors)
    conditions = []
    for condition, below, above in joined(forms, own):
        assert condition.op == "lt"
        assert condition.args[1].number is not None
        assert below in forms
        assert above in forms
        form = truth.where(condition, below, above)
        for target, bound in ((FLOAT32, 2.5), (FLOAT64, 8.0)):
            assert own.score(form, target).nonfinite == 0
            assert own.score(form, target).ulp <= bound
        worst = max(own.score(f, t) for f in forms for t in (FLOAT32, FLOAT64))
        assert worst.nonfinite or worst.ulp > 1e3
        conditions.append(condition)
    return conditions


def test_a_threshold_on_the_sign() -> None:
    formula = X + ex.sqrt(X**2 + 1)
    hypot = make("hypot", X, ex.ONE)
    conditions = check(formula, [X + hypot, 1 / (hypot - X)], {X: ALL_REALS})
    assert truth.compare("lt", X, 0) in conditions


def test_a_threshold_on_the_size() -> None:
    formula = X**2 / (1 + X**2)
    conditions = check(formula, [formula, 1 / (1 + 1 / X**2)], {X: ALL_REALS})
    sizes = [c for c in conditions if c.args[0] is make("abs", X)]
    assert sizes
    assert any(1e-19 < float(c.args[1]["value"]) < 1e19 for c in sizes), sizes


def test_a_threshold_has_few_digits() -> None:
    formula = make("log1p", X)
    below = truth.where(truth.compare("lt", X, ex.num(Fraction("3.07"))), formula, ex.ZERO)
    above = truth.where(truth.compare("lt", X, ex.num(Fraction("2.13"))), ex.ZERO, formula)
    conditions = check(formula, [below, above], {X: POSITIVE})
    assert any(c.args[0] is X and len(str(float(c.args[1]["value"]))) <= 4 for c in conditions), conditions
    assert all(Fraction(f"{float(c.args[1]['value']):.3g}") == c.args[1]["value"] for c in conditions if c.args[0] is X)


def test_a_threshold_between_two_variables() -> None:
    """log(exp(x) + exp(y)) from either side: which one depends on the difference."""
    first, second = X + make("log1p", make("exp", Y - X)), Y + make("log1p", make("exp", X - Y))
    formula = make("logaddexp", X, Y)
    own = judge(formula, {X: Interval(-300, 300, True, True), Y: Interval(-300, 300, True, True)})
    found = list(joined([first, second], own, [FLOAT32]))
    for condition, below, above in found:
        assert own.score(truth.where(condition, below, above), FLOAT32).nonfinite == 0


@pytest.mark.parametrize("formats", [(FLOAT32, FLOAT64), (FLOAT32,)], ids=["both", "float32"])
def test_nothing_is_joined_where_both_err_at_the_same_place(formats: tuple[Format, ...]) -> None:
    formula = make("log1p", X)
    wrong = make("log", 1 + X)
    shifted = make("log", 2 + X) - make("log", ex.num(2))
    assert not list(joined([wrong, shifted], judge(formula, {X: POSITIVE}), formats))
    assert not list(joined([wrong], judge(formula, {X: POSITIVE}), formats))


def test_forms_that_are_accurate_everywhere_need_no_threshold_for_accuracy() -> None:
    formula = make("expm1", X)
    for condition, below, above in joined([formula, formula + 0 * X], judge(formula, {X: ALL_REALS})):
        raise AssertionError((condition, below, above))


def test_float32_alone_may_have_a_threshold_where_float64_has_none() -> None:
    formula = make("exp", X) - 1
    series = X + X**2 / 2 + X**3 / 6 + X**4 / 24 + X**5 / 120
    own = judge(formula, {X: ALL_REALS})
    narrow = list(joined([series, formula], own, [FLOAT32]))
    both = list(joined([series, formula], own))
    assert len(both) <= len(narrow)
    for condition, below, above in narrow:
        assert own.score(truth.where(condition, below, above), FLOAT32).ulp <= 2.5


def test_a_nan_variable_gives_no_threshold() -> None:
    formula = make("log", X) * 0 + X
    for condition, _, _ in joined([formula, X + 1], judge(X, {X: ALL_REALS})):
        assert condition.args[0] is not make("log", X)


def test_no_threshold_is_put_on_what_only_scales_the_formula() -> None:
    """A form that errs where the scale is large, as it happens, errs there for another reason."""
    tensors = {X: ALL_REALS, Y: POSITIVE}
    for formula, scaled in ((X * make("log1p", Y), True), (X**2 * make("log1p", Y), True), (X - Y, False)):
        low, high = (truth.where(truth.compare(op, X, 3), formula, formula * ex.num(2)) for op in ("lt", "ge"))
        thresholds = {condition.args[0] for condition, _, _ in joined([low, high], judge(formula, tensors))}
        assert (X in thresholds) is not scaled
