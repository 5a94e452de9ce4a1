"""The engine: directed rules to a fixed point, a trace of the steps, and no wrong result, whatever the rules say."""

from __future__ import annotations

import mpmath as mp
import pytest
from hypothesis import HealthCheck, assume, given, settings
from random_expressions import POINT, TENSORS, X, Y, Z, expressions, well_conditioned

from symgrad.accuracy import choose as stabilise
from symgrad.accuracy.equality import Check
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, exact
from symgrad.accuracy.measure import Judge
from symgrad.accuracy.rewrite import Rewriter, Step, by_operation, replace, rewrite, single_steps
from symgrad.accuracy.sampling import ALL_REALS, sample_points
from symgrad.ir.expr import Expr, make
from symgrad.ir.pattern import wild
from symgrad.ir.traversal import topological
from symgrad.rules import ALL_RULES, ALTERNATIVES, KINKS, RECOGNISE, STABILISE, Rule, Transformation

A, B = wild("a"), wild("b")
EXPM1 = Rule("expm1", make("exp", A) - 1, make("expm1", A), "cancels")
WRONG = Rule("wrong", make("exp", A), make("exp", -A), "a planted mistake")
SUBTLE = Rule("subtle", make("sin", A), A, "true only near 0: a planted mistake")
GRID = [{X: x, Y: y, Z: 0.3 * x - y} for x in (-3.0, -0.4, 0.3, 2.5) for y in (-1.1, 0.9)]
SETTINGS = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


# ---------------------------------------------------------------------------------------------- refusing
@pytest.mark.parametrize("wrong", [WRONG, SUBTLE], ids=lambda r: r.name)
def test_a_wrong_rule_is_left_out_and_the_others_still_apply(wrong: Rule) -> None:
    root = make("exp", X) - 1 + make("sin", Y)
    result, steps = rewrite(root, [wrong, EXPM1], Check(GRID))
    assert result is make("expm1", X) + make("sin", Y)
    assert [s.rule for s in steps] == ["expm1"]


def test_without_a_check_a_wrong_rule_would_pass() -> None:
    """So that it is the check that refuses it."""
    result, _ = rewrite(make("sin", Y), [SUBTLE])
    assert result is Y


def test_a_wrong_step_among_right_ones_is_found() -> None:
    root = make("exp", make("sin", X)) - 1 + make("exp", Y)
    result, steps = rewrite(root, [EXPM1, SUBTLE, WRONG], Check(GRID))
    assert result is make("expm1", make("sin", X)) + make("exp", Y)
    assert {s.rule for s in steps} == {"expm1"}


def test_a_rule_that_is_right_only_on_a_part_of_the_domain_is_refused() -> None:
    positive = Rule("positive-root", make("abs", A), A, "true for positive a only")
    assert rewrite(make("abs", X), [positive], Check(GRID))[0] is make("abs", X)
    assert rewrite(make("abs", X), [positive], Check([{X: 1.0}, {X: 2.5}]))[0] is X


