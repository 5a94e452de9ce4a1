"""Sums over everything that formulas calculate with: summed by forward, given to backward."""

from __future__ import annotations

import pytest
from fused_specs import MEAN_LABELS

from symgrad.compiler.compile import compile_operation
from symgrad.compiler.operation import leaves
from symgrad.ir.expr import make, symbol
from symgrad.ops.tensors.shaping import unsqueeze
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec
from symgrad.targets.cpp.spellings import can_spell
from symgrad.targets.fused.elements import Elements
from symgrad.targets.fused.kernels import kernels
from symgrad.targets.fused.terms import ELEMENTS, Unsupported, is_total
from symgrad.targets.fused.totals import pass_shape
from symgrad.targets.torch.layout import Layout

X, T = symbol("x", "tensor", ("N", "C")), symbol("t", "tensor", ("N",))
G = symbol("grad_y", "cotangent")


def total(value):
    return make("sum", value, dim=None, keepdim=False)


def lowered(root, *formulas):
    elements = Elements({}, 2, shape=pass_shape([X, root, *formulas]))
    return elements, elements(root)


def passes(formula, tensors="x: {shape: [N, C]}, w: {shape: [N, C]}"):
    text = f'op: f\ntensors: {{{tensors}}}\noutputs: {{y: "{formula}"}}\n' if "\n" not in formula else formula
    operation = compile_operation(parse_formulas(parse_spec(text).with_kernels()))
    return kernels(Layout(operation), leaves(operation.body)[0], "", can_spell)


def test_the_shape_of_a_pass_is_that_of_its_largest_values():
    assert pass_shape([X * unsqueeze(T, -1), T]) == ("N", "C")
    assert pass_shape([X, symbol("w", "tensor", ("M", "C"))]) is None
    assert pass_shape([symbol("z")]) is None


def test_a_total_that_is_calculated_with_has_a_name():
    elements, value = lowered(total(X**2) / total(X))
    names = {v.expr: leaf for leaf, v in elements.totals.items()}
    assert all(map(is_total, names.values())) and value.expr is names[X**2] / names[X]


def test_a_total_over_rows_is_one_of_what_each_row_has():
    elements, _ = lowered(total(make("amax", X, dim=-1, keepdim=False)) / total(T))
    assert [v.dropped for v in elements.totals.values()] == [True, True]


def test_totals_over_other_elements_are_refused():
    with pytest.raises(Unsupported, match="totals of different shapes"):
        lowered(total(X) / total(symbol("t", "tensor", ("N", 1))))


def test_forward_sums_what_backward_is_given():
    found = passes(MEAN_LABELS)
    assert [r.leaf in found.forward.sums for r in found.forward.results] == [True, True]
    (given,) = found.forward.given
    assert found.backward.known[0].leaf is given
    assert len(found.forward.finish) == 1


@pytest.mark.parametrize(
    "formula",
    [
        "sum(softmax(x, dim=-1) * w) / (1 + sum(w)**2)",
        "log(sum(x * w)) / sqrt(sum(w))",
        "exp(mean(x)) + sum(x)",
        "sin(sum(x * w)) * tanh(sum(w))",
    ],
)
def test_functions_of_numbers_follow_from_totals(formula):
    found = passes(formula)
    assert found.forward is not None and found.backward is not None


def test_what_has_elements_does_not_follow_from_totals():
    refused = passes("x * sin(sum(softmax(x, dim=-1) * w) / sum(w))")
    assert refused.forward is None and "what follows a reduction" in dict(refused.missing)["forward"]


def test_tensors_without_dimensions_follow_from_totals_and_are_read_after_the_pass():
    found = passes("exp(-s) * mean((x - w)**2) + s", "x: {shape: [N, C]}, w: {shape: [N, C]}, s: {shape: []}")
    assert [o.leaf.name for o in found.forward.late] == ["s"]
    assert {len(k.late) for k in found.tangents.values()} == {1, 2}


def test_the_gradient_of_a_number_is_a_sum_of_what_each_element_gives():
    shapes = "x: {shape: [N, C]}, s: {shape: []}"
    (own,) = [r for r in passes("s * sum(x) + s", shapes).backward.results if r.name == "grad_s"]
    assert own.total == "sum" and own.value == X * G + G / ELEMENTS


def test_hyperparameters_that_are_read_after_a_pass_are_among_its_numbers():
    found = passes(
        "op: f\ntensors: {x: {shape: [N]}}\nhyperparameters: {s: 1.0}\noutputs: {y: 'sum(x**2) / (sum(x) + s)'}"
    )
    assert [n.name for n in found.forward.numbers] == ["s"]


def test_one_sum_serves_all_its_multiples():
    elements, _ = lowered((2 * total(X)) / (1 + 3 * total(5 * X)))
    assert [v.expr for v in elements.totals.values()] == [X]


def test_passes_over_tensors_of_undeclared_shape_are_over_tensors_of_one_shape_where_sums_ask_for_it():
    found = passes("sum(x * w) / (1 + sum(x**2) + sum(w**2))", "x: , w: ")
    assert found.forward.alike == found.backward.alike == (0, 1)
    assert passes("x * w", "x: , w: ").forward.alike == ()
    assert passes("sum(x * w) / (1 + sum(x**2))", "x: {shape: [..., D]}, w: {shape: [D]}").forward is None


def test_rows_that_are_given_nothing_but_sums_over_everything_may_have_any_length():
    assert passes("sum(x * w) / (1 + sum(x**2))").backward.any_rows
    assert not passes("sum(softmax(x, dim=-1) * w) / (1 + sum(x**2))").backward.any_rows


def test_gradients_through_reductions_of_rows_are_of_tensors_of_one_shape_where_leading_dimensions_may_broadcast():
    shapes = "x: {shape: [..., D]}, w: {shape: [..., D]}"
    assert passes("sum(x * w, dim=-1) / norm(x, dim=-1)", shapes).backward.alike == (0, 1)
    alone = passes("x / norm(x, dim=-1, keepdim=True)", "x: {shape: [..., D]}")
    assert alone.backward is not None and alone.backward.alike == ()


def test_second_derivatives_are_given_no_total():
    found = passes("cross_entropy(x, i)", "x: {shape: [N, C]}, i: {shape: [N], dtype: int}")
    assert found.backward is not None and "no pass before it sums" in dict(found.missing)["second derivatives"]
