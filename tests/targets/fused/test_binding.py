"""How a module binds its passes: which language has which of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fused_specs import FIRST_OF_ALL, GAMMA, GATE, MEAN_LABELS

from symgrad.compiler.compile import compile_operation
from symgrad.parse import parse_formulas
from symgrad.pipeline import compile_spec
from symgrad.spec import load_spec, parse_spec
from symgrad.targets.cpp.language import CPP
from symgrad.targets.fused.binding import fused
from symgrad.targets.torch.layout import Layout
from symgrad.targets.triton.language import TRITON


def layout(text):
    return Layout(compile_operation(parse_formulas(parse_spec(text).with_kernels())))


def test_every_language_has_a_file_and_a_runner():
    found = fused(layout(GATE), (CPP, TRITON))
    assert list(found.files) == ["gate.cpp", "gate_triton.py"]
    assert '= rtk.Library(__file__, "gate.cpp"' in found.definitions[0]
    assert 'CudaLibrary(__file__, "gate_triton.py"' in found.definitions[0]
    assert "least" not in found.definitions[0]


def test_a_pass_that_a_language_has_not_is_not_in_its_file():
    found = fused(layout(GAMMA), (CPP, TRITON))
    in_triton = [body for name, body in found.files.items() if name.endswith(".py")]
    assert not any('"forward": Pass(' in body for body in in_triton)
    assert any('extern "C" int forward(' in body for body in found.files.values())


def test_no_file_where_a_language_has_nothing():
    assert list(fused(layout(GATE), (CPP, replace(TRITON, can_spell=lambda node: False))).files) == ["gate.cpp"]


def test_what_has_no_kernel_is_told_with_its_reason():
    text = "op: gamma\ntensors: {x: {domain: '(0, oo)'}}\noutputs: {y: digamma(x)}\n"
    found = fused(layout(text), (CPP, TRITON))
    assert any(line.startswith("no Triton for forward, backward") and "digamma" in line for line in found.missing)
    assert not any("Triton" in line for line in fused(layout(MEAN_LABELS), (CPP, TRITON)).missing)
    found = fused(layout(FIRST_OF_ALL), (CPP, TRITON))
    assert any("no Triton" in line and line.endswith(": parts of a dimension") for line in found.missing)
    text = "op: product\ntensors: {x: , w: }\noutputs: {y: 'x @ w'}\n"
    found = fused(layout(text), (CPP, TRITON))
    assert not found.files
    assert any(line.startswith("no kernel for forward") and "matmul" in line for line in found.missing)


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("x * w", "no kernel for forward and backward: torch has one operation for each result"),
        ("x + 1", "no kernel for forward and backward: torch has one operation for each result"),
        ("x * sigmoid(w)", None),
        ("relu(x)", None),
        ("sum(x * w)", None),
        ("norm(x, dim=0) * 2", "no kernel for forward and backward: a reduction that is not along the last dimension"),
        ("amax(x * w, dim=-1, keepdim=True)", None),
    ],
)
def test_nobody_gets_passes_that_are_no_faster_unasked(formula, why):
    text = f"op: f\ntensors: {{x: {{shape: [B, N]}}, w: {{shape: [B, N]}}}}\noutputs: {{y: '{formula}'}}\n"
    found = fused(Layout(compile_operation(parse_formulas(parse_spec(text)))), (CPP,))
    if why is None:
        assert found.files
        assert "least=65536" in found.definitions[0]
    else:
        assert not found.files
        assert [line.startswith(why) for line in found.missing][:1] == [True], found.missing


def test_a_gradient_that_is_a_number_is_no_sum_to_make_a_pass_for():
    text = (
        "op: f\ntensors: {x: {shape: [..., D]}, a: {shape: []}}\noutputs: {y: x + 0}\ngradients: {x: grad_y, a: 2.5}\n"
    )
    found = fused(Layout(compile_operation(parse_formulas(parse_spec(text)))), (CPP,))
    assert not found.files and found.missing[0].endswith("torch has one operation for each result")


def test_nobody_gets_a_forward_without_a_backward_unasked():
    spec = load_spec(Path(__file__).parents[3] / "specs" / "exponential_kernel.yaml")
    found = fused(Layout(compile_operation(parse_formulas(spec))), (CPP,))
    assert not found.files
    assert found.missing[0].startswith("no kernel for forward and backward: backward has none: ")
    assert fused(Layout(compile_operation(parse_formulas(spec.with_kernels()))), (CPP,)).files


@pytest.mark.parametrize("formula", ["sinc(x)", "tan(x * w)", "cos(x**2) * w"])
def test_a_pass_with_angles_in_float64_is_weighed_like_others(formula):
    found = compile_spec(parse_spec(f"\nop: turned\ntensors: {{x: , w: }}\noutputs: {{y: '{formula}'}}\n"))
    assert "turned.cpp" in found.files


def test_sums_that_forward_keeps_for_backward_are_told_and_counted():
    text = "op: f\ntensors: {x: , w: {grad: false}}\noutputs: {y: 'sum(x * w) / (1 + sum(x**2) + sum(w**2))'}\n"
    found = fused(Layout(compile_operation(parse_formulas(parse_spec(text)))), (CPP,))
    assert found.kept == 3 and "they keep 3 sums over everything besides" in found.note
