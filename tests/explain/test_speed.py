"""`gen` says where eager calls are estimated slower than the composite's, and nothing where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled import compiled_text

from symgrad.explain.speed import slow

SPECS = Path(__file__).parents[2] / "specs"
MEMORY = "{op: f, tensors: {x: }, outputs: {y: erf(x) * exp(x) * tanh(x)}, options: {save: memory, kernels: none}}"


@pytest.mark.parametrize("formula", ["x * w", "x * w + b", "exp(x)", "relu(x)", "atan2(x, w)"])
def test_what_autograd_computes_as_well_is_not_slow(formula: str) -> None:
    names = [n for n in ("x", "w", "b") if n in formula.replace("exp", "")]
    given = f"tensors: {{{', '.join(f'{n}: ' for n in names)}}}, options: {{kernels: none}}"
    text = f"{{op: f, {given}, outputs: {{y: '{formula}'}}}}"
    assert not list(slow(compiled_text(text).operation))


@pytest.mark.parametrize("formula", ["sigmoid(x)", "x * sigmoid(x)", "tanh(x)"])
def test_what_is_one_operation_of_torch_and_several_here_is_slow_in_eager_operations(formula: str) -> None:
    text = f"{{op: f, tensors: {{x: }}, options: {{kernels: none}}, outputs: {{y: '{formula}'}}}}"
    assert len([*slow(compiled_text(text).operation)]) == 1


def test_what_is_computed_again_is_told_with_the_option_that_keeps_it() -> None:
    (line,) = slow(compiled_text(MEMORY).operation)
    assert line.startswith("it is estimated at ") and line.endswith("`options: {save: speed}` keeps more")
    assert not list(slow(compiled_text(MEMORY.replace("memory", "speed")).operation))


def test_passes_are_not_recommended_where_there_are_none() -> None:
    steps = ", ".join(f"h{k + 1}: 'tanh(h{k} * w + {k + 1}) + sin(h{k}) * w'" for k in range(6))
    text = f"{{op: f, tensors: {{x: , w: }}, let: {{h0: x, {steps}}}, outputs: {{y: h6}}, options: {{kernels: none}}}}"
    operation = compiled_text(text).operation
    (advised,), (plain,) = (list(slow(operation, fuses=fuses)) for fuses in (True, False))
    assert advised == f"{plain}; `options: {{kernels: all}}` makes it one pass"


def test_an_accurate_form_that_is_dear_is_named() -> None:
    (line,) = slow(compiled_text((SPECS / "squareplus.yaml").read_text() + "\noptions: {kernels: none}\n").operation)
    assert "the accurate form of dy/dx costs" in line and "`domain`" in line


def test_a_branch_is_named_and_fused_passes_are_not_judged() -> None:
    text = MEMORY.replace(
        "outputs: {y: erf(x) * exp(x) * tanh(x)}",
        "hyperparameters: {flag: true}, outputs: {y: 'where(flag, erf(x) * exp(x) * tanh(x), x)'}",
    )
    (line,) = slow(compiled_text(text).operation)
    assert line.startswith("where flag, it is estimated at ")
    assert not list(slow(compiled_text(text.replace("kernels: none", "kernels: all")).operation))


def test_that_packing_takes_time_is_told() -> None:
    text = "{op: f, tensors: {x: }, outputs: {y: 'softmax(x, dim=-1)'}, options: {save: {y: int8}}}"
    (line,) = slow(compiled_text(text).operation)
    assert line.startswith("packing y takes about ")


def test_that_rows_are_sorted_again_is_told() -> None:
    shapes = "x: {shape: [B, N]}, y: {shape: [B, N]}"
    formula = "mean((sort(x, dim=-1).values - sort(y, dim=-1).values)**2, dim=-1)"
    (line,) = slow(compiled_text(f"op: f\ntensors: {{{shapes}}}\noutputs: {{d: '{formula}'}}\n").operation)
    assert "computes again" in line
    plain = f"op: f\ntensors: {{{shapes}}}\noutputs: {{d: 'sort(x, dim=-1).values'}}\n"
    assert not list(slow(compiled_text(plain.replace(", y: {shape: [B, N]}", "")).operation))
