"""What a seed draws is the same wherever it is drawn, and looks random."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text
from torch.utils.checkpoint import checkpoint

from symgrad.errors import SpecError
from symgrad.targets.torch.runtime import _runtime as rt

DROPOUT = """
op: drop
tensors: {x: , w: }
hyperparameters: {p: 0.25, seed: {type: int, default: 0}}
outputs: {y: "dropout(x, p, seed) * w"}
options: {kernels: none}
"""


def test_the_bits_are_those_of_splitmix64() -> None:
    def mixed(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)

    for seed in (0, 3, 2**62, -5):
        right = [mixed((mixed(seed % 2**64) + k * 0x9E3779B97F4A7C15) % 2**64) >> 41 for k in range(1, 7)]
        assert rt.random_bits(torch.Size((2, 3)), seed, torch.ones(1)).flatten().tolist() == right


def test_neighbouring_seeds_and_places_are_independent() -> None:
    draws = torch.stack(
        [(rt.random_bits(torch.Size((100_000,)), seed, torch.ones(1)) + 0.5) / 2**23 for seed in (0, 1, 2)]
    )
    assert (draws.mean(1) - 0.5).abs().max() < 0.005
    assert (draws.var(1) * 12 - 1).abs().max() < 0.02
    pairs = torch.corrcoef(torch.cat([draws[:, 1:], draws[:, :-1]])) - torch.eye(6)
    assert pairs.abs().max() < 0.015


@pytest.mark.parametrize("policy", ["auto", "memory"])
def test_backward_has_the_mask_of_forward_or_draws_it_again(policy: str) -> None:
    op = compiled_text(DROPOUT.replace("kernels: none", f"kernels: none, save: {policy}"))
    x, w = torch.randn(2000, requires_grad=True), torch.full((2000,), 3.0, requires_grad=True)
    saved: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t), t)[1], lambda t: t):
        y = op.function(x, w, seed=7)
    own = [t for t in saved if t.data_ptr() not in (x.data_ptr(), w.data_ptr())]
    assert [t.dtype for t in own] == ([torch.bool] if policy == "auto" else [])
    kept = y != 0
    assert 0.7 < kept.float().mean() < 0.8
    grad_x, grad_w = torch.autograd.grad(y.sum(), (x, w))
    torch.testing.assert_close(grad_x, torch.where(kept, 4.0, 0.0))
    torch.testing.assert_close(grad_w, torch.where(kept, x / 0.75, 0.0))
    again = checkpoint(lambda x: op.function(x, w, seed=7), x, use_reentrant=False, preserve_rng_state=False)
    assert torch.equal(again, y) and torch.equal(torch.autograd.grad(again.sum(), x)[0], grad_x)
    assert not torch.equal(op.function(x, w, seed=8), y)


def test_a_generator_draws_a_seed_for_each_call() -> None:
    op = compiled_text(DROPOUT)
    x, w = torch.ones(500), torch.ones(500)
    first, second = (op.function(x, w, seed=g) for g in [torch.Generator().manual_seed(1)] * 2)
    assert not torch.equal(first, second)
    assert torch.equal(first, op.function(x, w, seed=torch.Generator().manual_seed(1)))
    with pytest.raises(TypeError, match="seed must be of type int"):
        op.function(x, w, seed=1.5)


def test_a_seed_that_is_a_tensor_may_differ_along_a_batch() -> None:
    spec = "{op: f, tensors: {x: , seed: {dtype: int, shape: []}}, outputs: {y: 'x + uniform(x, seed)'}}"
    op = compiled_text(spec)
    x = torch.zeros(3, 50)
    apart = torch.func.vmap(op.function)(x, torch.arange(3))
    alike = torch.func.vmap(op.function, (0, None))(x, torch.tensor(1))
    assert torch.equal(apart, torch.stack([op.function(x[0], torch.tensor(k)) for k in range(3)]))
    assert torch.equal(alike[0], alike[2]) and torch.equal(alike[0], apart[1])


def test_normal_numbers_are_normal_in_the_dtype_of_the_tensor() -> None:
    op = compiled_text("{op: f, tensors: {x: }, outputs: {y: 'x + 2*normal(x, 5)'}, options: {kernels: none}}")
    y = op.function(torch.ones(100_000, dtype=torch.float64))
    assert abs(y.mean() - 1) < 0.02 and abs(y.std() - 2) < 0.02 and y.dtype == torch.float64
    assert op.function(torch.ones(3, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("dropout(x, 0.5)", "lacks its argument 'seed'"),
        ("dropout(x, 1, 3)", "the share of what is dropped is at least 0 and below 1"),
        ("dropout(x, x, 3)", "'p' must be a number or made of hyperparameters"),
        ("uniform(x, 1.5)", "needs a seed that is a hyperparameter of type int"),
        ("normal(x, x)", "needs a seed that is a hyperparameter of type int"),
        ("randn_like(x)", "write uniform(x, seed), normal(x, seed) or dropout(x, p, seed)"),
    ],
)
def test_a_draw_without_a_seed_is_refused(formula: str, message: str) -> None:
    with pytest.raises(SpecError, match="(?s)" + message.replace("(", r"\(").replace(")", r"\)")):
        compiled_text(f"{{op: f, tensors: {{x: }}, outputs: {{y: '{formula}'}}}}")


def test_what_is_drawn_has_the_dtype_of_what_it_is_drawn_for() -> None:
    """A number of float64 beside single precision of some dimensions would be rounded to that: promotion is torch's."""
    item = compiled_text("\nop: sampled\ntensors: {mu: , sigma: }\noutputs: {z: 'mu + sigma * normal(mu, 7)'}\n")
    mu, sigma = torch.zeros(3, dtype=torch.float64), torch.tensor(1 / 3, dtype=torch.float64)
    whole = item.function(mu, torch.ones((), dtype=torch.float64))
    torch.testing.assert_close(item.function(mu, sigma), whole / 3, rtol=1e-15, atol=0)
    torch.testing.assert_close(item.function(mu.float(), sigma.float()), (whole / 3).float())
    torch.testing.assert_close(item.function(mu.half(), sigma.half()), (whole / 3).half(), rtol=1e-3, atol=0)
