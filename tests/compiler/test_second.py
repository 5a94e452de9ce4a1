"""Second derivatives as formulas of their own."""

from __future__ import annotations

import pytest

from symgrad.compiler.compile import compile_operation
from symgrad.ir import expr as ex
from symgrad.ir.expr import make, symbol
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec

X, G, GG = symbol("x", "tensor"), symbol("grad_y", "cotangent"), symbol("grad_grad_x", "cotangent")


def second(text):
    operation = compile_operation(parse_formulas(parse_spec(text).with_kernels()))
    ((_, variant),) = operation.variants()
    return variant.second


def pulled(text):
    return {(t, leaf.name): value for (t, leaf), value in second(text).pulled.items()}


def test_each_thing_that_backward_reads_gets_its_part():
    found = pulled("op: f\ntensors: {x: }\noutputs: {y: sin(x)}\n")
    assert found == {
        ("x", "x"): -GG * G * make("sin", X),
        ("x", "grad_y"): make("sum_to", GG * make("cos", X), G),
    }


def test_two_outputs_may_be_one_formula():
    found = pulled("op: f\ntensors: {x: }\noutputs: {y: sin(x), z: sin(x)}\n")
    assert found.keys() == {("x", "x"), ("x", "grad_y"), ("x", "grad_z")}


def test_a_saved_output_is_a_variable():
    found = pulled("op: f\ntensors: {x: }\noptions: {save: memory}\noutputs: {y: tanh(x)}\n")
    y = symbol("y", "tensor")
    assert found["x", "y"] is -2 * GG * G * y
    assert found["x", "grad_y"] is make("sum_to", GG * (1 - y**2), G)


def test_the_form_of_a_second_partial_is_chosen_for_itself():
    """The derivative of the stable first derivative would be a difference of large numbers."""
    found = second("op: f\ntensors: {x: }\noutputs: {y: log(1 + exp(x))}\n").pulled
    (value,) = (v for (_, leaf), v in found.items() if leaf.name == "x")
    assert value is GG * G * make("sigmoid", X) * make("sigmoid", -X)


def test_nothing_without_kernels_or_where_it_is_forbidden():
    text = "op: f\ntensors: {x: }\noutputs: {y: sin(x)}\n"
    plain = compile_operation(parse_formulas(parse_spec(text)))
    assert not plain.variants()[0][1].second.pulled
    assert not pulled(f"{text}options: {{double_backward: false}}\n")


def test_what_would_take_too_long_to_choose_says_so():
    made = second("op: f\ntensors: {a: , b: , c: , d: , e: }\noutputs: {y: a * b * c * d * e}\n")
    assert made.missing == "more than 18 second partials" and not made.pulled


def test_what_counts_is_how_many_partials_there_are_not_how_many_tensors():
    found = pulled("op: f\ntensors: {a: , b: , c: , d: , e: }\noutputs: {y: a * b + c * d + e}\n")
    assert {(t, leaf) for t, leaf in found if leaf != "grad_y"} == {("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")}


@pytest.mark.parametrize("formula", ["x * a", "sin(x) * a + x"])
def test_no_second_partial_of_what_is_linear(formula):
    found = pulled(f"op: f\ntensors: {{x: , a: {{grad: false}}}}\noutputs: {{y: {formula}}}\n")
    assert (("x", "x") in found) == ("sin" in formula)
    assert all(value is not ex.ZERO for value in found.values())
