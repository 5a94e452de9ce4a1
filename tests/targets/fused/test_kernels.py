"""What one pass computes: outputs that come from elements of one shape, whatever tensors each of them reads."""

from __future__ import annotations

import pytest
from fused_specs import ADDED, CODED, COUPLING, RADIAL, RANKED, ROTATED, STEP

from symgrad.compiler.compile import compile_operation
from symgrad.compiler.operation import leaves
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec
from symgrad.targets.cpp.spellings import can_spell
from symgrad.targets.fused.kernels import kernels
from symgrad.targets.torch.layout import Layout


def passes(tensors, outputs):
    return passes_of(f"op: f\ntensors: {{{tensors}}}\noutputs: {{{outputs}}}\n")


def passes_of(text):
    operation = compile_operation(parse_formulas(parse_spec(text).with_kernels()))
    return kernels(Layout(operation), leaves(operation.body)[0], "", can_spell)


ROWS = "x: {shape: [N, D]}, t: {shape: [N]}"


@pytest.mark.parametrize("text", [STEP, ROTATED, CODED, COUPLING, RADIAL])
def test_one_pass_has_the_outputs_of_different_tensors(text):
    found = passes_of(text)
    assert found.forward is not None and found.backward is not None


def test_outputs_of_tensors_of_undeclared_shape_are_of_tensors_of_one_shape():
    assert passes_of(STEP).forward.alike == passes_of(COUPLING).backward.alike == (0, 1, 2)
    leading = passes("x: {shape: [..., D]}, y: {shape: [..., D]}", "a: x*sin(x), b: x*y")
    assert leading.forward.alike == leading.backward.alike == (0, 1)


@pytest.mark.parametrize("text", [ADDED, RANKED])
def test_sums_over_what_broadcasts_are_those_of_a_declared_shape_or_of_tensors_of_one_shape(text):
    """Of gradients to reductions of rows, and of those that the cotangent of a number multiplies."""
    found = passes_of(text)
    assert found.backward is not None and found.backward.alike in ((), (0, 1))


@pytest.mark.parametrize("formula", ["x > 0", "isnan(x - x)"])
def test_truth_values_have_no_pass(formula):
    found = passes("x: ", f"y: {{expr: '{formula}', grad: false}}, z: sin(x)*x")
    assert "truth values" in dict(found.missing)["forward"]


def test_an_output_without_a_tangent_has_one_of_zeros():
    found = passes("x: , y: , z: ", "a: 'mean((x - y)**2)', b: tanh(z) + sin(x)")
    assert set(found.tangents) == {0b001, 0b010, 0b100, 0b111}


@pytest.mark.parametrize(
    ("tensors", "outputs"),
    [
        (ROWS, "a: 'sum(t[:, None], dim=-1)', b: x*sin(x)"),  # of rows with one element
        (ROWS, "a: sum(t), b: x*sin(x)"),
        (ROWS, "a: sum(x)/(1 + sum(x**2)), b: sum(t**2)"),
        ("x: {shape: [N, D]}, w: {shape: [D]}", "a: sqrt(mean(x**2) + 1), b: exp(w)"),
        ("x: {shape: [N, D]}, w: {shape: [N, 1]}", "a: sum(x)/(1 + sum(x**2)), b: 2*w"),
        (ROWS, "a: exp(t), b: 'sum(x*t[:, None], dim=-1)'"),
        ("x: {shape: [..., D]}, w: {shape: [D]}", "a: x*sin(x)*w, b: w*tanh(w)"),
        ("x: {shape: [N, D]}, y: ", "a: x*sin(x), b: y*tanh(y)"),
        ("x: , w: {shape: [D]}", "a: x*sin(x), b: 'sum(w*tanh(w), dim=-1)'"),
        ("x: , y: ", "a: x*sin(y), b: 'sum(x*y, dim=-1) + x'"),
        ("x: {shape: [N]}, y: {shape: [M]}", "a: x*sin(x), b: y*tanh(y)"),
        ("x: {shape: [N, D]}, w: {shape: [D]}", "a: x*sin(x)*w, b: w*tanh(w)"),
        ("x: {shape: [B, N, D]}, u: {shape: [N, D]}", "a: x*sin(x), b: 'logsumexp(u, dim=-1)'"),
        ("x: {shape: [N, 3]}, f: {shape: [N, 16]}", "a: 'x[:, :1]*f + x[:, 1:2]'"),  # of many single elements
    ],
)
def test_outputs_of_different_shapes_have_no_pass_in_common(tensors, outputs):
    found = passes(tensors, outputs)
    assert found.forward is None


def test_what_is_divided_first_is_part_of_a_pass():
    found = passes("v: , t: , s: , k: {domain: '(0, oo)'}", "y: v*(t - s)/k")
    assert found.forward is not None and found.backward is not None
