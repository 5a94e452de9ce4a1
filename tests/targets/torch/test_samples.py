"""Generated tests sample where the formula has a value."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from compiled import compiled_text

from symgrad.compiler.compile import compile_operation
from symgrad.errors import SpecError
from symgrad.ir.expr import make, num
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.samples import large_shapes, shapes
from symgrad.targets.torch.settings import settings
from symgrad.targets.torch.special import special

FITTING = {
    "x @ w": "x: , w: ",
    "x @ w.T + b": "x: , w: , b: ",
    "softmax(q @ k.mT, dim=-1) @ v": "q: , k: , v: ",
    "sum(x * y, dim=2)": "x: , y: ",
    "mean(x, dim=[2, 3])": "x: ",
    "x.mT + 1": "x: ",
    "transpose(x, 0, 1) @ x": "x: ",
    "sum(x * (a @ x))": "x: , a: ",
    "einsum('bi,oij,bj->bo', x, w, y)": "x: , w: , y: ",
    "conv1d(x, w)": "x: , w: ",
    "conv2d(x, w, b, padding=1)": "x: , w: , b: ",
    "conv2d(x, k, stride=2, padding=[1, 0])": "x: {shape: [N, I, L, T]}, k: {shape: [O, I, K, K]}",
    "conv1d(x, u, groups=2)": "x: {shape: [N, C, L]}, u: {shape: [O, 2, K]}",
    "conv1d(x, u, groups=3) + 0": "x: {shape: [N, C, L]}, u: {shape: [C, 1, K]}",
    "conv1d(x, u, dilation=2) + 0": "x: {shape: [N, C, L]}, u: {shape: [O, C, 3]}",
    "conv_transpose1d(x, u, stride=2, padding=1)": "x: {shape: [N, C, L]}, u: {shape: [C, O, K]}",
}


def test_large_sizes_are_such_as_the_formula_accepts() -> None:
    text = "{op: f, tensors: {x: {shape: [..., D]}}, outputs: {y: 'chunk(x, 2, dim=-1)[0] * chunk(x, 2, dim=-1)[1]'}}"
    assert large_shapes(Layout(compiled_text(text).operation)) == [((3, 34),), ((3, 1026),)]


GROUPS = "{op: f, tensors: {x: {shape: [N, C]}}, outputs: {y: 'sum(x.reshape(N, 2, C // 2), dim=-1)'}"


def test_large_sizes_are_divided_as_the_formula_divides_them() -> None:
    of_rows = GROUPS.replace("[N, C]", "[C, N]").replace("(N, 2, C // 2)", "(2, C // 2, N)")
    assert large_shapes(Layout(compiled_text(GROUPS + "}").operation)) == [((17, 34),), ((9, 1026),)]
    assert large_shapes(Layout(compiled_text(of_rows + "}").operation)) == [((18, 33),), ((10, 1025),)]


def test_shapes_that_are_given_are_not_exceeded() -> None:
    text = GROUPS + ", test: {shapes: {x: [3, 4]}}}"
    assert large_shapes(Layout(compiled_text(text).operation)) == []


@pytest.mark.parametrize("formula", FITTING)
def test_sampled_shapes_are_such_as_the_formula_accepts(formula: str) -> None:
    item = compiled_text(f'{{op: f, tensors: {{{FITTING[formula]}}}, outputs: {{r: "{formula}"}}}}')
    found, _ = shapes(Layout(item.operation))
    assert any(n > 1 for sizes in found for size in sizes for n in size or ())
    for sizes in found:
        tensors = [torch.rand(size or (), dtype=torch.float64, requires_grad=True) for size in sizes]
        values = [f(*tensors) for f in (item.function, item.composite)]
        torch.testing.assert_close(*values)
        torch.testing.assert_close(*(torch.autograd.grad(v.sin().sum(), tensors) for v in values))


def test_a_tensor_beside_learned_scalars_has_elements_on_both_sides_of_a_condition() -> None:
    item = compiled_text("{op: f, tensors: {p: {shape: []}, x: , y: }, outputs: {r: 'where(x > 0, p * x, y)'}}")
    found, _ = shapes(Layout(item.operation))
    assert found[0] == ((), (3,), (2, 3))
    assert all(p == () for p, *_ in found)


@pytest.mark.parametrize(
    ("formula", "single"),
    [
        ("1 - sum((x - t)**2) / sum((t - mean(t))**2)", False),
        (
            "(x - mean(x, dim=-1, keepdim=True)) / norm(x - mean(x, dim=-1, keepdim=True), dim=-1, keepdim=True) + t",
            False,
        ),
        ("(x - mean(x)) / sqrt(mean((x - mean(x))**2) + 1) + t", True),
        ("t @ x / norm((x - mean(x, dim=0)).T @ t)", False),
    ],
)
def test_one_element_is_sampled_where_its_distance_from_the_mean_does_not_divide(formula: str, single: bool) -> None:
    found, _ = shapes(Layout(compiled_text(f'{{op: f, tensors: {{x: , t: }}, outputs: {{r: "{formula}"}}}}').operation))
    assert found
    assert any(not size or 1 in size for sizes in found for size in sizes if size is not None) == single


def test_a_chosen_dimension_is_one_of_the_sampled_shapes() -> None:
    item = compiled_text("""
        op: f
        tensors: {x: }
        hyperparameters: {dim: 2}
        outputs: {r: "sum(x, dim=dim)"}
    """)
    found, _ = shapes(Layout(item.operation))
    assert found
    assert all(len(size or ()) > 2 for (size,) in found)


def test_shapes_to_test_that_contradict_the_formula_are_a_mistake() -> None:
    with pytest.raises(SpecError, match=r"test\.shapes do not fit: the shapes \[3\] and \[4\] do not broadcast"):
        compiled_text("{op: f, tensors: {x: , y: }, outputs: {z: x * y}, test: {shapes: {x: [3], y: [4]}}}")


@pytest.mark.parametrize(("formula", "is_single_fine"), [("var(x * y)", False), ("sum(x * y)", True)])
def test_no_variance_of_a_single_element_is_sampled(formula: str, is_single_fine: bool) -> None:
    spec = parse_spec(f"op: spread\ntensors: {{x: , y: }}\noutputs: {{r: {formula}}}\n")
    found, _ = shapes(Layout(compile_operation(parse_formulas(spec))))
    assert found
    assert any(own == () or 1 in own for pair in found for own in pair or ()) == is_single_fine


def test_hyperparameters_for_which_a_formula_has_no_value_are_left_out() -> None:
    text = "{op: f, tensors: {x: }, hyperparameters: {a: 0.25, b: 2.0, c: 0.5}, outputs: {y: c*x/(b - a)}}"
    found = settings(Layout(compiled_text(text).operation))
    assert len(found) > 1
    assert all(a != b for a, b, _ in found)
    assert all(0 < c < 1 for _, _, c in found), "a share stays one"


ALL = {"math.inf", "-math.inf", "0.0", "-0.0", "1e-40", "-1e-40"}
SPECIAL = {
    "x*z": ALL,
    "abs(x)*z": ALL,
    "x - z*x*abs(x)": ALL,
    "x/sqrt(x**2 + 1)": ALL,
}


@pytest.mark.parametrize("formula", SPECIAL)
def test_special_values_are_those_at_which_the_forms_have_numbers(formula: str) -> None:
    item = compiled_text(f"{{op: f, tensors: {{x: , z: }}, outputs: {{y: {formula}}}}}")
    assert set(special(Layout(item.operation))[0]) == SPECIAL[formula]


def test_infinities_are_left_out_where_autograd_alone_adds_before_it_multiplies() -> None:
    text = "{op: f, tensors: {x: , a: }, outputs: {y: exp(x)*sin(a), z: -exp(x)*cos(a), w: a*x}}"
    found, other = special(Layout(compiled_text(text).operation))
    assert set(found) == ALL - {"math.inf"}
    assert set(other) == ALL - {"math.inf", "-math.inf"}
    text = "{op: f, tensors: {x: , s: }, outputs: {y: -x/s - exp(-x/s), z: exp(-exp(-x/s))}}"
    assert "math.inf" not in special(Layout(compiled_text(text).operation))[0]


def test_an_output_out_of_which_a_tensor_cancels_is_looked_at_without_its_shape() -> None:
    text = "{op: f, tensors: {x: , z: }, outputs: {y: exp(x - z)/(log(x)/exp(z)) - x}}"
    assert "0.0" in special(Layout(compiled_text(text).operation))[1]


def test_infinities_are_left_out_where_the_form_alone_has_no_number() -> None:
    operation = compiled_text("{op: f, tensors: {x: }, outputs: {y: 2 * x}}").operation
    (variant,) = [v for _, v in operation.variants()]
    x = operation.program.symbols["x"]
    worse = {key: make("mul", g, x, make("pow", x, num(-1))) for key, g in variant.gradients.items()}
    found = special(Layout(replace(operation, body=replace(variant, gradients=worse))))[0]
    assert set(found) == ALL - {"math.inf", "-math.inf"}


def test_values_are_left_out_at_which_neither_the_output_nor_its_gradient_is_a_number() -> None:
    text = "{{op: f, tensors: {{x: }}, outputs: {{y: {}}}}}"
    assert set(special(Layout(compiled_text(text.format("acosh(x)")).operation))[0]) == {"math.inf"}
    assert set(special(Layout(compiled_text(text.format("log(x)")).operation))[0]) == ALL


def test_no_bounds_of_other_shapes_are_sampled_for_which_torch_has_no_gradient() -> None:
    item = compiled_text(
        "{op: f, tensors: {x: , low: {default: 0}, high: {default: 1}}, outputs: {y: 'clamp(x, low, high)'}}"
    )
    found, _ = shapes(Layout(item.operation))
    assert len(found) > 3
    for sizes in found:
        tensors = [None if s is None else torch.rand(s, requires_grad=True) for s in sizes]
        torch.clamp(*tensors).sum().backward()


def test_no_number_is_sampled_beside_integers_that_decide_the_dtype() -> None:
    item = compiled_text("{op: f, tensors: {n: {dtype: int}, x: }, outputs: {y: exp(n) + exp(x), z: n*x}}")
    found, _ = shapes(Layout(item.operation))
    assert ((2,), ()) not in found
    assert ((), (2,)) in found
    item = compiled_text("{op: f, tensors: {n: {dtype: int}, x: , t: }, outputs: {y: exp(n) * x + t}}")
    assert all(x and t for n, x, t in shapes(Layout(item.operation))[0] if n)
