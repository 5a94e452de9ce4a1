"""Every pointwise row of the table means the same in SymPy, which evaluates it by code of its own."""

from __future__ import annotations

import inspect
import random

import pytest
import sympy

from symgrad.accuracy.evaluate import exact
from symgrad.ir.expr import Expr, make, num, symbol
from symgrad.ir.truth import compare, logical, where
from symgrad.ops.functions import FUNCTIONS, Function
from symgrad.symbolic.to_sympy import NotConvertible, applied, sympy_symbol, to_sympy

ROWS = [row for row in FUNCTIONS.values() if row.meaning is not None and not row.internal]
X, Y = symbol("x"), symbol("y")


def node_and_points(row: Function) -> tuple[Expr, list[dict[Expr, float]]]:
    generator = random.Random(row.name)
    assert row.partials is not None
    args = [symbol(f"p{i}") for i in range(len(inspect.signature(row.partials).parameters))]
    if row.name == "polygamma" or row.orders:
        args[0] = num(2)
    node = make(row.name, *args)
    points = [{a: generator.uniform(*row.sample) for a in args if a.op == "sym"} for _ in range(6)]
    return node, points


def value_in_sympy(node: Expr, point: dict[Expr, float]) -> float:
    values = {sympy_symbol(s): sympy.Float(v, 60) for s, v in point.items()}
    return float(to_sympy(node).subs(values).evalf(40))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_has_its_meaning_in_sympy(row: Function) -> None:
    node, points = node_and_points(row)
    for point in points:
        (right,) = exact([node], point, 200)
        assert value_in_sympy(node, point) == pytest.approx(float(right), rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("x", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49, -3.51])
def test_rounding_goes_to_the_even_number_of_two_as_near(x: float) -> None:
    assert value_in_sympy(make("round", X), {X: x}) == round(x)


def test_choices_comparisons_and_truth_values_keep_their_meaning() -> None:
    inside = logical("and", compare("le", X, Y), logical("not", compare("eq", X, 0)))
    chosen = where(inside, X + Y, X * Y)
    for x, y in ((1.0, 2.0), (2.0, 1.0), (0.0, 3.0)):
        assert value_in_sympy(chosen, {X: x, Y: y}) == float(exact([chosen], {X: x, Y: y}, 60)[0])


def test_a_tensor_operation_is_refused_or_shown_as_an_undefined_function() -> None:
    node = make("sum", X, dim=None, keepdim=False) * Y
    with pytest.raises(NotConvertible, match="sum is no pointwise function"):
        to_sympy(node)
    assert "sum(x)" in str(to_sympy(node, outside=applied))
