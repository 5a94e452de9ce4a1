"""Every rewrite rule is proven: both sides agree at high precision over the rule's domain."""

from __future__ import annotations

import random
from fractions import Fraction

import mpmath as mp
import pytest

from symgrad.accuracy.evaluate import exact
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.pattern import is_wild
from symgrad.ir.traversal import substitute, topological
from symgrad.rules import ALL_RULES, Rule, Transformation
from symgrad.rules.algebra import exp_of_log_normal, larger_exp_difference
from symgrad.rules.alternatives import ALTERNATIVE_RULES
from symgrad.rules.constants import merged_roots, under_one_root
from symgrad.rules.mixtures import log_of_exponentials, log_of_logistic_interval
from symgrad.rules.output_reuse import OUTPUT_REUSE, Reuse
from symgrad.rules.products import GATHERED, log_of_varying_power, logarithms_apart
from symgrad.rules.sums import clamp_complement, equal_constants, opened_sum
from symgrad.rules.words import a as wildcard
from symgrad.rules.words import exp, log, sigmoid

RULES = [rule for rule in ALL_RULES if isinstance(rule, Rule)]
X, Y = symbol("x"), symbol("y")
ALPHA = symbol("alpha", "float")


CONSTANTS = [Fraction(n, d) for n, d in ((1, 1), (2, 1), (3, 1), (4, 1), (-1, 1), (-2, 1), (1, 2), (3, 2), (-1, 2))]


def wildcards(*sides: Expr) -> list[Expr]:
    return sorted({s for side in sides for s in side.symbols if is_wild(s)}, key=lambda s: s.name)


def disagreements(rule: Rule, samples: int = 60) -> tuple[int, list[str]]:
    """How many points of the rule's domain were decided, and those at which the sides differ, with both."""
    generator = random.Random(rule.name)
    free = wildcards(rule.pattern, rule.replacement)
    decided, wrong = 0, []
    for _ in range(samples):
        point: dict[Expr, object] = {}
        bindings: dict[Expr, Expr] = {}
        for w in free:
            value = Fraction(generator.randint(-4000, 4000), 1000)
            value = (
                Fraction(rule.domain[0]).limit_denominator()
                + (value + 4) / 8 * Fraction(rule.domain[1] - rule.domain[0]).limit_denominator()
            )
            if w.name == "n":  # exponents and constants, which a condition may restrict
                value = generator.choice(CONSTANTS)
            bindings[w] = ex.num(value)
            point[w] = mp.mpf(value.numerator) / value.denominator
        if not rule.condition(bindings):
            continue
        before, after = exact([rule.pattern, rule.replacement], point, 400)
        if isinstance(before, bool):
            same = before == after
        elif mp.isfinite(before):
            same = mp.isfinite(after) and abs(before - after) <= abs(before) * mp.mpf(2) ** -200 + mp.mpf(2) ** -300
        else:
            continue
        decided += 1
        if not same:
            place = ", ".join(f"{w} = {value}" for w, value in bindings.items())
            sides = (v if isinstance(v, bool) else mp.nstr(v, 9) for v in (before, after))
            wrong.append("at {}: {} on the left, {} on the right".format(place, *sides))
    return decided, wrong


@pytest.mark.parametrize("rule", RULES, ids=[r.name for r in RULES])
def test_both_sides_of_a_rule_agree(rule: Rule) -> None:
    decided, wrong = disagreements(rule)
    assert decided >= 8, "the domain of the proof hardly meets the rule"
    assert not wrong, wrong[0]


@pytest.mark.parametrize(
    "rule",
    [
        Rule("wrong-sign", log(1 + exp(wildcard)), make("softplus", -wildcard), "a planted mistake"),
        Rule("lost-factor", exp(wildcard) - exp(-wildcard), make("sinh", wildcard), "a planted mistake"),
        Rule("wrong-tail", 1 - sigmoid(wildcard), sigmoid(wildcard), "a planted mistake"),
    ],
    ids=lambda r: r.name,
)
def test_a_wrong_rule_is_noticed(rule: Rule) -> None:
    assert disagreements(rule)[1]


def test_names_of_rules_are_unique_and_every_rule_says_why() -> None:
    names = [r.name for r in ALL_RULES]
    assert len(names) == len(set(names))
    assert all(r.why for r in ALL_RULES)


