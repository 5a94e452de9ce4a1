"""Gradients that a spec gives: of whatever shape the formulas make them."""

from __future__ import annotations

import math

import pytest
import torch
from compiled import compiled_text
from torch.func import grad, jvp, vmap

from symgrad.errors import SpecError

ROWS = "[N, D]"


@pytest.mark.parametrize("shape", ["", f"shape: {ROWS}"])
@pytest.mark.parametrize(
    ("output", "rule"),
    [
        ("sum(x)", "grad_y"),
        ("sum(x)", "grad_y * x"),
        ("sum(x)", "grad_y * sum(x)"),
        ("sum(x, dim=0)", "grad_y * x"),
        ("sum(x, dim=-1, keepdim=True)", "2 * grad_y"),
        ("x", "sum(grad_y)"),
        ("x", "mean(grad_y, dim=-1, keepdim=True)"),
        ("mean(x) + 0 * z", "grad_y"),
    ],
)
def test_a_gradient_broadcasts_to_its_tensor_and_forward_mode_is_its_transposed(
    output: str, rule: str, shape: str
) -> None:
    item = compiled_text(
        f"{{op: f, tensors: {{x: {{{shape}}}, z: {{{shape}}}}}, "
        f'outputs: {{y: "{output}"}}, gradients: {{x: "{rule}"}}}}'
    )
    x, z, t = torch.rand(3, 3, 4, dtype=torch.float64)
    y, pushed = jvp(lambda x: item.function(x, z), (x,), (t,))
    g = torch.rand_like(y)
    x.requires_grad_()
    (pulled,) = torch.autograd.grad(item.function(x, z), x, g)
    right = (
        torch.zeros_like(x)
        + {
            "grad_y": g,
            "grad_y * x": g * x,
            "grad_y * sum(x)": g * x.sum(),
            "2 * grad_y": 2 * g,
            "sum(grad_y)": g.sum(),
            "mean(grad_y, dim=-1, keepdim=True)": g.mean(-1, keepdim=True),
        }[rule]
    )
    torch.testing.assert_close(pulled, right.detach())
    assert pushed.shape == y.shape
    torch.testing.assert_close((pushed * g).sum(), (t * pulled).sum())
    assert vmap(grad(lambda x: item.function(x, z).sum()))(torch.stack([t, t])).shape == (2, 3, 4)


def test_a_gradient_without_tensors_is_one_number_for_every_element() -> None:
    item = compiled_text("{op: f, tensors: {x: }, outputs: {y: mean(x)}, gradients: {x: 1/2}}")
    x = torch.rand(3, 4, requires_grad=True)
    item.function(x).backward()
    torch.testing.assert_close(x.grad, torch.full((3, 4), 0.5))


def test_the_gradient_of_a_total_along_rows_aligns_by_name() -> None:
    item = compiled_text(
        f'{{op: f, tensors: {{x: {{shape: {ROWS}}}}}, outputs: {{y: "sum(x, dim=1)"}}, gradients: {{x: grad_y * x}}}}'
    )
    x = torch.rand(3, 3, requires_grad=True)
    g = torch.rand(3)
    item.function(x).backward(g)
    torch.testing.assert_close(x.grad, g[:, None] * x.detach())


def test_a_gradient_that_fits_its_tensor_in_no_way_is_a_mistake() -> None:
    with pytest.raises(SpecError, match=r"gradients\.x: not of the shape of 'x': .*do not broadcast"):
        compiled_text(
            f"{{op: f, tensors: {{x: {{shape: {ROWS}}}, z: {{shape: [M, D]}}}}, "
            'outputs: {y: "sum(x) + sum(z)"}, gradients: {x: grad_y * z}}'
        )


