"""Formulas of the first and the second of each two neighbours."""

from __future__ import annotations

import pytest

from symgrad.ir import expr as ex
from symgrad.ir.expr import make, symbol
from symgrad.ops.tensors.joins import stack
from symgrad.ops.tensors.shaping import squeeze, unsqueeze
from symgrad.ops.tensors.slices import chunks, slice_of
from symgrad.targets.fused.model import Part
from symgrad.targets.fused.pairs import Pairs, parts_of
from symgrad.targets.fused.terms import Unsupported

X = symbol("x", "tensor", ("T", "D"))
C, S = symbol("c", "tensor", ("T", "P")), symbol("s", "tensor", ("T", "P"))
NUMBER = make("count", C, dim=(-1,))
BY_PAIRS = make("unflatten", X, NUMBER, ex.num(2), dim=-1)
EVEN, ODD = (squeeze(slice_of(BY_PAIRS, -1, k, k + 1), -1) for k in (0, 1))


def flat(*values):
    return make("flatten", stack(values, -1), start_dim=-2, end_dim=-1)


def parted(*formulas, **lengths):
    parts = parts_of(formulas, 2)
    parts.lengths |= lengths
    return parts


@pytest.mark.parametrize("pair", [(EVEN, ODD), (slice_of(X, -1, 0, None, 2), slice_of(X, -1, 1, None, 2))])
def test_of_each_pair_there_is_the_first_and_the_second(pair):
    even, odd = pair
    turned = flat(even * C - odd * S, even * S + odd * C)
    parts = parted(turned)
    a, b = parts.symbols(X)
    assert isinstance(parts, Pairs)
    assert parts(turned) == (a * C - b * S, a * S + b * C)
    assert [parts.origin[s] for s in (a, b)] == [(X, Part(-1, k, 2, True)) for k in (0, 1)]


def test_what_works_on_pairs_as_a_whole_works_on_both():
    parts = parted(flat(EVEN, ODD))
    a, b = parts.symbols(X)
    scaled = make("exp", BY_PAIRS) * unsqueeze(C, -1)
    assert parts(make("flatten", scaled, start_dim=-2, end_dim=-1)) == (make("exp", a) * C, make("exp", b) * C)


def test_a_cotangent_is_taken_apart_as_what_it_belongs_to():
    turned = flat(EVEN * C, ODD * S)
    parts = parted(turned, grad_y=2)
    g = symbol("grad_y", "cotangent")
    a, b = parts.symbols(g)
    own = make("reshape_as", g, turned.args[0])
    back = flat(squeeze(slice_of(own, -1, 1, 2), -1) * C, -squeeze(slice_of(own, -1, 0, 1), -1))
    assert parts(make("reshape_as", back.args[0], X)) == (b * C, -a)


def test_what_is_put_at_one_of_each_pair_leaves_the_other_at_zero():
    even = slice_of(X, -1, 0, None, 2)
    parts = parted(even, grad_y=1)
    g = symbol("grad_y", "cotangent")
    assert parts(make("slice_back", g, X, dim=-1, start=1, stop=None, step=2)) == (ex.ZERO, g)


def test_tangents_of_unknown_shape_are_followed():
    parts = parted(flat(EVEN, ODD), tangent_x=2)
    moved = make("unflatten", symbol("tangent_x", "tangent"), NUMBER, ex.num(2), dim=-1)
    first, second = (squeeze(slice_of(moved, -1, k, k + 1), -1) for k in (0, 1))
    a, b = parts.symbols(symbol("tangent_x", "tangent"))
    assert parts(flat(second * C, first)) == (b * C, a)


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        (make("unflatten", X, NUMBER, ex.num(3), dim=-1) * 1, "parts of one element|unflatten"),
        (slice_of(X, -1, 0, 5, 2), "slice"),
        (slice_of(X, -1, 2, None, 2), "slice"),
        (EVEN * chunks(C, 2, -1)[0], "chunk"),
        (flat(EVEN, ODD, EVEN), "cat"),
        (make("softmax", BY_PAIRS, dim=-1), "softmax"),
        (slice_of(symbol("z", "tensor", ("T", 2)), -1, 0, None, 2), "parts of one element"),
    ],
)
def test_what_is_no_pair_is_left_to_eager_operations(formula, why):
    with pytest.raises(Unsupported, match=why):
        parted(formula)(formula)
