"""Truth values: comparisons, logical operations and choices fold where they are decided, and mean the same."""

from __future__ import annotations

from itertools import product

import pytest

from symgrad.accuracy.evaluate import exact
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import COMPARISONS, Expr, symbol

X, Y, Z = symbol("x"), symbol("y"), symbol("z")
POINT = {X: 0.5, Y: 2.0}


@pytest.mark.parametrize("op", sorted(COMPARISONS))
def test_comparisons_mirror_and_negate(op: str) -> None:
    for left, right in ((1, 2), (2, 2), (3, 2)):
        holds = {"lt": left < right, "le": left <= right, "gt": left > right, "ge": left >= right}
        holds |= {"eq": left == right, "ne": left != right}
        assert truth.compare(op, left, right) is (ex.TRUE if holds[op] else ex.FALSE)
        point = {**POINT, X: left}
        assert exact([truth.compare(op, X, right)], point, 60) == [holds[op]]
        assert exact([truth.compare(truth.MIRRORED[op], right, X)], point, 60) == [holds[op]]
        assert exact([truth.compare(truth.NEGATED[op], X, right)], point, 60) == [not holds[op]]
    assert truth.compare(op, ex.num(2), X) is truth.compare(truth.MIRRORED[op], X, 2)


@pytest.mark.parametrize("op", sorted(COMPARISONS))
def test_a_comparison_with_itself_is_decided_only_where_nan_decides_it_alike(op: str) -> None:
    whole, holds = symbol("n", "int_tensor"), op in ("le", "ge", "eq")
    assert truth.compare(op, whole, whole) is (ex.TRUE if holds else ex.FALSE)
    own = truth.compare(op, X, X)
    assert own is ex.FALSE if op in ("lt", "gt") else own.op == op
    assert exact([own], POINT, 60) == [holds]


def test_truth_values_fold() -> None:
    p, q = truth.compare("gt", X, 0), truth.compare("lt", Y, 1)
    assert truth.logical("and", p, ex.TRUE) is p
    assert truth.logical("and", p, ex.FALSE, q) is ex.FALSE
    assert truth.logical("or", p, ex.TRUE) is ex.TRUE
    assert truth.logical("or", p, p) is p
    assert truth.logical("not", truth.logical("not", p)) is p
    assert truth.logical("and", truth.logical("and", p, q), p) is truth.logical("and", p, q)
    assert truth.where(ex.TRUE, X, Y) is X
    assert truth.where(p, X, X) is X
    assert truth.where(truth.logical("not", p), X, Y) is truth.where(p, Y, X)
    q = truth.compare("lt", Y, 0)
    neither = truth.logical("and", truth.logical("not", p), truth.logical("not", q))
    assert truth.where(neither, X, Y) is truth.where(truth.logical("or", p, q), Y, X)
    assert truth.where(p, truth.where(p, X, Z), Y) is truth.where(p, X, Y)
    assert truth.where(p, truth.where(p, X, Z), X) is X
    assert truth.where(p, X, truth.where(p, Z, Y)) is truth.where(p, X, Y)


@pytest.mark.parametrize("op", ["and", "or"])
def test_logical_operations_mean_what_python_means(op: str) -> None:
    tests = [truth.compare(c, X, bound) for c in ("lt", "le", "gt", "ge") for bound in (0, 1)]
    for first, second, third in product(tests, repeat=3):
        root = truth.logical(op, first, truth.logical("not", second), third)
        for x in (-1.0, 0.0, 0.5, 1.0, 2.0):
            a, b, c = (value_at(t, x) for t in (first, second, third))
            assert value_at(root, x) is ((a and not b and c) if op == "and" else (a or not b or c))


def value_at(root: Expr, x: float) -> bool:
    return bool(exact([root], {X: x}, 60)[0])


def test_whether_a_multiple_is_zero_is_asked_of_the_value() -> None:
    x = symbol("x")
    assert truth.compare("eq", -x, 0) == truth.compare("eq", x, 0)
    assert truth.compare("ne", 0, -2 * x) == truth.compare("ne", x, 0)
    assert truth.compare("gt", -x, 0) != truth.compare("lt", x, 0), "backward of relu(-x) asks that"
    assert truth.compare("eq", 2 * x, 1) != truth.compare("eq", x, 1)


def test_whether_a_truth_value_is_zero_is_asked_of_the_condition() -> None:
    holds = truth.compare("gt", X, 1)
    value = truth.where(holds, 1, 0)
    assert truth.compare("ne", value, 0) is holds
    assert truth.compare("eq", value, 0) is truth.logical("not", holds)
    assert truth.compare("ne", truth.where(holds, 0, 1), 0).op == "ne"
