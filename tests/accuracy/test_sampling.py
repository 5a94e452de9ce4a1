"""Where formulas are measured: inside the domain, at its ends, near kinks, and the same everywhere."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from itertools import pairwise, product
from pathlib import Path

import pytest
import torch
from compiled import compiled_text
from effort import at_most
from hypothesis import given, settings
from hypothesis import strategies as st
from random_expressions import ALPHA, FLAG, MODE, X, Y, Z

import symgrad
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Format
from symgrad.accuracy.sampling import ALL_REALS, at_round_numbers, magnitudes, sample_points, some_of
from symgrad.ir.expr import Expr, symbol
from symgrad.spec.interval import Interval, parse_interval

DOMAINS = [
    ALL_REALS,
    *map(parse_interval, ["(0, oo)", "[0, oo)", "(-oo, 0)", "(-oo, -3]", "(-1, 1)", "[-1, 1]", "[2, 2]", "(0, 1e-6)"]),
    *map(parse_interval, ["(5, 6)", "[1e10, oo)", "(-pi/2, pi/2)", "(-1e30, 1e30)", "[0, 255]", "(1, oo)"]),
]


def intervals() -> st.SearchStrategy[Interval]:
    ends = st.floats(-1e20, 1e20, allow_nan=False)
    return st.tuples(ends, ends, st.booleans(), st.booleans()).map(
        lambda v: Interval(min(v[:2]), max(v[:2]) + max(1e-3, abs(max(v[:2])) * 1e-3), v[2], v[3])
    )


def check_inside(domain: Interval, target: Format) -> None:
    points = sample_points({X: domain}, {}, 400)[target]
    assert points
    for point in points:
        value = point[X]
        assert value in domain
        assert target.round(value) == value, "a number of the format"
        assert math.isfinite(value)


@pytest.mark.parametrize("target", [FLOAT32, FLOAT64], ids=["float32", "float64"])
@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_points_lie_in_the_domain(domain: Interval, target: Format) -> None:
    check_inside(domain, target)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(intervals())
def test_points_lie_in_any_domain(domain: Interval) -> None:
    check_inside(domain, FLOAT32)
    check_inside(domain, FLOAT64)


def values(domain: Interval, target: Format = FLOAT32, most: int = 400) -> list[float]:
    return sorted({p[X] for p in sample_points({X: domain}, {}, most)[target]})


def test_all_reals_are_met_at_every_magnitude_and_sign() -> None:
    found = values(ALL_REALS)
    assert 0.0 in found
    assert found[0] < -1e29
    assert found[-1] > 1e29
    for bound in (1e-31, 1e-13, 1e-5, 1e-2, 0.5, 2, 20, 88, 200, 1e3, 1e8, 1e12, 1e18, 1e21):
        assert any(bound < v < 100 * bound for v in found), bound
        assert any(-100 * bound < v < -bound for v in found), bound
    near_one = [v for v in found if 0 < abs(v - 1) < 1e-3]
    assert any(v > 1 for v in near_one)
    assert any(v < 1 for v in near_one)
    assert len([v for v in found if 0.1 < abs(v) < 8]) > 40


def test_samples_have_all_their_digits() -> None:
    """No sample is so round that a cancellation happens to be exact there."""
    found = values(ALL_REALS, FLOAT64)
    long = [v for v in found if v and len(repr(v)) > 9]
    assert len(long) > len(found) / 3


@pytest.mark.parametrize("domain", ["(-1, 1)", "(0, 1)", "(3, 7)", "(-pi/2, pi/2)"])
def test_the_ends_of_a_bounded_domain_are_approached(domain: str) -> None:
    within = parse_interval(domain)
    found = values(within, FLOAT64)
    width = within.upper - within.lower
    assert min(v - within.lower for v in found) <= 1e-8 * width
    assert min(within.upper - v for v in found) <= 1e-8 * width


def test_closed_ends_belong_to_the_sample() -> None:
    found = values(parse_interval("[0, oo)"))
    assert found[0] == 0
    assert values(parse_interval("[-1, 1]"))[0] == -1
    assert values(parse_interval("[-1, 1]"))[-1] == 1
    assert values(parse_interval("(-oo, -3]"))[-1] == -3
    assert values(parse_interval("[2, 2]")) == [2]


def test_half_lines_are_approached_and_followed_far_out() -> None:
    found = values(parse_interval("(0, oo)"), FLOAT64)
    assert 0 < found[0] <= 1e-29
    assert found[-1] >= 1e29
    shifted = values(parse_interval("(1, oo)"), FLOAT64)
    assert 0 < shifted[0] - 1 < 1e-11
    assert shifted[-1] >= 1e29


def test_several_tensors_are_swept_alone_and_together() -> None:
    points = sample_points({X: ALL_REALS, Y: parse_interval("(0, oo)"), Z: parse_interval("[-1, 1]")}, {}, 10_000)
    found = points[FLOAT32]
    assert all(set(p) == {X, Y, Z} for p in found)
    assert any(abs(p[X]) > 1e20 and 0.05 < p[Y] < 10 for p in found), "one extreme beside moderate ones"
    assert any(abs(p[X]) > 1e12 and (p[Y] > 1e12 or p[Y] < 1e-7) for p in found), "extreme together"
    assert {p[Z] for p in found} >= {-1.0, 1.0}


def test_settings_are_cycled_through() -> None:
    scalars = {ALPHA: [0.5, 2.0], FLAG: [True, False], MODE: ["a", "b", "c"]}
    points = sample_points({X: ALL_REALS}, scalars, 96)[FLOAT64]
    assert {(p[ALPHA], p[FLAG], p[MODE]) for p in points} == {
        (a, f, m) for a in (0.5, 2.0) for f in (True, False) for m in "abc"
    }


def test_integers_and_masks() -> None:
    count, mask = symbol("count", "int_tensor"), symbol("mask", "bool_tensor")
    points = sample_points({count: parse_interval("[0, 3]"), mask: ALL_REALS, X: ALL_REALS}, {}, 500)[FLOAT32]
    assert {p[count] for p in points} == {0.0, 1.0, 2.0, 3.0}
    assert {p[mask] for p in points} == {True, False}


@pytest.mark.parametrize(
    "domain, expected",
    [("[10, 20]", {10.0, 11.0, 12.0, 14.0}), ("(-oo, -5]", {-5.0, -6.0, -7.0, -9.0}), ("[3, 3]", {3.0})],
)
def test_integers_far_from_0(domain: str, expected: set[float]) -> None:
    count = symbol("count", "int_tensor")
    points = sample_points({count: parse_interval(domain), X: ALL_REALS}, {}, 500)[FLOAT32]
    assert {p[count] for p in points} == expected


@pytest.mark.parametrize("most", [1, 4, 24, 96, 240])
def test_at_most_as_many_as_wanted_evenly_thinned(most: int) -> None:
    whole = sample_points({X: ALL_REALS}, {}, 10_000)[FLOAT32]
    thinned = sample_points({X: ALL_REALS}, {}, most)[FLOAT32]
    assert len(thinned) == min(most, len(whole))
    order = [whole.index(p) for p in thinned]
    assert order == sorted(order)
    gaps = {b - a for a, b in pairwise(order)}
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_a_domain_that_no_magnitude_meets_has_its_middle() -> None:
    narrow = Interval(1.9e35, 2.1e35, True, True)
    assert all(v in narrow for v in magnitudes((), narrow, FLOAT32))
    assert magnitudes((), Interval(-3.0, -1.0, True, True), FLOAT64) == (-2.0,)


def test_the_same_points_in_every_process() -> None:
    code = (
        "from symgrad.ir.expr import symbol\nfrom symgrad.accuracy.sampling import ALL_REALS, sample_points\n"
        "from symgrad.accuracy.evaluate import FLOAT32\n"
        "names = {symbol(n): ALL_REALS for n in 'xy'}\n"
        "print([sorted((s.name, v) for s, v in p.items()) for p in sample_points(names, {}, 99)[FLOAT32]])"
    )
    seen = set()
    for seed in ("0", "99"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(symgrad.__file__).parents[1])}
        seen.add(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout)
    assert len(seen) == 1


def test_a_sample_is_not_shared_between_calls() -> None:
    tensors: dict[Expr, Interval] = {X: ALL_REALS}
    first = sample_points(tensors, {}, 50)
    assert first == sample_points(tensors, {}, 50)
    assert first is not sample_points(tensors, {}, 50)


def test_any_signs_meet_beside_a_large_number() -> None:
    """A mask that is computed, and what overflows below zero: by turns, one would never see the other."""
    found = sample_points(dict.fromkeys((X, Y), ALL_REALS), {}, 256, signs=True)[FLOAT32]
    for large, other in ((X, Y), (Y, X)):
        sides = {(p[large] > 0, p[other] > 0) for p in found if 88 < abs(p[large]) < 1e4}
        assert len(sides) == 4, large


def test_tensors_are_met_where_they_are_nearly_equal() -> None:
    """Where what a difference of products loses is not forgiven as conditioning."""
    found = sample_points({X: ALL_REALS, Y: ALL_REALS}, {}, 256)[FLOAT32]
    close = [(p[X], p[Y]) for p in found if p[X] and 0 < abs(p[X] - p[Y]) < 1e-2 * abs(p[X])]
    assert len(close) >= 12
    assert any(abs(x) > 50 for x, _ in close)
    assert any(abs(x) < 0.1 for x, _ in close)
    assert any(abs(x - y) < 1e-4 * abs(x) for x, y in close)


def test_tensors_are_met_where_they_are_nearly_opposite() -> None:
    """Where the expanded square of a sum loses digits that the sum itself keeps."""
    found = sample_points({X: ALL_REALS, Y: ALL_REALS}, {}, 256)[FLOAT32]
    close = [(p[X], p[Y]) for p in found if p[X] and 0 < abs(p[X] + p[Y]) < 1e-2 * abs(p[X])]
    assert len(close) >= 6
    assert any(abs(x) > 50 for x, _ in close)
    positive = sample_points(dict.fromkeys((X, Y), parse_interval("(0, oo)")), {}, 256)[FLOAT32]
    assert len([p for p in positive if 0 < abs(p[X] - p[Y]) < 1e-2 * p[X]]) >= 12


def test_a_sum_of_a_product_and_a_bias_is_not_expanded() -> None:
    tensors = "{x: {shape: [N, K]}, w: {shape: [K, O]}, b: {shape: [O]}}"
    item = compiled_text(f"{{op: f, tensors: {tensors}, outputs: {{y: gelu(x @ w + b)}}}}")
    x, bias = torch.tensor([[101.3], [-30.7], [55.2]], requires_grad=True), torch.tensor([-100.9, 30.1, -55.3])
    for b in bias:
        (own,) = torch.autograd.grad(item.function(x, torch.ones(1, 1), b[None]).sum(), x)
        wide = x.detach().double().requires_grad_()
        (true,) = torch.autograd.grad(torch.nn.functional.gelu(wide + b.double()).sum(), wide)
        torch.testing.assert_close(own.double(), true, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("most", [64, 256])
def test_zero_survives_the_thinning(most: int) -> None:
    positive = parse_interval("(0, oo)")
    for domain in (ALL_REALS, parse_interval("[0, oo)")):
        points = sample_points({X: positive, Y: domain, Z: positive}, {}, most, powers=True)[FLOAT32]
        assert len(points) <= most
        assert len([p for p in points if p[Y] == 0 and p[X] != 1]) > 1
        assert all(p[X] > 0 and p[Z] > 0 for p in points)


def test_powers_of_negative_numbers_are_real_at_some_points() -> None:
    points = sample_points({X: ALL_REALS, Y: ALL_REALS}, {}, 64, powers=True)[FLOAT64]
    assert any(p[X] < 0 and p[Y] < 0 and p[Y].is_integer() for p in points)
    assert any(p[X] < 0 < p[Y] and p[Y].is_integer() for p in points)


def test_ratios_of_extreme_tensors_are_ordinary_at_some_points() -> None:
    positive = Interval(0.0, math.inf, True, True)
    points = sample_points({X: ALL_REALS, Y: positive}, {}, 64, ratios=True)[FLOAT32]
    for size in (1e30, 1e-30):
        assert any(0.5 < abs(p[X]) / size < 2 and 0.5 < p[Y] / size < 2 for p in points)
    assert points[:64] == sample_points({X: ALL_REALS, Y: positive}, {}, 64)[FLOAT32]
    assert sample_points({X: ALL_REALS}, {}, 64, ratios=True) == sample_points({X: ALL_REALS}, {}, 64)


def test_ends_of_a_domain_are_met_with_several_settings() -> None:
    points = sample_points({X: parse_interval("(-oo, 0]")}, {ALPHA: [2.0, 0.75, 1.5]}, 64)[FLOAT32]
    assert {p[ALPHA] for p in points if p[X] == 0} == {2.0, 0.75, 1.5}


def test_two_tensors_are_zero_together() -> None:
    """A ratio of them is no number then, and the formula may be one: s / (i + k*s + 1) is 0."""
    s, i, k = (symbol(name) for name in "sik")
    points = sample_points(dict.fromkeys((s, i, k), parse_interval("[0, oo)")), {})[FLOAT64]
    assert {(0, 1), (0, 2), (1, 2)} <= {tuple(n for n, t in enumerate((s, i, k)) if p[t] == 0) for p in points}


def test_a_form_has_a_value_where_two_tensors_are_zero() -> None:
    tensors = "{s: {domain: '[0, oo)'}, v: , k: {domain: '(0, oo)'}, i: {domain: '[0, oo)'}}"
    item = compiled_text(f"{{op: f, tensors: {tensors}, outputs: {{rate: v*s/(k*(1 + i/2) + s)}}}}")
    zero, one = torch.zeros(2), torch.ones(2)
    assert item.function(zero, one, one, zero).tolist() == [0.0, 0.0]


def test_few_combinations_are_all_there_in_order() -> None:
    values = [[1, 2, 3], ["a"], [True, False]]
    assert some_of(values, 6) == list(product(*values))
    assert some_of([], 6) == [()]


def test_of_many_combinations_some_are_taken_from_everywhere() -> None:
    values = [[True, False]] * 24
    with at_most(calls=10_000):
        found = some_of(values, 100)
    assert len(set(found)) == 100
    assert all({combination[k] for combination in found} == {True, False} for k in range(24))


def test_points_for_many_hyperparameters_take_no_more_than_for_few() -> None:
    scalars = {symbol(f"b{k}", "bool"): [True, False] for k in range(24)}
    with at_most(calls=200_000):
        points = sample_points({symbol("x"): ALL_REALS}, scalars)
    assert all(scalars.keys() <= point.keys() for point in points[FLOAT32])


def test_round_numbers_are_those_inside_of_domains_together() -> None:
    points = [{X: 0.3, Y: 7.0, ALPHA: 0.25}, {X: 0.4, Y: 8.0, ALPHA: 0.5}]
    found = at_round_numbers(points, {X: ALL_REALS, Y: parse_interval("(0, 2]")}, 25)
    assert {(p[X], p[Y]) for p in found} == set(product((0, 1, -1, 0.5, -0.5, 2, -2, 3, -3), (1, 0.5, 2)))
    assert {p[ALPHA] for p in found} == {0.25, 0.5}
    assert all(p[Y] in parse_interval("(5, 6)") for p in at_round_numbers(points, {Y: parse_interval("(5, 6)")}))
    assert at_round_numbers(points, {}) == at_round_numbers([], {X: ALL_REALS}) == []
