"""A tensor of undeclared integers gets what torch makes of the formula, whatever functions stand in for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from compiled import compiled_text
from torch import Tensor
from torch.func import vmap

WHOLE = torch.tensor([[3, -1, 0], [2, 5, -4]])

FORMULAS: dict[str, Callable[..., Tensor]] = {
    "log(1 + exp(x))": lambda x, y: torch.log(1 + torch.exp(x)),
    "exp(x) / sum(exp(x), dim=-1, keepdim=True)": lambda x, y: torch.softmax(x.to(torch.exp(x).dtype), -1),
    "sqrt(sum(x**2))": lambda x, y: torch.sqrt((x**2).sum()),
    "sqrt(x**2 + 4) * y": lambda x, y: torch.sqrt(x**2 + 4) * y,
    "sqrt(x**2 + y**2)": lambda x, y: torch.sqrt(x**2 + y**2),
    "log(exp(x) + exp(y))": lambda x, y: torch.log(torch.exp(x) + torch.exp(y)),
    "log(1 + exp(x)) - x * y": lambda x, y: torch.log(1 + torch.exp(x)) - x * y,
    "x**2 + y": lambda x, y: x**2 + y,
}


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("other", [torch.int64, torch.float64])
def test_integers_are_promoted_as_in_the_composite(formula: str, other: torch.dtype) -> None:
    operation = compiled_text(f"op: u\ntensors: {{x: , y: }}\noutputs: {{z: '{formula} + 0 * y'}}\n")
    y = (WHOLE - 1).to(other)
    for x in (WHOLE, WHOLE.to(torch.int8), WHOLE.double()):
        got, want = operation.function(x, y), FORMULAS[formula](x, y) + 0 * y
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_integers_beside_half_precision_leave_it_as_the_composite_does() -> None:
    half = WHOLE.bfloat16()
    for formula in ("sqrt(x**2 + y**2)", "log(1 + exp(x)) - x * y"):
        function = compiled_text(f"op: u\ntensors: {{x: , y: }}\noutputs: {{z: '{formula}'}}\n").function
        assert function(WHOLE, half).dtype == FORMULAS[formula](WHOLE, half).dtype
        assert function(half, WHOLE).dtype == FORMULAS[formula](half, WHOLE).dtype


def test_a_tensor_alone_is_promoted_under_every_transform_and_checked_as_before() -> None:
    softplus = compiled_text("op: u\ntensors: {x: }\noutputs: {z: log(1 + exp(x))}\n").function
    want = torch.log(1 + torch.exp(WHOLE.float()))
    torch.testing.assert_close(softplus(WHOLE), want)
    torch.testing.assert_close(vmap(softplus)(WHOLE), want)
    torch.testing.assert_close(torch.jit.trace(softplus, WHOLE)(WHOLE), want)
    for wrong in (1.5, WHOLE * 1j):
        with pytest.raises(TypeError, match="expected a real tensor"):
            softplus(wrong)


def test_a_function_that_the_spec_names_refuses_integers_as_in_torch() -> None:
    named = compiled_text("op: u\ntensors: {x: }\noutputs: {z: softplus(x)}\n")
    assert "_is_float" not in named.text
    with pytest.raises(NotImplementedError):
        named.function(WHOLE)


def test_what_is_overwritten_is_not_promoted() -> None:
    operation = compiled_text("op: u\ntensors: {x: }\noutputs: {z: log(1 + exp(x))}\noptions: {inplace: x}\n")
    with pytest.raises((RuntimeError, NotImplementedError)):
        operation.module.u_(WHOLE.clone())


@pytest.mark.parametrize("kind", [torch.uint8, torch.bool, torch.int64])
@pytest.mark.parametrize("formula", ["x / (1 + exp(y))", "asinh(x / (1 + exp(y)))"])
def test_what_stands_for_a_formula_negates_no_unsigned_integers(formula: str, kind: torch.dtype) -> None:
    operation = compiled_text(f"op: u\ntensors: {{x: , y: }}\noutputs: {{z: '{formula}'}}\n")
    x, y = torch.tensor([1, 2, 0, 3], dtype=kind), torch.tensor([1, 2, 0, 3], dtype=kind)
    torch.testing.assert_close(operation.function(x, y), operation.composite(x, y), rtol=1e-5, atol=1e-6)
