"""Named dimensions in formulas: each is the size of its dimension, a Python number that the shapes tell."""

from __future__ import annotations

import math

import pytest
import sympy
import torch
from compiled import compiled_text

import symgrad
from symgrad.errors import SpecError
from symgrad.ir.expr import E, const, make
from symgrad.ops.tensors.extent import extent
from symgrad.parse import parse_formulas
from symgrad.parse.formula import formula
from symgrad.spec import parse_spec
from symgrad.ways.mapping import spec_of_mapping


def mistakes(outputs: str, lets: str = "") -> list[str]:
    text = f"{{op: f, tensors: {{x: {{shape: [N, D]}}, y: }}, let: {{{lets}}}, outputs: {{{outputs}}}}}"
    with pytest.raises(SpecError) as caught:
        parse_formulas(parse_spec(text, "a.yaml"))
    return [mistake.message for mistake in caught.value.mistakes]


def test_attention_as_it_is_written_in_papers() -> None:
    item = compiled_text(
        "{op: f, tensors: {q: {shape: [..., L, D]}, k: {shape: [..., S, D]}, v: {shape: [..., S, C]}},"
        " outputs: {y: 'softmax(q @ k.mT / sqrt(D), dim=-1) @ v'}}"
    )
    q, k, v = (torch.randn(2, n, d, dtype=torch.float64, requires_grad=True) for n, d in ((3, 4), (5, 4), (5, 2)))
    right = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(item.function(q, k, v), right)
    g = torch.randn_like(right)
    found, expected = (torch.autograd.grad(y, (q, k, v), g) for y in (item.function(q, k, v), right))
    torch.testing.assert_close(found, expected)
    assert "sqrt(D)" in item.text
    assert "count" not in item.module.__doc__


def test_a_size_is_that_of_the_call() -> None:
    item = compiled_text(
        "{op: f, tensors: {x: {shape: [N, D]}}, outputs: {y: 'sum(x, dim=0)/N + log(D)*mean(x) - (2*pi)**(-D/2)'}}"
    )
    for n, d in ((3, 4), (7, 1)):
        x = torch.randn(n, d, dtype=torch.float64)
        right = x.mean(0) + math.log(d) * x.mean() - (2 * math.pi) ** (-d / 2)
        torch.testing.assert_close(item.function(x), right)


def test_a_size_is_measured_at_sizes() -> None:
    """As any number it would be negative and 1e30 too: nothing of it would be accurate in float32."""
    item = compiled_text("{op: f, tensors: {x: {shape: [N, D]}}, outputs: {y: sqrt(D)*tanh(x/sqrt(D))}}")
    assert "float64" not in item.module.__doc__


def test_what_else_is_declared_keeps_its_name() -> None:
    program = parse_formulas(
        parse_spec(
            "{op: f, tensors: {x: {shape: [N, D, E]}, N: }, let: {D: 2*x}, outputs: {y: N*D}}",
            "a.yaml",
        )
    )
    x, n = program.symbols["x"], program.symbols["N"]
    assert program.outputs["y"] is n * (2 * x)
    assert mistakes("z: u*x", "u: D*2, D: x") == ["'D' is defined further down"]


@pytest.mark.parametrize("name", ["E", "pi", "oo", "Catalan"])
def test_a_dimension_with_the_name_of_a_constant_is_its_size(name: str) -> None:
    tensors = f"tensors: {{x: {{shape: [N, {name}]}}, i: {{shape: [N], dtype: int}}}}"
    outputs = f"{{y: 'x*{name} + math.e', z: 'one_hot(i, {name})*x', u: 'x[:, :{name}//2]'}}"
    program = parse_formulas(parse_spec(f"{{op: f, {tensors}, outputs: {outputs}}}", "a.yaml"))
    x = program.symbols["x"]
    assert program.outputs["y"] is x * make("count", x, dim=(-1,)) + E
    assert formula(program.outputs["y"]) == f"x * {name} + {'sympy.E' if name == 'E' else 'E'}"
    assert extent(program.outputs["z"]).dims == ("N", name)


def test_a_dimension_with_the_name_of_a_constant_in_a_decorated_function() -> None:
    @symgrad.op
    def times_size(x: symgrad.tensor["N", "E"]):  # type: ignore  # noqa: F821, UP037
        return x.mean(1) * E + math.e

    x = torch.randn(2, 5, dtype=torch.float64)
    torch.testing.assert_close(times_size(x), x.mean(1) * 5 + math.e)