@pytest.mark.parametrize("wrong", [WRONG, SUBTLE], ids=lambda r: r.name)
def test_a_wrong_rule_in_the_tables_does_not_reach_a_chosen_form(wrong: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a directed rule and as an alternative, where it would look very accurate or very cheap."""
    monkeypatch.setattr(stabilise, "_DIRECTED", (wrong, *stabilise._DIRECTED))
    monkeypatch.setattr(stabilise, "_ALTERNATIVES", by_operation((wrong, *ALTERNATIVES)))
    monkeypatch.setattr(stabilise, "_CHEAPER", by_operation((wrong,)))
    for formula in (make("exp", X) - 1 - X, (1 - make("cos", X)) * make("sin", X)):
        points = sample_points({X: ALL_REALS}, {}, 60)
        chosen = stabilise.choose(formula, Judge(formula, points)).chosen.form
        before, after = exact([formula, chosen], {X: 0.7}, 200)
        assert abs(before - after) <= abs(before) * mp.mpf(2) ** -40


# ---------------------------------------------------------------------------------------------- engine
@SETTINGS
@given(expressions(*TENSORS))
def test_directed_rules_keep_the_value_and_reach_a_fixed_point(root: Expr) -> None:
    true = well_conditioned(root)
    assume(true is not None)
    check = Check([POINT])
    result, steps = rewrite(root, (*RECOGNISE, *KINKS, *STABILISE), check)
    (after,) = exact([result], POINT, 300)
    assert abs(after - true) <= abs(true) * mp.mpf(2) ** -39 + mp.mpf(2) ** -1000
    assert result is root or steps


@SETTINGS
@given(expressions(*TENSORS))
def test_every_step_is_equal_before_and_after(root: Expr) -> None:
    _, steps = rewrite(root, (*RECOGNISE, *STABILISE), Check([POINT]))
    for step in steps:
        assert step.before is not step.after
        assert step.why
        before, after = exact([step.before, step.after], POINT, 300)
        if mp.isfinite(before) and abs(before) < 1e100:
            assert abs(before - after) <= abs(before) * mp.mpf(2) ** -39 + mp.mpf(2) ** -200


def test_the_trace_tells_which_rule_did_what_in_order() -> None:
    rules = [
        Rule("unfold", make("tanh", A), make("sinh", A) / make("cosh", A), "first"),
        Rule("halve", make("sinh", A), (make("exp", A) - make("exp", -A)) / 2, "then"),
    ]
    result, steps = rewrite(make("tanh", X), rules)
    assert steps == (
        Step("unfold", make("tanh", X), make("sinh", X) / make("cosh", X), "first"),
        Step("halve", make("sinh", X), (make("exp", X) - make("exp", -X)) / 2, "then"),
    )
    assert result is (make("exp", X) - make("exp", -X)) / 2 / make("cosh", X)


def test_rules_meet_what_other_rules_wrote_outside_and_inside() -> None:
    outer = Rule("outer", make("log", make("expm1", A)), make("relu", A), "needs the inner one")
    result, steps = rewrite(make("log", make("exp", X) - 1), [outer, EXPM1])
    assert result is make("relu", X)
    assert [s.rule for s in steps] == ["expm1", "outer"]


def test_a_rule_that_grows_or_cycles_ends() -> None:
    growing = Rule("growing", make("sin", A), make("sin", A) * make("cos", A), "contains its own pattern")
    there = Rule("there", make("sinh", A), make("cosh", A), "and back")
    back = Rule("back", make("cosh", A), make("sinh", A), "and there")
    for rules, root in (([growing], make("sin", X)), ([there, back], make("sinh", X))):
        _, steps = rewrite(root, rules)
        assert 0 < len(steps) <= 1000


def test_a_family_does_not_rewrite_its_own_results() -> None:
    split = Rule("split", make("exp", A), make("exp", A / 2) ** 2, "once", family="halves")
    result, steps = rewrite(make("exp", X), [split])
    assert result is make("exp", X / 2) ** 2
    assert len(steps) == 1


def test_deep_formulas_do_not_recurse() -> None:
    root: Expr = X
    for _ in range(3000):
        root = make("atan", root)
    assert rewrite(root + make("exp", X) - 1, [EXPM1])[0] is root + make("expm1", X)


def test_a_rewriter_remembers() -> None:
    rewriter = Rewriter([EXPM1])
    first, steps = rewriter(make("exp", X) - 1)
    assert steps
    assert rewriter(make("exp", X) - 1) == (first, ())


# ---------------------------------------------------------------------------------------------- single steps
def test_single_steps_apply_one_rule_at_one_place() -> None:
    root = make("sin", X) + make("sin", Y)
    found = single_steps(root, by_operation([SUBTLE]))
    assert {form for form, _ in found} == {X + make("sin", Y), make("sin", X) + Y}
    (only,) = single_steps(root, by_operation([SUBTLE]), {make("sin", Y)})
    assert only[0] is make("sin", X) + Y
    assert only[1] == Step("subtle", make("sin", Y), Y, SUBTLE.why)


def test_replacing_reaches_every_occurrence() -> None:
    inner = make("exp", X)
    root = inner * make("log", 1 + inner)
    assert replace(root, inner, Y) is Y * make("log", 1 + Y)
    assert inner not in topological(replace(root, inner, Z))


@SETTINGS
@given(expressions(*TENSORS))
def test_alternatives_offer_only_equal_forms(root: Expr) -> None:
    """Where both are well conditioned; a form that is not is compared before it is used."""
    true = well_conditioned(root)
    assume(true is not None)
    for form, step in single_steps(root, by_operation(ALTERNATIVES))[:30]:
        assert form is not root
        after = exact([form], POINT, 300)[0]
        agrees = mp.isfinite(after) and abs(after - true) <= abs(true) * mp.mpf(10) ** -9 + mp.mpf(10) ** -60
        assert agrees == Check([POINT])(root, form), step


def test_rules_are_found_by_their_operation() -> None:
    table = by_operation(ALL_RULES)
    assert sum(map(len, table.values())) == len(ALL_RULES)
    for operation, rules in table.items():
        for rule in rules:
            own = rule.operation if isinstance(rule, Transformation) else rule.pattern.op
            assert own == operation
    assert FLOAT32.precision < FLOAT64.precision
