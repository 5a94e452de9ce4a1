"""The dtype of a formula, as source; and operands of several dtypes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from compiled import compiled_text
from random_expressions import X, Y

from symgrad.backends.torch.dtypes import printed, promoted
from symgrad.expr import Expr, make


def total(value: Expr) -> Expr:
    return make("sum", value, dim=None, keepdim=False)


@pytest.mark.parametrize(
    "formula, text",
    [
        (X * Y, "_result_dtype(x, y)"),
        (total(X * Y), "_result_dtype(x, y)"),
        (total(X) * total(Y), "torch.promote_types(x.dtype, y.dtype)"),
        (total(X * Y) / (total(X) + total(Y)), "torch.promote_types(x.dtype, y.dtype)"),
        (total(X) * Y, "_result_dtype(torch.empty((), dtype=_result_dtype(x)), y)"),
    ],
    ids=str,
)
def test_values_without_dimensions_count_only_beside_each_other(formula: Expr, text: str) -> None:
    assert printed(promoted(formula), {X: "x", Y: "y"}) == text


@pytest.mark.parametrize("save", ["auto", "memory", "speed"])
@pytest.mark.parametrize("accumulate", ["float32", "same"])
@pytest.mark.parametrize(
    ("formula", "shapes", "wide"),
    [
        ("x @ w.T + s", ((3, 4), (5, 4), (5,)), "s"),
        ("tanh(x @ w.T) * sigmoid(x @ w.T) + s", ((3, 4), (5, 4), (5,)), "s"),
        ("max(x @ w.T, s)", ((3, 4), (5, 4), (5,)), "s"),
        ("einsum('ni,oi->no', x, w) * s", ((3, 4), (5, 4), (5,)), "s"),
        ("conv1d(x, w) - s", ((2, 4, 6), (5, 4, 3), (4,)), "s"),
        ("(x + s) @ w.T", ((3, 4), (5, 4), (4,)), "xw"),
    ],
)
def test_a_product_meets_cotangents_and_tangents_of_another_dtype(
    formula: str, shapes: Any, wide: str, accumulate: str, save: str
) -> None:
    item = compiled_text(
        f'{{op: f, tensors: {{x: , w: , s: }}, outputs: {{y: "{formula}"}}, '
        f"options: {{accumulate: {accumulate}, save: {save}}}}}"
    )
    generator = torch.Generator().manual_seed(0)
    tensors = [
        torch.randn(shape, generator=generator, dtype=torch.float64 if name in wide else torch.float32)
        for name, shape in zip("xws", shapes, strict=True)
    ]
    found, right = (_derivatives(f, tensors) for f in (item.function, item.composite))
    torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-5)


def _derivatives(function: Any, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients of a plain call and of one that is differentiated again, and the tangent in each tensor alone."""
    found = []
    for again in (False, True):
        wrt = [t.detach().requires_grad_() for t in tensors]
        found += torch.autograd.grad(function(*wrt).sin().sum(), wrt, create_graph=again)
    for k, t in enumerate(tensors):
        alone = lambda one, k=k: function(*tensors[:k], one, *tensors[k + 1 :])  # noqa: E731
        found.append(torch.func.jvp(alone, (t,), (torch.ones_like(t),))[1])
    return [t.detach() for t in found]


def test_an_optional_tensor_that_is_not_read_leaves_the_dtype_alone() -> None:
    item = compiled_text("{op: f, tensors: {x: , unused: {default: 0}}, outputs: {y: tanh(x) * exp(x)}}")
    assert item.function(torch.rand(3).bfloat16(), torch.rand(3)).dtype == torch.bfloat16
