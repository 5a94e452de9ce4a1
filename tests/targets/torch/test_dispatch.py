"""The ways into an operation: tracers and compilers keep its gradients, and what is in place is so."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from compiled import compiled_text
from torch.utils._python_dispatch import TorchDispatchMode

REVERSED = "{op: reversal, tensors: {x: }, outputs: {y: 2 * x}, gradients: {x: -grad_y}}"
CLIPPED = "{op: clipped, tensors: {x: }, outputs: {y: 2 * x}, gradients: {x: 'clamp(grad_y, -1, 1)'}}"
CHOSEN = """
op: chosen
tensors: {x: }
hyperparameters: {clip: true}
outputs: {y: 2 * x}
gradients: {x: 'where(clip, clamp(grad_y, -1, 1), 3 * grad_y)'}
"""
AFFINE = (
    "{op: affine, tensors: {x: {shape: [N, D]}, w: {shape: [D]}, b: {shape: [], default: 0}}, outputs: {y: x @ w + b}}"
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_trace_keeps_the_gradient_that_the_spec_gives() -> None:
    item = compiled_text(REVERSED)
    x = torch.rand(3, requires_grad=True)
    traced: Any = torch.jit.trace(item.function, (x,))  # type: ignore[no-untyped-call]
    (own,) = torch.autograd.grad(traced(x).sum(), x)
    assert own.tolist() == [-1.0] * 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_trace_that_would_lose_a_gradient_is_refused() -> None:
    item = compiled_text(CLIPPED)
    x = torch.rand(3, requires_grad=True)
    with pytest.raises(NotImplementedError, match="this gradient; trace it under"):
        torch.jit.trace(item.function, (x,))  # type: ignore[no-untyped-call]


def test_forward_mode_is_refused_only_where_the_rule_is_not_linear() -> None:
    item = compiled_text(CHOSEN)
    x, tangent = torch.rand(3), torch.ones(3)
    _, own = torch.func.jvp(lambda x: item.function(x, False), (x,), (tangent,))
    assert own.tolist() == [3.0] * 3
    with pytest.raises(RuntimeError, match="chosen: no forward mode in x"):
        torch.func.jvp(lambda x: item.function(x, True), (x,), (tangent,))


def test_the_function_may_be_applied_without_what_may_be_absent() -> None:
    item = compiled_text(AFFINE)
    x, w = torch.rand(2, 3), torch.rand(3, requires_grad=True)
    y = item.module.AffineFunction.apply(x, w)
    torch.testing.assert_close(y, x @ w)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), w)[0], x.sum(0))


class Made(TorchDispatchMode):
    """Counts the operations that make a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not func._schema.is_mutable
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "formula, right", [("x + 1", lambda x: x + 1), ("3 * x", lambda x: 3 * x), ("x - w", lambda x: x - 2)]
)
def test_a_formula_in_place_makes_no_other_tensor(formula: str, right: Any) -> None:
    tensors = "{x: , w: {shape: []}}" if "w" in formula else "{x: }"
    item = compiled_text(f"{{op: written, tensors: {tensors}, outputs: {{y: {formula}}}, options: {{inplace: x}}}}")
    x = torch.rand(4)
    expected = right(x)
    rest = [torch.tensor(2.0)] if "w" in formula else []
    with torch.no_grad(), Made() as made:
        assert item.module.written_(x, *rest) is x
    torch.testing.assert_close(x, expected)
    assert made.count == 0


def test_in_place_integers_are_refused_as_torch_refuses_them() -> None:
    for formula in ("x + 0.5", "where(x > 1, x, 0.5 * x)"):
        item = compiled_text(f"{{op: halves, tensors: {{x: }}, outputs: {{y: '{formula}'}}, options: {{inplace: x}}}}")
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            item.module.halves_(torch.tensor([1, 2]))


def test_the_graph_shows_the_function_by_its_name() -> None:
    item = compiled_text("{op: kept, tensors: {x: , scale: }, outputs: {y: scale * x * erf(x)}}")
    x = torch.rand(3, requires_grad=True)
    assert type(item.function(x, 2.0).grad_fn).__name__ == "KeptFunctionBackward"
