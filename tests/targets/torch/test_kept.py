"""What plain calls keep for backward where Python branches decide: each branch its own intermediates."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from compiled import compiled_text, stored
from torch.utils._python_dispatch import TorchDispatchMode

import symgrad
from symgrad.compiler.compile import compile_operation
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec

TEXT = """
op: attend
tensors:
  q: {shape: [N, L, D]}
  k: {shape: [N, S, D]}
  v: {shape: [N, S, D]}
  bias: {shape: [L, S], default: 0}
hyperparameters: {normal: true}
outputs:
  y: where(normal, softmax(q @ k.mT + bias, dim=-1) @ v, q * mean(v, dim=1, keepdim=True))
"""
PRODUCTS = {torch.ops.aten.mm.default, torch.ops.aten.bmm.default}


class Counting(TorchDispatchMode):
    """Counts operations."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = Counter[Any]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[func] += 1
        return func(*args, **(kwargs or {}))


def arguments(given: bool, dtype: torch.dtype = torch.float64) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, 3, 4), (2, 5, 4), (2, 5, 4), (3, 5)]
    tensors = [torch.randn(s, generator=generator, dtype=dtype).requires_grad_() for s in shapes]
    return tensors if given else [*tensors[:3], None]


@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize("given", [True, False])
def test_no_branch_repeats_a_product(given: bool, normal: bool) -> None:
    item = compiled_text(TEXT)
    assert len({len(v.plan.extras) for _, v in item.operation.variants()}) > 1, "they keep different numbers of values"
    tensors = arguments(given)
    counts, found = [], []
    for function in (item.function, item.composite):
        wanted = [t for t in tensors if t is not None]
        y = function(*tensors, normal)
        with Counting() as counting:
            found.append(torch.autograd.grad(y.sin().sum(), wanted, materialize_grads=True))
        counts.append(sum(n for call, n in counting.calls.items() if call in PRODUCTS))
    assert counts[0] == counts[1]
    torch.testing.assert_close(*found)
    own, theirs = (stored(function, [*tensors, normal]) for function in (item.function, item.composite))
    assert own[0] <= theirs[0] or own[1] <= theirs[1]


@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize("given", [True, False])
def test_second_derivatives_and_half_precision_compute_again_what_was_kept(given: bool, normal: bool) -> None:
    item = compiled_text(TEXT)
    found = []
    for function in (item.function, item.composite):
        tensors = arguments(given)
        wanted = [t for t in tensors if t is not None]
        first = torch.autograd.grad(
            function(*tensors, normal).sin().sum(), wanted, create_graph=True, materialize_grads=True
        )
        squares = torch.stack([(g * g).sum() for g in first]).sum()
        found.append(torch.autograd.grad(squares, wanted, materialize_grads=True))
    torch.testing.assert_close(*found)
    small = arguments(given, torch.bfloat16)
    wanted = [t for t in small if t is not None]
    own = torch.autograd.grad(item.function(*small, normal).sum(), wanted, materialize_grads=True)
    assert all(g.dtype == torch.bfloat16 and g.isfinite().all() for g in own)


RECOMPUTED = """
op: dice
tensors: {x: {shape: [N, D]}, w: {shape: [N, D], grad: false}}
let: {p: sigmoid(x)}
outputs: {y: 1 - 2 * sum(p * w) / (sum(p**2) + sum(w**2))}
"""


def test_what_residuals_and_gradients_are_computed_from_is_computed_once_where_backward_is_differentiated() -> None:
    item = compiled_text(RECOMPUTED)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    y = item.function(x, torch.rand(3, 4, dtype=torch.float64))
    with Counting() as counting:
        torch.autograd.grad(y, x, create_graph=True)
    assert counting.calls[torch.ops.aten.sum.default] > 1, "it recomputes its residuals"
    assert counting.calls[torch.ops.aten.sigmoid.default] == 2, "of x and of -x"


