"""Names and facts that the methods of a module share."""

from __future__ import annotations

import pytest
from compiled import OWN_SPECS, compiled, compiled_text

from symgrad.lower.code import source
from symgrad.targets.torch.layout import Layout


def layout(stem: str) -> Layout:
    return Layout(compiled(next(p for p in OWN_SPECS if p.stem == stem)).operation)


def text_layout(text: str) -> Layout:
    return Layout(compiled_text(text).operation)


# ---------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize("op, name", [("swish", "Swish"), ("smooth_l1", "SmoothL1"), ("a1_b2", "A1B2"), ("x", "X")])
def test_class_names(op: str, name: str) -> None:
    assert text_layout(f"\nop: {op}\ntensors: {{x0: }}\noutputs: {{y: sin(x0)}}\n").class_name == name


def test_local_names_are_distinct_and_free() -> None:
    found = text_layout(
        "\nop: crowded\ntensors: {ctx: , ctx_: , grad_y: , needs_x: , x: }\nhyperparameters: {_fit: 0.5, torch: 1.0}\n"
        "outputs: {y: ctx * ctx_ + grad_y * x, x_: needs_x * _fit + torch}\n"
    )
    names = [*found.arguments.values(), *found.outputs.values()]
    assert len(set(names)) == len(names)
    assert not {"ctx", "torch", "_fit", "grad_y", "needs_x", "rt"} & set(names)
    fresh = found.names()
    assert fresh.fresh("x") != "x"
    assert fresh.fresh("ctx") != "ctx"


def test_ordinary_names_are_left_alone() -> None:
    found = layout("kept_intermediate")
    assert dict(found.arguments) == {"x": "x", "scale": "scale"}
    assert dict(found.outputs) == {"y": "y"}
    assert source(found.on_ctx("alpha")) == "ctx.alpha"
    assert source(found.on_ctx("saved_tensors")) != "ctx.saved_tensors"


# ---------------------------------------------------------------------------------------------- facts
def test_a_product_has_operands_of_one_dtype_and_rounds_in_it_as_in_torch() -> None:
    tensors = "tensors: {x: {shape: [n, k]}, weight: {shape: [m, k]}, bias: {shape: [m]}}"
    formulas = {"x @ weight.T": False, "relu(x @ weight.T + bias)": False, "tanh(x @ weight.T + bias)": True}
    for formula, widens in formulas.items():
        found = text_layout(f"\nop: affine\n{tensors}\noutputs: {{z: '{formula}'}}\n")
        assert (found.widens, found.widens_slopes) == (widens, widens), formula


def test_accumulate_same_widens_nothing() -> None:
    text = "\nop: same\ntensors: {x: }\noutputs: {y: sin(x) * exp(x)}\noptions: {accumulate: %s}\n"
    assert text_layout(text % "float32").widens
    same = text_layout(text % "same")
    assert not same.widens
    assert not same.widens_slopes


def test_only_what_backward_reads_is_on_ctx() -> None:
    assert layout("branches").hyperparameters_on_ctx == ["flag", "slope"]
    unread = text_layout("\nop: unread\ntensors: {x: }\nhyperparameters: {shift: 0.5}\noutputs: {y: sin(x) + shift}\n")
    assert unread.hyperparameters_on_ctx == []
    assert layout("optional_tensor").absences_on_ctx in ([], ["offset"])


def test_the_differentiable_tensors() -> None:
    assert layout("int_and_bool").differentiable == ["x"]
    assert layout("str_choices").differentiable == ["x"]
    assert layout("wide_evaluation").wide_values
