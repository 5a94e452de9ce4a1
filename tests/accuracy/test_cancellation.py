"""Where forms err: the terms of a sum that cancel, multiplied out, and the distances from the point where they do."""

from __future__ import annotations

from fractions import Fraction

from random_expressions import X, Y

from symgrad.accuracy.approximate import Interval, Target, V
from symgrad.accuracy.cancellation import cancelling, cancelling_terms, erring_places, intervals_where_it_errs
from symgrad.accuracy.measure import Judge
from symgrad.accuracy.sampling import sample_points
from symgrad.ir.expr import Expr, make
from symgrad.spec.interval import Interval as Domain

EXPM1 = make("expm1", X)
TWO = 1 / X - 1 / EXPM1
DOMAINS = {X: Domain(0.0, 8.0, True, True), Y: Domain(0.0, 1.0, True, True)}


def judge(formula: Expr) -> Judge:
    return Judge(formula, sample_points({s: DOMAINS[s] for s in (X, Y) if s in formula.tensors}, {}, 80))


def test_terms_that_cancel_are_found_behind_a_product() -> None:
    formula = 1 / X - (1 - Y) / EXPM1
    own = judge(formula)
    assert formula in cancelling(formula, own)
    assert (formula, TWO, Y / EXPM1) in list(cancelling_terms(formula, own))
    assert formula in erring_places(formula, own)


def test_what_is_accurate_has_no_terms_that_cancel() -> None:
    formula = 1 / X + (1 + Y) / EXPM1
    assert not list(cancelling_terms(formula, judge(formula)))


def test_intervals_reach_as_far_as_a_form_errs_and_no_form_errs_about_another_point() -> None:
    own = judge(TWO)
    found = intervals_where_it_errs(TWO, Target.about(Fraction(0), 1 / V - 1 / make("expm1", V), X), own)
    assert found[0] == Interval(-found[0].high, found[0].high)
    assert Fraction(1, 8) < found[0].high <= 2
    assert not intervals_where_it_errs(TWO, Target.about(Fraction(-1), V, X), own)