def test_a_dimension_with_the_name_of_a_constant_in_sympy() -> None:
    size = sympy.Symbol("E")
    matrix = sympy.MatrixSymbol("X", sympy.Symbol("N"), size)
    outputs = {"y": size * matrix + sympy.E * matrix, "z": sympy.Symbol("a") * sympy.E}
    program = parse_formulas(spec_of_mapping({"op": "f", "outputs": outputs}))
    x, a = program.symbols["X"], program.symbols["a"]
    assert program.outputs["y"] is x * (make("count", x, dim=(-1,)) + E)
    assert program.outputs["z"] is a * E


def test_a_tensor_with_the_name_of_a_constant_is_no_constant() -> None:
    own = sympy.Symbol("Catalan")
    program = parse_formulas(spec_of_mapping({"op": "f", "outputs": {"y": own + sympy.Catalan}}))
    assert program.outputs["y"] is program.symbols["Catalan"] + const("Catalan")


def test_a_size_is_told_by_a_tensor_that_is_never_absent() -> None:
    program = parse_formulas(
        parse_spec(
            "{op: f, tensors: {b: {shape: [D], default: 0}, x: {shape: [N, D]}}, outputs: {y: D*x + b}}", "a.yaml"
        )
    )
    x, b = program.symbols["x"], program.symbols["b"]
    assert program.outputs["y"] is make("count", x, dim=(-1,)) * x + b


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("D", "depends on no tensor"),
        ("sum(x, dim=D)", "'dim' must be an integer or a hyperparameter, not the size of a dimension"),
        ("conv1d(x, x, padding=D)", "'padding' must be an integer or a hyperparameter, not the size of a dimension"),
        ("sum(D, dim=0)", "sum works on tensors"),
        ("x @ N", "matmul works on tensors"),
        ("where(N > 1, x, 0)", "the size of a dimension is a number to calculate with, and is not compared"),
        ("where(x > D, x, 0)", "the size of a dimension is a number to calculate with, and is not compared"),
        ("x**D", "the size of a dimension is no exponent of a tensor; write exp(n*log(x))"),
        ("max(x, D)", "the size of a dimension meets tensors in + - * / alone"),
        ("clamp(x, 0, D)", "the size of a dimension meets tensors in + - * / alone"),
        ("hypot(x, D)", "the size of a dimension meets tensors in + - * / alone"),
        ("where(x > 0, D, 1)", "the size of a dimension meets tensors in + - * / alone"),
    ],
)
def test_what_torch_does_not_do_with_a_number_is_refused(formula: str, message: str) -> None:
    assert [m[: len(message)] for m in mistakes(f"z: '{formula}'")] == [message]


def test_borders_and_groups_are_made_of_sizes() -> None:
    item = compiled_text(
        "{op: f, tensors: {x: {shape: [B, C, L]}, w: {shape: [C, 1, K]}},"
        " outputs: {y: 'x + conv1d(pad(x, (K - 1, 0)), w, groups=C)'}}"
    )
    for length, size in ((5, 3), (2, 1)):
        x = torch.randn(2, 3, length, dtype=torch.float64, requires_grad=True)
        w = torch.randn(3, 1, size, dtype=torch.float64, requires_grad=True)
        right = x + torch.nn.functional.conv1d(torch.nn.functional.pad(x, (size - 1, 0)), w, groups=3)
        found = item.function(x, w)
        torch.testing.assert_close(found, right)
        g = torch.randn_like(right)
        torch.testing.assert_close(torch.autograd.grad(found, (x, w), g), torch.autograd.grad(right, (x, w), g))


def test_sizes_are_divided_where_whole_numbers_are_needed() -> None:
    item = compiled_text(
        "{op: f, tensors: {x: {shape: [B, C, L]}, w: {shape: [C, 2, 3]}},"
        " outputs: {y: 'conv1d(x, w, groups=C // 2, padding=1)',"
        " z: 'x.unflatten(1, (2, C // 2)).reshape(B, 2*L, C // 2)'},"
        " test: {shapes: {x: [2, 4, 5], w: [4, 2, 3]}}}"
    )
    x, w = torch.randn(2, 4, 5, dtype=torch.float64), torch.randn(4, 2, 3, dtype=torch.float64)
    y, z = item.function(x, w)
    torch.testing.assert_close(y, torch.nn.functional.conv1d(x, w, groups=2, padding=1))
    torch.testing.assert_close(z, x.unflatten(1, (2, 2)).reshape(2, 10, 2))


def test_groups_that_do_not_fit_the_channels_are_refused() -> None:
    text = "{op: f, tensors: {x: {shape: [B, C, L]}, w: {shape: [O, 2, K]}}, outputs: {y: 'conv1d(x, w, groups=C)'}}"
    with pytest.raises(SpecError, match="in C groups"):
        parse_formulas(parse_spec(text, "a.yaml"))


