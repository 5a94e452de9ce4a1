"""The passes over a row: how many there are, and what is kept between forward and backward to have fewer."""

from __future__ import annotations

import pytest

from symgrad.ir import expr as ex
from symgrad.ir.expr import make, symbol
from symgrad.ir.traversal import topological
from symgrad.targets.fused.model import Operand
from symgrad.targets.fused.rows import Stage, kept, spans, stages
from symgrad.targets.fused.terms import ROW, Unsupported, View, length

X = symbol("x", "tensor")
G = symbol("grad_y", "cotangent")
TOTAL = make("row_sum", X)
MEAN = TOTAL / ROW
SQUARES = make("row_sum", (X - MEAN) ** 2)
NORMAL = (X - MEAN) / ex.sqrt(SQUARES)
SLOPE = make("row_sum", G * (X - MEAN)) / SQUARES * X


def test_a_reduction_waits_for_what_it_reads():
    found = stages([NORMAL])
    assert [s.reductions for s in found] == [(TOTAL,), (SQUARES,)]
    assert -MEAN in found[0].settled


def test_what_is_known_is_settled_before_the_first_pass():
    first, second = stages([SLOPE], (TOTAL, SQUARES))
    assert first == Stage((), (-MEAN, 1 / SQUARES))
    assert [n.args[0] for n in second.reductions] == [G * (X - MEAN)]


def test_what_spares_a_pass_is_kept():
    assert kept([NORMAL], [SLOPE]) == (TOTAL, SQUARES)


def test_what_spares_no_pass_is_not_kept():
    squares = make("row_sum", X**2)
    assert kept([X / squares], [G / squares - X * make("row_sum", G * X)]) == ()
    assert kept([NORMAL], [make("row_sum", G) * X]) == ()


TARGET = symbol("target", "tensor")
EXPONENTIALS = make("row_sum", make("exp", X))
LIKELIHOOD = make("row_sum", TARGET * (X - make("log", EXPONENTIALS)))
WHOLE = make("row_sum", TARGET)


def test_what_only_backward_reduces_is_kept_where_forward_reads_the_row_for_it_anyway():
    slope = make("exp", X) / EXPONENTIALS * WHOLE
    assert kept([LIKELIHOOD], [G * slope - TARGET]) == (EXPONENTIALS, WHOLE)
    assert kept([X / EXPONENTIALS], [G * slope]) == ()  # which has not read the target
    assert kept([LIKELIHOOD], [slope * make("row_sum", G)]) == ()  # there is a pass over the row in any case


def test_reductions_beside_those_of_a_pass_join_the_first_that_reads_for_them():
    first, second = stages([LIKELIHOOD], beside=[WHOLE])
    assert first.reductions == (EXPONENTIALS,)
    assert second.reductions == (LIKELIHOOD, WHOLE)
    both = make("row_sum", X / EXPONENTIALS)  # has to wait for another
    assert [s.reductions for s in stages([LIKELIHOOD], beside=[both])] == [(EXPONENTIALS,), (LIKELIHOOD, both)]


WEIGHT = symbol("weight", "tensor")
BOTH = [View(X), View(WEIGHT)]
OPERANDS = [Operand(X, 0, ()), Operand(WEIGHT, 1, ())]


@pytest.mark.parametrize(
    ("reduced", "shape", "found"),
    [
        (X, [View(X)], ()),
        (X * WEIGHT, BOTH, ()),
        (X, BOTH, ((0,),)),
        (WEIGHT, BOTH, ((1,),)),
        (X - make("row_max", WEIGHT), BOTH, ((1,), (0,))),
        (X, [View(X), View(WEIGHT, (-1,))], ()),
    ],
    ids=["all", "all of two", "one", "the other", "what a reduction broadcasts to", "the only one with rows"],
)
def test_what_is_reduced_has_to_be_as_long_as_a_row(reduced, shape, found):
    assert spans(topological(make("row_sum", reduced)), OPERANDS, shape) == found


def test_declared_lengths_need_no_look():
    x, weight = (symbol(n, "tensor", dims) for n, dims in (("x", ("N", "D")), ("weight", ("D",))))
    operands = [Operand(x, 0, ()), Operand(weight, 1, ())]
    assert spans([make("row_sum", weight)], operands, [View(x), View(weight)]) == ()


def test_nothing_as_long_as_a_row_is_reduced():
    with pytest.raises(Unsupported, match="a reduction of a reduction"):
        spans(topological(make("row_sum", make("row_max", X))), OPERANDS, BOTH)


def test_the_length_of_a_view_is_that_of_the_dimension_it_shows():
    table, free = symbol("x", "tensor", ("N", 3)), symbol("x", "tensor", ("...", "K"))
    assert [length(View(table), d) for d in (-1, -2, -3)] == [3, "N", 1]
    assert [length(View(table, (-2,)), d) for d in (-1, -2, -3)] == [3, 1, "N"]
    assert [length(View(table, (-1,)), d) for d in (-1, -2)] == [1, 3]
    assert [length(View(free), d) for d in (-1, -2)] == ["K", None]
    assert length(View(X)) is None


@pytest.mark.parametrize("length", [4, "E"])
def test_rows_of_several_declared_lengths_have_no_pass(length):
    x, y = (symbol(n, "tensor", dims) for n, dims in (("x", ("N", 3)), ("y", ("N", length))))
    operands = [Operand(x, 0, ()), Operand(y, 1, ())]
    order = [make("row_sum", x), make("row_sum", y)]
    with pytest.raises(Unsupported, match="several lengths"):
        spans(order, operands, [View(x), View(y)])
    column = symbol("column", "tensor", ("N", 1))
    assert spans(order[:1], [operands[0], Operand(column, 1, ())], [View(x), View(column)]) == ()
