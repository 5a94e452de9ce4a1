"""The passes over a row: how many there are, and what is kept between forward and backward to have fewer."""

from __future__ import annotations

from symgrad import expr as ex
from symgrad.backends.fused.elements import ROW
from symgrad.backends.fused.rows import Stage, kept, stages
from symgrad.expr import make, symbol

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