@pytest.mark.parametrize("rule", RULES, ids=[r.name for r in RULES])
def test_a_rule_applies_to_its_own_pattern(rule: Rule) -> None:
    """With distinct symbols for its wildcards, unless a condition or the constructors forbid it."""
    concrete = {w: (ex.num(3) if w.name == "n" else symbol(f"{w.name}_")) for w in wildcards(rule.pattern)}
    node = substitute(rule.pattern, concrete)
    if node.op == rule.pattern.op and rule.condition(concrete) and len(node.args) == len(rule.pattern.args):
        assert rule.apply(node) is not None


TRANSFORMATIONS = [rule for rule in ALL_RULES if isinstance(rule, Transformation)]
SUBJECTS = (
    1 / (1 + X) + X / (1 + Y),
    2 * X / (1 + X**2) - 2 * X**3 / (1 + X**2) ** 2,
    X * Y + X * exp(X) + X,
    X**2 - 2 * X * Y + Y**2,
    exp(X) / (exp(X) + exp(Y)),
    (X + 1) ** 2 - X**2,
    X * exp(Y) * sigmoid(X) + Y * exp(Y) * sigmoid(X),
    truth.where(truth.compare("lt", X, 1), X * exp(X), X * exp(Y)),
    truth.where(truth.compare("lt", X, 1), 1, exp(X) * Y),
    truth.where(truth.compare("lt", X, 0), 1 - X, 1 + X) + truth.where(truth.compare("lt", X, 0), Y, 1),
    truth.where(
        truth.compare("gt", X, 0),
        truth.where(truth.compare("lt", Y, 0), X, Y),
        truth.where(truth.compare("lt", X, 0), Y, X),
    ),
    truth.where(truth.compare("gt", X, 0), 1 / X, -1 / Y),
    Y * exp(X**2) * make("erfc", X),
    exp(Y - X**2 / 2) / make("erfc", X / ex.sqrt(ex.num(2))),
    exp(Y - X**2 / 2 - make("log_ndtr", -X)),
    X - (X - Y) + 1,
    X * ex.sqrt(2 / ex.PI) - 2 * X * ex.sqrt(1 / (2 * ex.PI)) + Y,
    X * Y / (X * exp(Y)),
    X**2 * (Y / X**2 - 2),
    X / (1 - X) + 1,
    1 - make("clamp", X, ex.num(-9), 1 - Y) + X,
    Y * exp(X) - Y * exp(X + Y),
    log(2 * exp(X) / 3 + sigmoid(Y) * exp(-Y) + 1),
    X * ex.sqrt(ex.num(2)) * ex.sqrt(ex.PI) / ex.sqrt(3 * ex.PI),
)


def test_a_difference_of_exponentials_by_the_larger_overflows_only_where_it_is_too_large() -> None:
    found = larger_exp_difference(exp(X) - exp(Y))
    assert found is not None
    condition, falling, rising = found.args
    assert condition is truth.compare("gt", X - Y, 0)
    for branch, larger, difference in ((falling, X, ex.mul(-1, X - Y)), (rising, Y, X - Y)):
        assert {n for n in topological(branch) if n.op in ("exp", "expm1")} == {exp(larger), make("expm1", difference)}


def test_a_bound_that_is_rounded_gives_way_to_the_one_that_is_given() -> None:
    eps = symbol("eps", "float")
    one = ex.num(1)
    assert clamp_complement(1 - make("clamp", X, ex.ZERO, 1 - eps)) is make("clamp", 1 - X, eps, one)
    assert clamp_complement(Y + 1 - make("clamp", X, -ex.OO, 1 - eps)) is Y + make("clamp", 1 - X, eps, ex.OO)
    for kept in (
        1 - make("clamp", X, ex.ZERO, one),
        1 + make("clamp", X, ex.ZERO, 1 - eps),
        1 - make("clamp", X, eps, one),
    ):
        assert clamp_complement(kept) is None


@pytest.mark.parametrize("rule", TRANSFORMATIONS, ids=[r.name for r in TRANSFORMATIONS])
def test_a_transformation_keeps_the_value(rule: Transformation) -> None:
    for subject in SUBJECTS:
        for node in topological(subject):
            result = rule.apply(node) if node.op == rule.operation else None
            if result is None:
                continue
            for x, y in ((0.7, 1.9), (-1.3, 0.4), (2.5, -3.1)):
                before, after = exact([node, result], {X: x, Y: y}, 300)
                assert abs(before - after) <= abs(before) * mp.mpf(2) ** -150


