"""Rewrite rules and derivatives of the function table are proven by the judge, but for those that are listed here."""

from __future__ import annotations

import random
from fractions import Fraction

import mpmath as mp

from symgrad.accuracy.evaluate import Environment
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import substitute
from symgrad.rules import ALL_RULES, Rule
from symgrad.rules.words import a as wildcard
from symgrad.rules.words import exp, log, sigmoid
from symgrad.symbolic.prove import Claim, Verdict, judge
from tests.ops.functions.test_functions import ROWS, arguments
from tests.rules.test_rules import CONSTANTS, wildcards

POINTS = 12
RULES = [r for r in ALL_RULES if isinstance(r, Rule) and not r.pattern.is_boolean]

# What agrees at all points to 50 digits, and why it is no proof.
UNPROVEN = {
    "acos-cos": "the inverse of a function that is not one-to-one is told by the interval of its argument",
    "acosh-near-one": "logarithms of sums of roots are equal by a square that the field does not see",
    "atan-difference": "an addition theorem of an inverse function, which holds on some intervals",
    "atan-difference-negated": "as the rule that it negates",
    "asec-near-one": "an arc cosine is not related to the arc tangent of a root",
    "acos-near-one": "an arc cosine is not related to the arcsine of a root",
    "erfinv-erf": "the inverse of an integral, of which the field knows the slope alone",
    "ndtri-ndtr": "as erfinv-erf",
    "tan-atan": "the tangent is a quotient of a sine and a cosine that the field does not relate to the arc",
    "sign-of-sine": "a root of 1 - cos(a)**2 is not related to the sine",
}
FAR = (-70.5, -8.25, 1 / 128, 8.25, 70.5)
APPROXIMATED = {"sinc": "about 0 the derivative is a polynomial, to the precision of float64"}


def on_rule(rule: Rule) -> Verdict:
    """What the judge finds of both sides of a rule, for one choice of its constants."""
    generator = random.Random(rule.name)
    free = wildcards(rule.pattern, rule.replacement)
    for _ in range(40):
        constants = {w: ex.num(generator.choice(CONSTANTS)) for w in free if w.name == "n"}
        tensors = {w: symbol(f"{w.name}_") for w in free if w not in constants}
        points = []
        for _ in range(POINTS):
            values = {w: Fraction(generator.uniform(*rule.domain)).limit_denominator(1000) for w in tensors}
            if rule.condition({**constants, **{w: ex.num(v) for w, v in values.items()}}):
                points.append({tensors[w]: mp.mpf(v.numerator) / v.denominator for w, v in values.items()})
        if points:
            sides = (substitute(side, {**constants, **tensors}) for side in (rule.pattern, rule.replacement))
            return judge(Claim(rule.name, *sides), points)
    return Verdict(rule.name, "unjudged", "no point meets its condition")


def test_rules_are_proven() -> None:
    left = {v.subject: v.outcome for v in map(on_rule, RULES) if v.outcome != "proven"}
    assert left == dict.fromkeys(UNPROVEN, "agrees")


def test_a_wrong_rule_is_refuted() -> None:
    wrong = [
        Rule("wrong-sign", log(1 + exp(wildcard)), make("softplus", -wildcard), "a planted mistake"),
        Rule("nearly", exp(wildcard) - exp(-wildcard), (2 + ex.num(1) / 10**9) * make("sinh", wildcard), "another"),
        Rule("wrong-tail", 1 - sigmoid(wildcard), sigmoid(wildcard), "a third"),
    ]
    assert {on_rule(rule).outcome for rule in wrong} == {"refuted"}


def on_slope(name: str, node: Expr, by: Expr, slope: Expr, points: list[Environment]) -> Verdict:
    """What the judge finds of a derivative of the function table."""
    return judge(Claim(f"{name} by {by.name}", node, slope, by), points)


def slopes(at: tuple[float, ...] = ()) -> list[Verdict]:
    """The verdicts on all derivatives, in the row's own sample or at given places of its domain."""
    found = []
    for row in ROWS:
        assert row.partials is not None
        args = arguments(row)
        generator = random.Random(row.name)
        free = [a for a in args if a.op == "sym"]
        low, high = row.domain
        points: list[Environment] = [{a: mp.mpf(generator.uniform(*row.sample)) for a in free} for _ in range(6)]
        points = [{a: mp.mpf(v) * (1 + k / 8) for k, a in enumerate(free)} for v in at if low < v < high] or points
        for by, slope in zip(args, row.partials(*args), strict=True):
            if by.op == "sym":
                found.append(on_slope(row.name, make(row.name, *args), by, slope, points))
    return found


def test_derivatives_of_functions_are_proven() -> None:
    left = {v.subject.split(" by ")[0]: v.outcome for v in slopes() if v.outcome != "proven"}
    assert left == dict.fromkeys(APPROXIMATED, "approximates")


def test_derivatives_are_right_far_out_where_they_are_spelled_otherwise() -> None:
    wrong = [verdict for verdict in slopes(FAR) if verdict.outcome == "refuted"]
    assert wrong == []
