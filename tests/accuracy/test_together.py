"""Forms chosen together: they never cost more than those chosen apart, and err by little more than the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from random_expressions import X, Y

from symgrad.accuracy.candidates import Candidate, Choice
from symgrad.accuracy.choose import choose
from symgrad.accuracy.cost import cost
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64
from symgrad.accuracy.measure import PRECISIONS, Judge
from symgrad.accuracy.sampling import ALL_REALS, sample_points
from symgrad.accuracy.together import Member, Worth, together
from symgrad.differentiate.modes import partials
from symgrad.ir.expr import Expr, make, num
from symgrad.ir.traversal import topological
from symgrad.spec.interval import Interval, parse_interval

Z = make("sym", name="z", kind="tensor")
POSITIVE = parse_interval("[0.001, 1000]")
K = num(Fraction(44715, 10**6))
CUBIC = (2 * (X + K * X**3), 2 * X * (1 + K * X**2))  # the same in two spellings

FORMULAS = {
    "two spellings": make("sigmoid", CUBIC[0]) * Y + Z,
    "ratio": (X - Y) / Z * make("log1p", ((X - Y) / Z) ** 2),
    "density": -make("log", Z) - make("log1p", ((X - Y) / Z) ** 2),
    "angle": make("sin", X / Z) * make("exp", -Y / Z),
    "exponentials": make("exp", X) / (make("exp", X) + make("exp", Y)) * Z,
}


def member(formula: Expr, *, is_value: bool = True, **domains: Interval) -> Member:
    """A formula with its own best form."""
    intervals = {s: domains.get(s.name, ALL_REALS) for s in sorted(formula.tensors, key=lambda s: s.name)}
    judge = Judge(formula, sample_points(intervals, {}, 64))
    return Member(choose(formula, judge), judge, {}, is_value)


def with_partials(formula: Expr) -> list[Member]:
    derived = partials(formula, [X, Y, Z])
    own = (member(p, is_value=False, z=POSITIVE) for p in derived.values() if p.tensors)
    return [member(formula, z=POSITIVE), *own]


def chosen(choices: list[Choice]) -> list[Expr]:
    return [c.chosen.form for c in choices]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", FORMULAS)
def test_the_joint_choice_never_costs_more_and_is_within_two_ulp(name: str, fused: bool) -> None:
    members, worth = with_partials(FORMULAS[name]), Worth(fused)
    joint = together(members, worth)
    before = worth(members, [m.choice.chosen for m in members])
    assert worth(members, [c.chosen for c in joint]) <= before
    for m, found in zip(members, joint, strict=True):
        assert m.judge.check(m.choice.formula, found.chosen.form)
        own, best = m.judge.score(found.chosen.form, FLOAT32), m.choice.chosen.float32
        assert own.failures <= best.failures
        assert own.ulp <= max(best.ulp, min(best.ulp + 2, m.judge.precision.acceptable))
        assert m.judge.score(found.chosen.form, FLOAT64).failures <= m.choice.chosen.float64.failures


def test_what_is_spelled_in_two_ways_is_computed_once() -> None:
    members = [member(make("sigmoid", c) * f) for c, f in zip(CUBIC, (X, 3 - X), strict=True)]
    first, second = chosen(together(members, Worth(fused=False)))
    gates = {n for form in (first, second) for n in topological(form) if n.op == "sigmoid"}
    assert len(gates) == 1
    assert cost(first, second) < cost(*chosen([m.choice for m in members]))


def apart_and_shared() -> tuple[Member, Member, Member]:
    """Two quotients, and a sum of both for which one division is cheaper while it stands alone."""
    total = member((X + Y) / Z, z=POSITIVE)
    choice = replace(total.choice, others=((X / Z + Y / Z, ()),))
    return member(X / Z, z=POSITIVE), member(Y / Z, z=POSITIVE), replace(total, choice=choice)


def test_sharing_flips_the_choice() -> None:
    one, other, total = apart_and_shared()
    assert chosen(together([total], Worth(fused=False))) == [(X + Y) / Z]
    assert chosen(together([one, total], Worth(fused=False)))[-1] is (X + Y) / Z
    assert chosen(together([one, other, total], Worth(fused=False)))[-1] is X / Z + Y / Z


def test_a_form_that_is_noise_beside_small_differences_is_left_out() -> None:
    """(x - y) / z is exact where x and y are nearly equal."""
    whole = member((X - Y) / Z, z=POSITIVE)
    apart = replace(whole, choice=replace(whole.choice, others=((X / Z - Y / Z, ()),)))
    shared = [member(X / Z, z=POSITIVE), member(Y / Z, z=POSITIVE), apart]
    assert chosen(together(shared, Worth(fused=False)))[-1] is (X - Y) / Z


def test_a_form_that_errs_more_is_left_out() -> None:
    one, other, total = apart_and_shared()
    precision = replace(PRECISIONS["auto"], explained=0.0)  # what cancels is no excuse then
    exact = Judge(total.choice.formula, total.judge.sample, precision)
    strict = replace(total, judge=exact)
    assert exact.score(X / Z + Y / Z, FLOAT32).ulp > 100
    assert chosen(together([one, other, strict], Worth(fused=False)))[-1] is (X + Y) / Z


def test_the_trials_of_a_large_formula_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a form costs is asked of all forms together: without a bound that is quadratic in their number."""
    asked: list[int] = []

    class Counting(Worth):
        def __call__(self, members: Sequence[Member], forms: Sequence[Candidate]) -> float:
            asked[-1] += 1
            return super().__call__(members, forms)

    members = with_partials(FORMULAS["density"])
    for effort in (10**6, 0):
        monkeypatch.setattr("symgrad.accuracy.together._EFFORT", effort)
        monkeypatch.setattr("symgrad.accuracy.together._LEAST_TRIED", 1)
        asked.append(0)
        together(members, Counting(fused=False))
    assert asked[1] < asked[0]
