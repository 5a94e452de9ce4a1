"""Walks over expressions: arguments before users, each node once, however deep; and what they rebuild."""

from __future__ import annotations

from symgrad.ir.expr import Expr, make, num, symbol
from symgrad.ir.traversal import rebuild, substitute, topological, transform

X, Y = symbol("x"), symbol("y")


def test_arguments_come_before_users_and_each_node_once() -> None:
    shared = make("exp", X)
    order = topological(shared * Y + shared, make("sin", shared))
    assert len(order) == len(set(order))
    assert all(order.index(a) < order.index(node) for node in order for a in node.args)


def test_nothing_is_looked_at_below_leaves() -> None:
    inner = make("exp", X)
    assert topological(make("sin", inner), leaves={inner}) == [inner, make("sin", inner)]


def test_a_long_chain_needs_no_recursion() -> None:
    deep: Expr = X
    for _ in range(5000):
        deep = make("sin", deep)
    assert len(topological(deep)) == 5001
    assert substitute(deep, {X: Y}).symbols == {Y}


def test_what_is_replaced_is_not_searched_further() -> None:
    assert substitute(make("exp", X) + X, {make("exp", X): X + 1, X: Y}) is X + 1 + Y


def test_rebuilding_normalises_and_keeps_attributes() -> None:
    assert rebuild(X + Y, (X, num(0))) is X
    total = make("sum", X, dim=0, keepdim=True)
    assert rebuild(total, (Y,)) is make("sum", Y, dim=0, keepdim=True)
    assert rebuild(total, total.args) is total


def test_a_transformation_sees_arguments_that_are_mapped_already() -> None:
    halved = transform(
        make("exp", make("exp", X)), lambda n: n.args[0] if n.op == "exp" and n.args[0].op == "sym" else n
    )
    assert halved is X
