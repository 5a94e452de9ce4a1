"""Formulas of single parts of a dimension, where it is sliced and joined."""

from __future__ import annotations

import pytest

from symgrad.ir import expr as ex
from symgrad.ir.expr import make, symbol
from symgrad.ops.tensors.joins import cat, rejoined
from symgrad.ops.tensors.shaping import expand, sum_to, unsqueeze
from symgrad.ops.tensors.sizes import divided
from symgrad.ops.tensors.slices import chunks, slice_of
from symgrad.targets.fused.model import Part
from symgrad.targets.fused.parts import Grid, Parts, grid
from symgrad.targets.fused.terms import Unsupported

X, W = symbol("x", "tensor", ("N", "D")), symbol("w", "tensor", ("N", 1))
T = symbol("t", "tensor", ("N", 12))
BIAS = symbol("bias", "tensor", ("D",))
G = symbol("grad_y", "cotangent")
FIRST, LAST = chunks(X, 2, -1)


def parted(*formulas, **lengths):
    return Parts(grid(formulas), 2, lengths)


def test_chunks_are_parts_of_what_they_are_made_of():
    parts = parted(FIRST)
    (first,), (last,) = parts(make("sin", FIRST) * W), parts(LAST)
    assert first is make("sin", parts.symbols(X)[0]) * W and last is parts.symbols(X)[1]
    assert [parts.origin[s] for s in parts.symbols(X)] == [(X, Part(-1, 0, 2)), (X, Part(-1, 1, 2))]


def test_a_formula_of_the_whole_has_one_for_each_part():
    parts = parted(FIRST)
    a, b = parts.symbols(X)
    assert parts(make("exp", X) * W + cat([-LAST, FIRST], -1)) == (make("exp", a) * W - b, make("exp", b) * W + a)


def test_what_fills_a_part_of_zeros_leaves_the_others_at_zero():
    parts = parted(FIRST, grad_y=1)
    back = make("chunk_back", G, X, dim=-1, chunks=2, index=1)
    assert parts(back) == (ex.ZERO, G)
    assert parts(rejoined(back + make("chunk_back", 2 * G, X, dim=-1, chunks=2, index=0))) == (2 * G, G)


@pytest.mark.parametrize(
    ("bounds", "unit", "count"), [((0, 6), 6, 2), ((4, 8), 4, 3), ((3, None), 3, 4), ((-2, None), 2, 6)]
)
def test_bounds_of_slices_have_a_common_divisor(bounds, unit, count):
    formula = slice_of(T, -1, *bounds)
    assert grid([formula]) == Grid(-1, unit, frozenset({-1}))
    parts = parted(formula)
    own = parts.symbols(T)
    assert len(own) == count
    stop = 12 if bounds[1] is None else bounds[1]
    assert parts(formula) == own[bounds[0] % 12 // unit : stop // unit]


def test_chunks_of_several_numbers_have_parts_that_make_up_all():
    formula = cat([chunks(X, 4, -1)[1], chunks(X, 6, -1)[5]], -1)
    assert grid([formula]).unit == divided("D", 12)


def test_what_is_joined_need_be_no_part_of_anything_else():
    a, b = symbol("a", "tensor", ("N", "P")), symbol("b", "tensor", ("N", "P"))
    parts = parted(cat([a, b], -1), grad_y=2)
    assert parts(cat([a, b], -1)) == (a, b)
    own = make("part", G, a, b, dim=-1, index=1)
    assert parts(own) == (parts.symbols(G)[1],)


def test_a_roll_by_whole_parts_is_another_order():
    formula = make("roll", T, shifts=(4,), dims=(-1,)) * chunks(T, 3, -1)[0].args[0]
    parts = parted(formula, chunks(T, 3, -1)[0])
    a, b, c = parts.symbols(T)
    assert parts(make("roll", T, shifts=(4,), dims=(-1,))) == (c, a, b)
    assert parts(make("roll", T, shifts=(-4,), dims=(1,))) == (b, c, a)


def test_what_is_summed_over_the_parts_is_the_sum_of_their_sum():
    parts = parted(FIRST)
    a, b = parts.symbols(X)
    kept = {"dim": (-1,), "keepdim": True}
    assert parts(make("sum", X, **kept)) == (make("sum", a + b, **kept),)
    assert parts(make("mean", X, dim=None, keepdim=False)) == (make("mean", a + b, dim=None, keepdim=False) / 2,)
    assert parts(sum_to(X, W)) == (sum_to(a + b, W),)
    assert parts(sum_to(X, BIAS)) == tuple(map(sum_to, (a, b), parts.symbols(BIAS)))
    assert parts(make("count", X, dim=(-1,))) == (2 * make("count", a, dim=(-1,)),)
    assert parts(expand(W, X)) == (expand(W, a), expand(W, b))


def test_parts_of_a_dimension_that_moves_are_followed():
    c = symbol("c", "tensor", ("B", "C", "T"))
    parts = Parts(grid(chunks(c, 2, 1)), 3)
    summed = make("sum", c, dim=(0, 2), keepdim=False)
    with pytest.raises(Unsupported, match="several dimensions"):
        parts(summed)
    own = [make("sum", s, dim=(0, 2), keepdim=False) for s in parts.symbols(c)]
    assert parts(unsqueeze(summed, -1)) == tuple(unsqueeze(s, -1) for s in own)


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        (slice_of(X, -1, 0, 4), "slice"),  # of a length that only a call knows
        (slice_of(T, -1, 0, None, 2), "slice"),
        (slice_of(T, -1, 2, None) - slice_of(symbol("u", "tensor", ("N", 20)), -1, 0, -10), "more than 8 parts"),
        (slice_of(T, -1, 1, None) - slice_of(T, -1, 0, -1), "more than 8 parts"),
        (cat([FIRST, symbol("z", "tensor", ("N", "K"))], -1), "nothing to do with each other"),
        (chunks(X, 2, 0)[0] * chunks(X, 2, 1)[0], "several dimensions"),
        (make("softmax", X, dim=-1) * cat([LAST, FIRST], -1), "softmax"),
        (make("prod", X, dim=(-1,), keepdim=True) * FIRST, "prod"),
        (make("flip", X, dims=(-1,)) * cat([LAST, FIRST], -1), "flip"),
        (cat([symbol("a", "tensor", (1, 5)), symbol("b", "tensor", (3, 5))], 0), "broadcasts"),
        (unsqueeze(symbol("s", "tensor", (12,)), -1) * chunks(symbol("c", "tensor", (12, 5)), 2, 0)[0], "unsqueeze"),
    ],
)
def test_what_is_no_part_is_left_to_eager_operations(formula, why):
    with pytest.raises(Unsupported, match=why):
        parted(formula)(formula)