@pytest.mark.parametrize(
    "name, given, result",
    [
        ("factors", X * Y / (X * exp(Y)), Y / exp(Y)),
        ("factors", X / (X / Y), Y),
        ("factors", X**2 * Y / (X * exp(Y)) ** 2, Y / exp(Y) ** 2),
        ("factors", exp(X) * Y / (X * exp(Y)), None),
        ("divisors", X**2 * (Y / X**2 - 2), Y - 2 * X**2),
        ("divisors", X * (Y / exp(X) - 2), None),
        ("terms", X / (1 - X) + 1, 1 / (1 - X)),
        ("terms", X / (1 - X) + Y, None),
        ("whole", X / Y / (X / Y), ex.ONE),
        ("whole", exp(X) * X**2 * Y**-4 / (X / Y**2) ** 2, exp(X)),
        ("whole", X / (X / Y), None),
    ],
)
def test_what_cancels_leaves_a_fraction_and_nothing_else_does(name: str, given: Expr, result: Expr | None) -> None:
    (rule,) = (r for r in ALL_RULES if r.name == f"cancelled-{name}")
    assert rule.apply(given) is result


@pytest.mark.parametrize(
    ("given", "result"),
    [
        (X * (X / Y) ** 5 / Y**2, (X / Y) ** 6 / Y),
        (exp(X) * (X * Y) ** 3 * X**2 * Y, exp(X) * (X * Y) ** 4 * X),
        (X * (X / Y) ** 5, None),
        ((X / Y) ** 5 * X * Y, None),
    ],
)
def test_a_power_of_a_quotient_takes_in_what_it_is_multiplied_by(given: Expr, result: Expr | None) -> None:
    assert GATHERED.apply(given) is result


@pytest.mark.parametrize(
    ("given", "result"),
    [
        (log(X * Y**3 / exp(X)), log(X) + 3 * log(Y) - log(exp(X))),
        (log((X / Y) ** (Y - 1) * 2), (Y - 1) * log(X / Y) + log(2)),
        (log(X**Y), Y * log(X)),
        (log(1 + X), None),
    ],
)
def test_the_logarithm_of_a_product_is_taken_apart(given: Expr, result: Expr | None) -> None:
    assert logarithms_apart(given) is result
    varies = any(n.op == "pow" and n.args[1].number is None for n in topological(given))
    assert log_of_varying_power(given) is (result if varies else None), "numbers as exponents are no danger before"
    if result is not None:
        before, after = exact([given, result], {X: 1.7, Y: 2.3}, 300)
        assert abs(before - after) <= mp.mpf(2) ** -200


@pytest.mark.parametrize("row", OUTPUT_REUSE, ids=[r.output.op for r in OUTPUT_REUSE])
def test_a_derivative_in_terms_of_the_output_is_that_derivative(row: Reuse) -> None:
    for values in ((0.4, 1.7), (1.3, 0.2), (2.9, 2.2)):
        point = dict(zip(wildcards(row.output), values, strict=False))
        part, replacement = exact([row.part, row.replacement], point, 300)
        same = (
            part == replacement if isinstance(part, bool) else abs(part - replacement) <= abs(part) * mp.mpf(2) ** -150
        )
        assert same


def test_roots_of_constants_are_one_and_cancel() -> None:
    two, pi = ex.num(2), ex.PI
    found = merged_roots(X * ex.sqrt(two) * ex.sqrt(pi) * Y)
    assert found is X * Y * ex.sqrt(2 * pi)
    assert merged_roots(X * ex.sqrt(two) * ex.sqrt(pi) / ex.sqrt(2 * pi)) is X
    assert merged_roots(X * ex.sqrt(ex.num(-2)) * ex.sqrt(ex.num(3))) is None, "roots of negative numbers are undefined"
    assert merged_roots(X * ex.sqrt(two) * ex.sqrt(Y)) is None


