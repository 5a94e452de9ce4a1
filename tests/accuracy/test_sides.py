"""Masks are conditions that nothing else depends on, and each of their sides is sampled as well as any."""

from __future__ import annotations

from fractions import Fraction

from random_expressions import X, Y, Z

from symgrad.accuracy.evaluate import FLOAT32
from symgrad.accuracy.sampling import ALL_REALS, sample_points
from symgrad.accuracy.sides import equalities, jumps, masks, sides
from symgrad.ir import expr as ex
from symgrad.ir.expr import make, symbol
from symgrad.ir.truth import compare, where

POSITIVE = compare("gt", Y, 0)


def test_what_a_branch_reads_too_is_no_mask() -> None:
    assert masks(where(POSITIVE, make("sigmoid", X), ex.ZERO)) == (POSITIVE,)
    assert masks(where(POSITIVE, X * Y, ex.ZERO)) == ()
    assert masks(where(POSITIVE, X, ex.ZERO) + Y) == ()
    assert masks(X * Y) == ()
    above = compare("gt", X, Z)
    assert masks(where(POSITIVE, where(above, X, ex.ZERO), ex.ONE)) == (POSITIVE,)


def test_a_condition_that_shares_a_tensor_with_one_that_is_no_mask_is_none_either() -> None:
    beside = compare("gt", Y, X)  # which a branch reads
    assert masks(where(POSITIVE, where(beside, X, ex.ZERO), ex.ONE)) == ()


def test_there_is_a_point_for_every_way_in_which_masks_come_out() -> None:
    points = sample_points({Y: ALL_REALS, Z: ALL_REALS}, {}, 64)[FLOAT32]
    found = sides([POSITIVE, compare("ge", Y, Z)], points)
    assert {(p[Y] > 0, p[Y] >= p[Z]) for p in found} == {(a, b) for a in (True, False) for b in (True, False)}
    assert all(set(p) == {Y, Z} and max(map(abs, p.values())) <= 100 for p in found)


def test_a_formula_jumps_where_what_it_computes_changes_its_sign() -> None:
    product = X * Y
    assert jumps(make("sign", X) * make("floor", Y)) == []  # no computation, and so no rounding
    assert jumps(where(compare("gt", product, Z), X, Y)) == [product - Z]
    assert jumps(make("sign", product)) == [product]
    assert jumps(make("floor", product)) == [product - make("round", product)]
    assert jumps(make("round", product)) == [product - make("floor", product) - ex.HALF]


def test_what_floats_are_compared_with_is_known_if_it_is_a_float() -> None:
    one, wide = compare("eq", Y, ex.num(1)), compare("ne", X, ex.num(Fraction(3, 10)))
    region = where(one, X / Z, where(wide, X, ex.ZERO)) + where(compare("eq", Z, X), X, ex.ZERO)
    assert equalities(region) == ((Y, 1),)
    assert equalities(where(compare("eq", Y, ex.num(10**400)), X, ex.ZERO)) == ()


def test_a_mask_of_truth_values_has_both() -> None:
    mask = symbol("m", "bool_tensor")
    found = sides([mask], sample_points({mask: ALL_REALS}, {}, 64)[FLOAT32])
    assert [p[mask] for p in found] == [True, False]
    assert masks(where(mask, make("exp", X), ex.ZERO)) == (mask,)