def test_halves_that_are_interleaved_are_equal_parts() -> None:
    """Two of them make the whole again, whose size is known: nothing is expanded or summed to a shape."""
    item = compiled_text(
        "{op: f, tensors: {x: {shape: [B, T, D]}, c: {shape: [T, D], grad: false}},"
        " let: {r: 'flatten(stack([-x[..., :D // 2], x[..., D // 2:]], dim=-1), -2)'}, outputs: {y: 'x + r*c'}}"
    )
    assert "sum_to_size" not in item.text and "expand" not in item.text and "floor" not in item.text
    x, c = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True), torch.randn(3, 4, dtype=torch.float64)
    right = x + torch.stack([-x[..., :2], x[..., 2:]], dim=-1).flatten(-2) * c
    found, expected = (torch.autograd.grad(y.sin().sum(), x) for y in (item.function(x, c), right))
    torch.testing.assert_close(found, expected)


def test_parts_of_a_share_of_a_dimension_that_meet_are_equal_parts() -> None:
    item = compiled_text(
        "{op: f, tensors: {x: {shape: [B, L, D]}},"
        " outputs: {y: 'x[:, :L - 1, D // 4:] - x[:, 1:L, :3*D // 4]', z: 'x[..., -D // 2:].permute(2, 0, 1)'}}"
    )
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    y, z = item.function(x)
    torch.testing.assert_close(y, x[:, :2, 2:] - x[:, 1:, :6])
    torch.testing.assert_close(z, x[..., 4:].permute(2, 0, 1))


@pytest.mark.parametrize(
    "text",
    [
        "cat([x[:, :D // 2], 2 * x[:, D // 2:]], dim=1)",
        "exp(x[:, -D // 2:])",
        "x[:, :-(D // 3)]**2",
        "cat([3 * x[:, -(D // 2):], x[:, :-(D // 2)]], dim=1)",
        "x[:, D // 4:3 * D // 4]**2",
        "x[:, :D // 2] * x[:1, :D // 2]",
        "x[:, :D // 2] @ x[:, :D // 2].mT",
        "sum(x[:, :D // 2], dim=1) * sum(x[:, D // 2:], dim=1)",
    ],
)
def test_a_slice_to_a_share_of_its_dimension_is_rounded_as_in_torch(text: str) -> None:
    item = compiled_text(f"{{op: f, tensors: {{x: {{shape: [N, D]}}}}, outputs: {{y: '{text}'}}}}")
    for size in (4, 5, 7, 1):
        x = torch.randn(3, size, dtype=torch.float64, requires_grad=True)
        expected = eval(text, {"x": x, "D": size, "exp": torch.exp, "sum": torch.sum, "cat": torch.cat})
        found = item.function(x)
        torch.testing.assert_close(found, expected)
        g = torch.randn_like(expected)
        torch.testing.assert_close(*(torch.autograd.grad(y, x, g) for y in (found, expected)))


def test_halves_that_meet_are_equal_parts_in_every_formula() -> None:
    text = "{op: f, tensors: {x: {shape: [N, D]}}, outputs: {y: 'x[:, :D//2]*x[:, D//2:]', z: 'x[:, D//2:]'}}"
    program = parse_formulas(parse_spec(text, "a.yaml"))
    assert program.outputs["z"] is make("chunk", program.symbols["x"], dim=-1, chunks=2, index=1)


def test_shapes_may_be_asked_for_as_in_torch() -> None:
    scope = "{op: f, tensors: {x: {shape: [N, D]}}, outputs: {y: '%s'}}"
    asked, named = (
        parse_formulas(parse_spec(scope % text, "a.yaml")).outputs["y"]
        for text in ("x.sum(0) / x.shape[0] + x.size(-1)", "sum(x, dim=0) / N + D")
    )
    assert asked is named
    assert mistakes("z: 'x / x.shape[2]'") == [
        "this is of [N, D], and of no dimension of it; a dimension is a whole number"
    ]


def test_a_range_may_have_a_start_as_in_torch() -> None:
    scope = "{op: f, tensors: {x: {shape: [N, D]}}, outputs: {y: '%s'}}"
    found, right = (
        parse_formulas(parse_spec(scope % text, "a.yaml")).outputs["y"]
        for text in ("x * arange(1, x.shape[-1] + 1)", "x * (arange(D) + 1)")
    )
    assert found is right


@pytest.mark.parametrize("sizes", ["N, 4", "2 * N", "2, N, 3"])
def test_a_reshape_that_fits_for_no_size_is_refused(sizes: str) -> None:
    text = f"op: f\ntensors: {{a: {{shape: [N, 3]}}}}\noutputs: {{y: 'reshape(a, {sizes})'}}\n"
    with pytest.raises(SpecError, match=r"reshape of \[N, 3\] into .* changes the number of elements"):
        parse_formulas(parse_spec(text))
