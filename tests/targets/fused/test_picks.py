"""Elements picked from rows by whole numbers, and what is put at such a place."""

from __future__ import annotations

import pytest

from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import make, symbol
from symgrad.ops.tensors.shaping import unsqueeze
from symgrad.targets.fused.elements import Elements
from symgrad.targets.fused.picks import known_before, require_rows, require_whole_numbers, with_values_of_rows
from symgrad.targets.fused.rows import stages
from symgrad.targets.fused.terms import PLACE, Unsupported, View

X, W = symbol("x", "tensor", ("N", "C")), symbol("w", "tensor", ("C",))
LABELS = symbol("labels", "int_tensor", ("N",))
G = symbol("grad_y", "cotangent", ("N", 1))
LABEL = unsqueeze(LABELS, -1)
OWN = symbol("labels[-1]", "int_tensor")
THERE = make("row_place", OWN)


def lowered(root):
    elements = Elements({}, 2)
    return elements, elements(root)


def test_what_is_picked_of_a_formula_is_the_formula_of_what_is_picked():
    below = X * W - make("amax", X, dim=-1, keepdim=True)
    elements, value = lowered(make("gather", below, LABEL, dim=-1))
    assert value.expr is make("row_at", X, THERE) * make("row_at", W, THERE) - make("row_max", X)
    assert elements.lengths == {"C"}
    assert not value.dropped


def test_of_a_tensor_as_long_as_a_row_a_value_for_each_row_is_picked():
    _, value = lowered(make("lookup", W, LABELS, dim=0))
    assert value.expr is make("row_at", W, THERE) and value.dropped


@pytest.mark.parametrize("op", ["put_along", "add_along"])
def test_what_is_put_is_there_for_one_element_of_a_row(op):
    _, value = lowered(make(op, G, LABEL, X, dim=1))
    assert value.expr is truth.where(truth.compare("eq", PLACE, THERE), G, ex.ZERO)


def test_what_is_added_at_a_place_of_each_row_is_summed_over_them():
    _, value = lowered(make("add_slices", symbol("grad_y", "cotangent", ("N",)), LABELS, W, dim=0))
    assert value.expr.args[0] is truth.compare("eq", PLACE, THERE)
    assert value.dims == (-2,)


def test_what_was_put_is_picked_again():
    put = make("put_along", G, LABEL, X, dim=-1)
    _, value = lowered(make("take_along", put, LABEL, dim=-1))
    assert PLACE not in value.expr.symbols


@pytest.mark.parametrize(
    ("root", "message"),
    [
        (make("gather", X, LABEL, dim=0), "several elements of a row"),
        (make("gather", X, symbol("labels", "int_tensor", ("N", "K")), dim=-1), "several elements of a row"),
        (make("gather", symbol("x"), LABEL, dim=-1), "a row of unknown length"),
        (make("lookup", X, LABELS, dim=0), "an index of whole slices"),
        (unsqueeze(make("put_along", G, LABEL, X, dim=-1), -1), "a view of"),
    ],
    ids=["of rows", "several", "unknown", "slices", "a view"],
)
def test_what_is_no_single_element_of_a_row_is_refused(root, message):
    with pytest.raises(Unsupported, match=message):
        lowered(root)


def test_a_place_is_one_of_the_rows_of_the_pass():
    require_rows({"C"}, [View(X), View(W), View(LABELS, (-1,))], [X * W])
    with pytest.raises(Unsupported, match="several lengths"):
        require_rows({"C"}, [View(X), View(symbol("t", "tensor", ("N", "D")))], [X])
    with pytest.raises(Unsupported, match="single elements"):
        require_rows({"C"}, [View(X), View(LABELS, (-1,))], [make("row_at", X, THERE)])


@pytest.mark.parametrize(
    "value",
    [
        OWN * X,
        make("where", truth.compare("lt", X, ex.ZERO), OWN, X),
        truth.compare("eq", OWN, symbol("other[-1]", "int_tensor")),
        truth.compare("eq", OWN, ex.num(2**24)),
        truth.compare("eq", OWN, X),
        make("where", truth.compare("eq", OWN, ex.ONE), OWN, ex.num(2**30)),
    ],
    ids=str,
)
def test_what_float32_cannot_tell_of_whole_numbers_is_refused(value):
    with pytest.raises(Unsupported, match="whole numbers"):
        require_whole_numbers([*value.args, value])


@pytest.mark.parametrize(
    "value",
    [
        truth.compare("ne", OWN, ex.num(-100)),
        truth.compare("lt", PLACE, OWN),
        truth.compare("eq", OWN, symbol("n", "int")),
        make("row_place", OWN),
    ],
    ids=str,
)
def test_whole_numbers_are_compared_with_what_is_exact(value):
    require_whole_numbers([*value.args, value])


def test_what_is_picked_is_known_before_the_first_pass_over_a_row():
    own = make("row_at", X, THERE)
    loss = make("log", make("row_sum", make("exp", X))) - own
    assert known_before([OWN, THERE, own]) == (OWN, THERE, own)
    first, second = stages([loss * X])
    assert first.reductions == () and [r.op for r in second.reductions] == ["row_sum"]
    assert second.settled == (loss,)


def test_what_is_dear_and_made_of_a_tensor_of_rows_is_computed_once_for_a_row():
    t, total = symbol("t[-1]"), make("row_sum", X)
    first = make("row_first", t)
    sine, own = make("sin", t * total), make("sin", first * total)
    found = with_values_of_rows([sine * X + t, sine * make("exp", X) + t * X, make("row_max", sine * X)], [t])
    assert found == [own * X + t, own * make("exp", X) + t * X, make("row_max", own * X)]  # a product is cheap
    assert with_values_of_rows([make("sin", t * X)], [t]) == [make("sin", t * X)]
    assert with_values_of_rows([sine], [t]) == [own]


def test_a_value_of_rows_that_another_one_is_made_of_is_the_same_in_both():
    t = symbol("t[-1]")
    inner, first = make("exp", t), make("exp", make("row_first", t))
    assert with_values_of_rows([inner * X, make("sin", inner) * X], [t]) == [first * X, make("sin", first) * X]