def test_terms_that_are_equal_in_another_spelling_cancel() -> None:
    assert opened_sum(X - (X - Y)) is Y
    assert opened_sum(2 * exp(X) - 2 * (exp(X) - Y) + 1) is 2 * Y + 1
    assert opened_sum(X - (Y - 1)) is None, "nothing cancels"
    density = exp(-(X**2))
    assert equal_constants(density * ex.sqrt(2 / ex.PI) - 2 * density * ex.sqrt(1 / (2 * ex.PI)) + Y) is Y
    assert equal_constants(density * ex.sqrt(2 / ex.PI) - density * ex.sqrt(1 / (2 * ex.PI))) is None
    assert equal_constants(density * ALPHA - density * ex.PI) is None, "a hyperparameter may have any value"
    zeros = make("lgamma", ex.num(1)), make("lgamma", ex.num(2))
    assert equal_constants(density * zeros[0] - density * zeros[1] + Y) is Y


def test_the_exponential_of_a_normal_tail_loses_no_digits() -> None:
    """x**2/2 is beyond what the logarithm of the tail can be told apart from."""
    ratio = exp(-(X**2) / 2 - make("log_ndtr", -X))
    found = exp_of_log_normal(ratio)
    assert found is not None
    assert {n.op for n in topological(found)} & {"exp", "log_ndtr"} == set()
    assert exp_of_log_normal(exp(Y + make("log_ndtr", X))) is None


def test_a_mixture_of_densities_that_all_underflow_has_a_logarithm() -> None:
    found = log_of_exponentials(log(exp(X) * sigmoid(Y) + exp(-Y) / 2))
    assert found is not None
    assert {n.op for n in topological(found)} >= {"logaddexp", "log"}
    assert exact([found], {X: -1e6, Y: 1e6}, 60)[0] < -1e5
    assert log_of_exponentials(log(exp(X) / Y + exp(-X))) is not None
    assert log_of_exponentials(log(exp(X) * Y + exp(-X))) is None, "at Y = 0 its derivative would be no number"
    assert log_of_exponentials(log(exp(X) - exp(Y))) is None
    assert log_of_exponentials(log(1 + exp(X))) is None, "softplus is one function"


def test_the_probability_of_a_logistic_interval_has_a_logarithm_where_it_underflows() -> None:
    width = ex.num(Fraction(1, 255))
    found = log_of_logistic_interval(log(2 * sigmoid(Y * (X + width)) - 2 * sigmoid(Y * (X - width))))
    assert found is not None
    for x, y in ((-3.0, 7.0), (0.0, 0.01), (900.0, 4.0)):
        before = log(2 * sigmoid(Y * (X + width)) - 2 * sigmoid(Y * (X - width)))
        want, got = exact([before, found], {X: x, Y: y}, 8000)
        assert abs(want - got) <= abs(want) * mp.mpf(2) ** -200
    assert any(n.op == "expm1" and X not in n.symbols for n in topological(found)), "the width is what is left"
    assert log_of_logistic_interval(log(sigmoid(X) + sigmoid(Y))) is None
    assert log_of_logistic_interval(log(sigmoid(X) - sigmoid(Y) / 2)) is None


def test_roots_of_constants_are_one_which_divides_where_all_did() -> None:
    x = symbol("x")
    assert under_one_root(x / ex.sqrt(ex.num(2)) / ex.sqrt(ex.PI)) == x / ex.sqrt(2 * ex.PI)
    assert under_one_root(x * ex.sqrt(2 * ex.PI) / ex.sqrt(ex.num(2))) == x * ex.sqrt(ex.PI)
    assert under_one_root(x / ex.sqrt(ex.num(2))) == x / ex.sqrt(ex.num(2))


@pytest.mark.parametrize("name", ["root-minus", "root-complement"])
def test_a_number_that_is_added_to_a_root_is_not_taken_for_what_cancels_it(name: str) -> None:
    """Of Adam's step, (v - eps**2) / (sqrt(v) - eps) is NaN where the root is eps, and has few digits beside it."""
    (rule,) = (r for r in ALTERNATIVE_RULES if r.name == name)
    v, y, eps = ex.symbol("v"), ex.symbol("y"), ex.symbol("eps", "float")
    sign = 1 if name == "root-minus" else -1
    assert rule.apply(sign * (ex.sqrt(v) + eps)) is None
    assert rule.apply(sign * ex.sqrt(v) - sign * eps) is not None
    assert rule.apply(sign * ex.sqrt(v) + sign * y) is not None, "a tensor may be negative"
