"""What a pass computes for each element: which operands it takes, and which operations have no place in it."""

from __future__ import annotations

import pytest

from symgrad.ir.expr import make, symbol
from symgrad.ops.tensors.shaping import unsqueeze
from symgrad.targets.fused.elements import Elements
from symgrad.targets.fused.terms import ELEMENTS, ROW, Unsupported, View, size_of

X = symbol("x", "tensor", ("N", "C", "T"))
A = symbol("alpha", "tensor", ("C",))
G = symbol("grad_y", "cotangent")
FREE = symbol("z")


def lowered(root, rank=3):
    elements = Elements({}, rank)
    return elements, elements(root)


def test_pointwise_formulas_stay_as_they_are():
    form = make("sin", X * FREE) + 1
    _, value = lowered(form)
    assert value.expr is form and value.dims is None and not value.total


def test_a_view_is_an_operand_of_its_own():
    elements, value = lowered(X * unsqueeze(1 / A, -1))
    (leaf,) = value.expr.tensors - {X}
    assert elements.views[leaf] == View(A, (-1,))


def test_a_saved_value_is_an_operand():
    saved = symbol("y")
    elements = Elements({make("sin", X): saved}, 3)
    assert elements(make("sin", X) * G).expr is saved * G


def test_what_multiplies_a_sum_moves_under_it():
    root = make("sum_to", make("sum", G * X, dim=(0, 2), keepdim=False) / A, A)
    elements, value = lowered(root)
    (leaf,) = value.expr.tensors - {X, G}
    assert value.dims == (-3, -1)
    assert value.expr is G * X / leaf
    assert elements.views[leaf] == View(A, (-1,))


@pytest.mark.parametrize("op", ["sum", "mean"])
def test_everything_reduced(op):
    _, value = lowered(make(op, X * X, dim=None, keepdim=False))
    assert value.total == op and value.expr is X**2
    _, value = lowered(-make(op, X, dim=None, keepdim=False) / 3)
    assert value.total == op and value.expr is -X / 3


def test_a_gradient_of_a_mean_knows_the_number_of_elements():
    _, value = lowered(make("sum_to", make("expand", G, X) / make("count", X, dim=None), X))
    assert value.expr is G / ELEMENTS and value.dims == ()


def test_reductions_along_the_last_dimension_stay_with_their_row():
    _, value = lowered(X / make("mean", X**2, dim=-1, keepdim=True))
    assert value.expr is X / (make("row_sum", X**2) / ROW)
    _, value = lowered(make("sum", X, dim=(2,), keepdim=False))
    assert value.dropped and value.expr is make("row_sum", X)


def test_what_belongs_to_a_row_meets_tensors_of_rows():
    rows = symbol("w")
    elements, value = lowered(make("sum", FREE, dim=-1, keepdim=False) * rows, None)
    (leaf,) = value.expr.tensors - {FREE}
    assert value.dropped and elements.views[leaf] == View(rows, (-1,))


def test_sums_along_other_dimensions():
    _, value = lowered(make("sum", X**2, dim=0, keepdim=True))
    assert (value.expr, value.dims, value.kept) == (X**2, (-3,), True)
    _, value = lowered(2 * make("mean", X, dim=(0, 1), keepdim=False))
    assert (value.expr, value.dims, value.scaled) == (2 * X / size_of((-3, -2)), (-3, -2), False)


def test_sums_of_one_length_are_one_sum():
    scaled = symbol("t", "tensor", ("N", 1, 1))
    _, value = lowered(make("sum", X, dim=0, keepdim=False) + make("sum", X * scaled, dim=0, keepdim=False))
    assert (value.expr, value.dims) == (X + X * scaled, (-3,))


@pytest.mark.parametrize("other", [FREE, symbol("t", "tensor", (1, "C", "T")), symbol("t", "tensor", ("M", "C", "T"))])
def test_a_sum_of_what_may_broadcast_is_not_one_with_another(other):
    """A sum over 1 element would be one over as many as the other has."""
    with pytest.raises(Unsupported, match="different lengths"):
        lowered(make("sum", X, dim=0, keepdim=False) + make("sum", other, dim=0, keepdim=False))


@pytest.mark.parametrize("factor", [symbol("t", "tensor", ("N", 1, 1)), symbol("t", "tensor", (1,)), 1 / FREE], ids=str)
def test_a_total_of_what_may_be_smaller_than_its_pass_is_refused(factor):
    with pytest.raises(Unsupported, match="a reduction of a reduction"):
        lowered(make("sum", factor * make("amax", X, dim=-1, keepdim=True), dim=None, keepdim=False))


def test_a_total_beside_a_reduction_of_rows():
    _, value = lowered(make("sum", X - make("amax", X, dim=-1, keepdim=True), dim=None, keepdim=False))
    assert (value.expr, value.total) == (X - make("row_max", X), "sum")


def test_a_sum_to_another_shape_in_the_middle_is_refused():
    with pytest.raises(Unsupported, match="different dimensions"):
        lowered(make("sum_to", X * make("sum_to", G * X, A), X))


@pytest.mark.parametrize(
    ("root", "message"),
    [
        (make("amax", X, dim=0, keepdim=True), "not along the last dimension"),
        (X * make("sum", X**2, dim=0, keepdim=True), "what follows a sum"),
        (make("exp", make("sum", X, dim=None, keepdim=False)), "reduction to a number"),
        (make("sum", X, dim=None, keepdim=False) * X, "reduction to a number"),
        (make("cumsum", X, dim=-1), "cumsum"),
        (make("norm", X, p=3, dim=-1, keepdim=False), "another order"),
        (make("exp", make("sum", X, dim=(0, 2), keepdim=False)), "what follows a sum"),
    ],
    ids=str,
)
def test_what_has_no_place_in_a_pass_is_refused_by_name(root, message):
    with pytest.raises(Unsupported, match=message):
        lowered(root)
