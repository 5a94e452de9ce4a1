"""What is used twice has a name, what costs nothing has none, and no line is longer than can be read."""

from __future__ import annotations

from functools import reduce
from operator import add

from hypothesis import given
from random_expressions import TENSORS, X, Y, expressions

from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological
from symgrad.lower.temporaries import choose_temporaries

NAMED = {symbol: symbol.name for symbol in TENSORS}


def chosen(*roots: Expr) -> set[Expr]:
    order = [node for node in topological(*roots) if node not in NAMED]
    return choose_temporaries(roots, order, NAMED)


@given(expressions(*TENSORS))
def test_a_value_that_two_others_use_has_a_name(value: Expr) -> None:
    temporaries = chosen(make("exp", value), make("tanh", value))
    assert (value in temporaries) == (bool(value.args) and not value.is_static)


def test_a_value_that_is_used_once_has_none() -> None:
    assert chosen(make("exp", make("sin", X) * Y)) == set()


def test_a_view_of_what_has_a_name_has_none() -> None:
    view = make("mT", X)
    assert chosen(make("exp", view), make("sin", view)) == set()


def test_of_what_is_too_long_for_a_line_a_part_has_a_name() -> None:
    nested = reduce(lambda value, _: make("softplus", make("tanh", value)), range(8), X)
    assert chosen(nested)
    long = reduce(add, (make("sigmoid", make("tanh", X * k)) for k in range(2, 14)))
    assert chosen(make("exp", long))