ROUNDS = """
op: rounds
tensors: {x: {shape: [N, N]}}
let:
  a: 2 * sin(x) - sin(x) @ x @ sin(x)
  b: 2 * a - a @ x @ a
outputs: {y: 2 * b - b @ x @ b}
"""


def test_what_stands_before_residuals_is_computed_without_them_and_repeats_no_product() -> None:
    item = compiled_text(ROUNDS)
    x = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    counts = []
    for function in (item.function, item.composite):
        y = function(x)
        with Counting() as counting:
            torch.autograd.grad(y.sin().sum(), x)
        counts.append(sum(n for call, n in counting.calls.items() if call in PRODUCTS))
    assert counts[0] <= counts[1]


@pytest.mark.parametrize(
    ("formula", "operation"),
    [
        ("softmax(topk(x, 2, dim=-1).values, dim=-1)", "topk"),
        ("exp(sort(x, dim=-1).values)", "sort"),
        ("x - max(x, dim=-1, keepdim=True).values", "max"),
    ],
)
def test_indices_that_forward_finds_are_not_looked_for_again(formula: str, operation: str) -> None:
    text = f"op: chosen\ntensors: {{x: {{shape: [N, C]}}}}\noutputs: {{y: '{formula}'}}\noptions: {{kernels: none}}\n"
    module = symgrad.load(text)
    x = torch.randn(4, 5, requires_grad=True, dtype=torch.float64)
    with Counting() as found:
        y = module.chosen(x)
        torch.autograd.grad(y.sin().sum(), x)
    assert sum(n for f, n in found.calls.items() if f._schema.name == f"aten::{operation}") == 1
    assert torch.autograd.gradcheck(module.chosen, (x,), check_batched_grad=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(module.chosen, (x,))
    vmapped = torch.func.vmap(torch.func.grad(lambda r: module.chosen(r[None]).sin().sum()))(x.detach())
    torch.testing.assert_close(vmapped, torch.autograd.grad(module.chosen(x).sin().sum(), x)[0])


STEP = """
op: step
tensors: {s: {shape: [B, D, M]}, k: {shape: [B, D]}, v: {shape: [B, M]}, q: {shape: [B, D]}, b: {shape: [B]}}
let:
  n: "k / max(norm(k, dim=-1, keepdim=True), 1e-6)"
  new: "s + sigmoid(b)[:, None, None] * n[:, :, None] * (v - sum(s * n[:, :, None], dim=1))[:, None, :]"
outputs: {o: "sum(new * q[:, :, None], dim=1)", state: new}
"""


def test_an_output_that_is_a_residual_too_keeps_its_gradient() -> None:
    """What forward returns for backward alone is marked as without a derivative; no output may be that tensor."""
    item = compiled_text(STEP)
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, 3, 4), (2, 3), (2, 4), (2, 3), (2,)]
    tensors = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]
    found = [
        torch.autograd.grad(f(*tensors)[1].sin().sum(), tensors, materialize_grads=True)
        for f in (item.function, item.composite)
    ]
    torch.testing.assert_close(*found)


RUNNING = """
op: running
tensors: {k: , v: , a: , b: , p: , u: , w: }
let:
  s: u + k
  m: max(p, s)
  t: p + w
  l: max(t, k)
  c: exp(t - l)
  d: exp(k - l)
outputs: {y: (exp(p - m)*a + exp(s - m)*v)/(exp(p - m)*b + exp(s - m)), z: c*a + d*v, n: c*b + d, top: l}
"""


def test_backward_in_float64_reads_no_output_that_forward_has_rounded() -> None:
    """exp(t - l) is 1 where l is t: not where l was rounded to float32, and t was not."""
    (variant,) = [v for _, v in compile_operation(parse_formulas(parse_spec(RUNNING).with_kernels())).variants()]
    assert variant.wide_slopes and {s.source for s in variant.plan.saved} == {"input"}