def test_forward_mode_is_as_stable_as_the_gradient() -> None:
    item = compiled_text(
        "{op: f, tensors: {x: }, outputs: {y: sign(x)}, gradients: {x: grad_y * x / (1 + x**2)},"
        " options: {precision: strict}}"
    )
    x = torch.tensor([2.0, 1e25])  # of which the square overflows
    pushed = jvp(item.function, (x,), (torch.ones(2),))[1]
    torch.testing.assert_close(pushed, torch.tensor([0.4, 1e-25]), rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("rule", "used", "unread"),
    [
        ("grad_a * w + grad_b * v", "a", "v"),
        ("grad_a * w + grad_b * v", "b", "w"),
        ("grad_a * w", "b", "w"),
        ("clamp(grad_a, -1, 1) + grad_b * v", "a", "v"),
        ("grad_a * sum(w) + 2 * v + grad_b", "b", "w"),
        ("(grad_a + grad_b) * w", "b", ""),
    ],
)
def test_an_output_that_was_not_used_contributes_nothing(rule: str, used: str, unread: str) -> None:
    """0 * NaN is no number: what is linear in an undefined cotangent is not computed."""
    item = compiled_text(
        "{op: f, tensors: {x: {shape: [N]}, w: {shape: [N], grad: false}, v: {shape: [N], grad: false}}, "
        f'outputs: {{a: x * 2, b: sin(x)}}, gradients: {{x: "{rule}"}}}}'
    )
    x = torch.rand(3, requires_grad=True)
    given = {name: torch.rand(3) for name in "wv"}
    given |= {f"grad_{o}": torch.full((3,), float(o == used)) for o in "ab"}
    right = torch.zeros(3) + eval(rule, {"clamp": torch.clamp, "sum": torch.sum, **given})
    tensors = [torch.full((3,), math.nan) if name == unread else given[name] for name in "wv"]
    y = item.function(x, *tensors)["ab".index(used)]
    (found,) = torch.autograd.grad(y.sum(), x, allow_unused=True, materialize_grads=True)
    torch.testing.assert_close(found, right)


def test_terms_of_several_shapes_are_broadcast_before_they_are_summed() -> None:
    item = compiled_text("{op: f, tensors: {x: , w: }, outputs: {a: x * w, b: x}, gradients: {x: grad_a * w + grad_b}}")
    x, w = torch.rand(1, requires_grad=True), torch.rand(3)
    a, b = item.function(x, w)
    (found,) = torch.autograd.grad([a.sum(), b.sum()], x)
    torch.testing.assert_close(found, (w + 1).sum(0, keepdim=True))


@pytest.mark.parametrize("rule", ["2 * grad_y * y", "2 * grad_y * exp(x)", "2 * clamp(grad_y, -9, 9) * exp(x)"])
@pytest.mark.parametrize("save", ["auto", "memory", "speed"])
def test_a_rule_in_the_output_is_differentiated_as_a_formula(rule: str, save: str) -> None:
    """A saved output would have the derivatives of the rule."""
    text = f"{{op: f, tensors: {{x: }}, outputs: {{y: exp(x)}}, gradients: {{x: '{rule}'}}, options: {{save: {save}}}}}"
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    function = compiled_text(text).function
    (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 2 * x.detach().exp())
    torch.testing.assert_close(grad(lambda x: grad(lambda x: function(x).sum())(x).sum())(x.detach()), second)


def test_a_rule_may_read_outputs_where_nothing_is_differentiated_twice() -> None:
    text = (
        "{op: f, tensors: {x: }, outputs: {y: exp(x)}, gradients: {x: grad_y * y}, options: {double_backward: false}}"
    )
    (variant,) = [v for _, v in compiled_text(text).operation.variants()]
    assert [s.source for s in variant.plan.base] == ["output"]


def test_a_rule_that_is_applied_again_is_that_of_the_next_order_too() -> None:
    """Above the limit the formula is constant: its own derivative ends there, that of the rule does not."""
    text = "{{op: f, tensors: {{x: }}, outputs: {{y: 'exp(clamp(x, -oo, 2))'}}, gradients: {{x: 'grad_y * {0}'}}}}"
    x = torch.tensor([1.0, 3.0], dtype=torch.float64, requires_grad=True)
    limit = math.exp(2)
    for word, second in (("y", 0.0), ("again(y)", limit)):
        function = compiled_text(text.format(word)).function
        (slope,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        torch.testing.assert_close(slope.detach(), torch.tensor([math.e, limit], dtype=torch.float64))
        right = torch.tensor([math.e, second], dtype=torch.float64)
        torch.testing.assert_close(torch.autograd.grad(slope.sum(), x)[0], right)
        for mode in (torch.func.jacfwd, torch.func.jacrev):
            found = mode(torch.func.grad(lambda x: function(x).sum()))(x.detach())  # noqa: B023
            torch.testing.assert_close(found.diagonal(), right)
        torch.testing.assert_close(torch.func.vmap(torch.func.grad(torch.func.grad(function)))(x.detach()), right)


@pytest.mark.parametrize(
    ("outputs", "gradient", "message"),
    [
        ("{y: 'again(x)'}", "grad_y", "'again' is known under 'gradients' only"),
        ("{y: 2*x}", "grad_y * again(x)", r"again\(\.\.\.\) is of an output: y"),
        ("{y: 2*x}", "grad_y * again()", "lacks its argument 'output'"),
    ],
)
def test_what_is_applied_again_is_an_output_under_gradients(outputs: str, gradient: str, message: str) -> None:
    text = f"{{op: f, tensors: {{x: }}, outputs: {outputs}, gradients: {{x: '{gradient}'}}}}"
    with pytest.raises(SpecError, match=message):
        compiled_text(text)
