"""The derivatives that readers are shown are right, complete, and no longer than they must be."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from compiled import Compiled, compiled_text
from effort import calls

from symgrad.explain import equations
from symgrad.explain.equations import derivatives
from symgrad.ir.expr import Expr, make, symbol


def shown(item: Compiled) -> dict[str, str]:
    ((_, variant),) = item.operation.variants()
    return dict(derivatives(variant, item.operation.program))


def text(body: str) -> str:
    return f"\nop: told\n{body}\n"


def test_what_crosses_a_reduction_is_no_partial_derivative() -> None:
    item = compiled_text(
        text("tensors: {x: {shape: [n, k]}, w: {shape: [k]}}\noutputs: {y: 'w * (x - mean(x, dim=-1, keepdim=True))'}")
    )
    rows = shown(item)
    assert list(rows) == ["grad_x", "dy/dw"]  # in the order of the tensors
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    w, grad_y = torch.randn(4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    (true,) = torch.autograd.grad(w * (x - x.mean(-1, keepdim=True)), x, grad_y)
    found = eval(rows["grad_x"], {"grad_y": grad_y, "w": w, "sum": torch.sum, "k": 4})
    torch.testing.assert_close(found, true)


def test_an_approximation_is_told_and_not_shown() -> None:
    rows = shown(compiled_text(text("tensors: {x: }\noutputs: {y: 'where(x == 0, 1, sin(x) / x)'}")))
    assert "approximation" in rows["dy/dx"]
    assert "cos(x)" in rows["dy/dx"]
    assert len(rows["dy/dx"]) < 120, "no coefficients"


def test_long_parts_that_are_repeated_get_letters() -> None:
    item = compiled_text(text("tensors: {x: , u: }\noutputs: {y: u * x * tanh(softplus(x))}"))
    rows = shown(item)
    letters = [name for name in rows if len(name) == 1]
    assert letters and "u" not in letters  # which is a tensor
    assert list(rows)[: len(letters)] == letters
    space: dict[str, object] = {"exp": torch.exp, "clamp": torch.clamp, "sigmoid": torch.sigmoid, "where": torch.where}
    x, u = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.7, 1.3))
    space |= {"x": x.detach(), "u": u.detach(), "softplus": torch.nn.functional.softplus, "tanh": torch.tanh}
    for name in letters:
        space[name] = eval(rows[name], space)
    slopes = torch.autograd.grad(u * x * torch.tanh(torch.nn.functional.softplus(x)), (x, u))
    for name, slope in zip(("dy/dx", "dy/du"), slopes, strict=True):
        torch.testing.assert_close(eval(rows[name], space), slope)


def test_short_derivatives_have_no_letters() -> None:
    rows = shown(compiled_text(text("tensors: {x: , beta: }\noutputs: {y: x * sigmoid(beta * x)}")))
    assert list(rows) == ["dy/dx", "dy/dbeta"]


@pytest.mark.parametrize(
    "body, row",
    [
        ("tensors: {x: {shape: [..., k]}, w: {shape: [m, k]}}\noutputs: {y: x @ w.T}", ("grad_w", "grad_y.mT @ x")),
        ("tensors: {x: {shape: [n, k]}}\noutputs: {y: mean(x**2)}", ("grad_x", "2 * grad_y * x / (k * n)")),
        ("tensors: {x: }\noutputs: {y: '0.1234567890123456789012345 * x'}", ("dy/dx", "0.123456789012")),
        (
            "tensors: {x: {shape: [n, k]}}\noutputs: {y: 'logsumexp(x, dim=-1)'}",
            ("grad_x", "grad_y[..., None] * exp(x - logsumexp(x, dim=-1, keepdim=True))"),
        ),
    ],
)
def test_what_only_brings_shapes_in_line_is_left_out(body: str, row: tuple[str, str]) -> None:
    assert row in shown(compiled_text(text(body))).items()


def test_a_sum_drops_its_dimensions_by_itself() -> None:
    item = compiled_text(text("tensors: {x: {shape: [n, c, h]}, gamma: {shape: [n, c]}}\noutputs: {y: gamma * x}"))
    assert "squeeze" not in item.text.split("# ----")[0].replace("unsqueeze", "")


def test_letters_are_found_in_work_that_grows_with_the_formula() -> None:
    def tower(height: int) -> Expr:
        value, x = symbol("h"), symbol("x")
        for _ in range(height):
            value = make("sin", value) * make("cos", value) + x
        return value

    towers = [tower(height) for height in (5, 20, 40, 80)]
    _, once, twice, four_times = (calls(partial(equations._with_letters, [value], ())) for value in towers)
    assert four_times - twice <= 3 * (twice - once)  # 4 times, where it is quadratic


def test_a_product_with_a_vector_is_pulled_back_by_the_matrix_itself() -> None:
    item = compiled_text(text("tensors: {k: {shape: [N, M]}, x: {shape: [N]}}\noutputs: {y: k.mT @ tanh(x)}"))
    assert shown(item)["grad_x"] == "k @ grad_y / cosh(x)**2"
    assert "rt.matmul" not in item.text.split("grad_x = rt.fit")[1].split("return")[0]
