"""Padding with a number is known from its parts, and what only its border reads is not computed."""

from __future__ import annotations

import pytest

from symgrad.accuracy.machine import machine_form
from symgrad.analysis.borders import bordered, inside_borders
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological
from symgrad.ops.tensors.moves import pad

X = symbol("x", "tensor", ("N",))
C = symbol("c", "float")


@pytest.mark.parametrize("number", [ex.num(3), C, ex.OO])
def test_padding_with_a_number_is_known(number: Expr) -> None:
    total = machine_form(pad(X, (1, 2), value=number))
    assert bordered(total) == (make("pad", X, pad=(1, 2)), number)


def test_another_sum_is_none() -> None:
    other = pad(X, (1, 2), value=ex.num(3)) - make("pad", X, pad=(1, 2)) + make("pad", X, pad=(2, 1))
    assert bordered(machine_form(other)) is None
    assert bordered(X + C) is None


def test_a_border_that_is_read_elsewhere_is_computed() -> None:
    total = machine_form(pad(X, (1, 2), value=ex.num(3)))
    (border,) = (a for a in total.args if a.op == "where")
    hidden = inside_borders(topological(make("exp", total)))
    assert border in hidden and border.args[0].args[0] in hidden
    assert make("pad", X, pad=(1, 2)) not in hidden and X not in hidden
    assert not inside_borders(topological(make("exp", total), make("sin", border)))
