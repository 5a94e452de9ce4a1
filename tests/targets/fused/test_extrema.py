"""Gradients through the extremum of what is computed: no row is without its largest element, however it is rounded."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from fused import all_written, needs_compiler
from nightly import sampled
from torch.autograd import forward_ad

from symgrad.ir import expr as ex
from symgrad.ir.expr import make, symbol
from symgrad.ir.truth import compare, where
from symgrad.targets.fused.rows import compared, kept

FORMULAS = {
    "of_product": (
        "amax(x*w/sum(x*x, dim=-1, keepdim=True), dim=-1)",
        lambda x, w: (x * w / (x * x).sum(-1, True)).amax(-1),
    ),
    "of_sigmoid": ("amax(sigmoid(x)*w, dim=-1)", lambda x, w: (torch.sigmoid(x) * w).amax(-1)),
    "of_two": (
        "amax(tanh(x) + w, dim=-1) - amin(x*w + x, dim=-1)",
        lambda x, w: (x.tanh() + w).amax(-1) - (x * w + x).amin(-1),
    ),
    "of_tensors": ("amax(x, dim=-1) * amin(w, dim=-1)", lambda x, w: x.amax(-1) * w.amin(-1)),  # nothing to be held
    "of_size": ("norm(x*w, p=oo, dim=-1)", lambda x, w: (x * w).abs().amax(-1)),
}
SPECS = {
    op: f"op: {op}\ntensors: {{x: {{shape: [B, N]}}, w: {{shape: [B, N]}}}}\noutputs: {{y: '{formula}'}}\n"
    for op, (formula, _) in FORMULAS.items()
}
LOG_SUM = "op: log_sum\ntensors: {x: {shape: [B, N]}}\noutputs: {y: 'logsumexp(x, dim=-1)'}\n"
X, W = symbol("x", "tensor"), symbol("w", "tensor")


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    return all_written([*SPECS.values(), LOG_SUM], tmp_path_factory.mktemp("extrema"))


def test_what_is_compared_with_its_own_extremum_is_held_and_that_extremum_never_read():
    largest = make("row_max", X * W)
    slope = where(compare("eq", X * W, largest), W, ex.ZERO) / make("row_sum", X)
    assert compared([slope]) == {X * W: largest}
    assert compared([where(compare("eq", X, largest), W, ex.ZERO)]) == {}
    assert kept([largest / make("row_sum", X)], [slope]) == ()


@needs_compiler
@pytest.mark.parametrize(("op", "dtype"), sampled(product(FORMULAS, (torch.float32, torch.bfloat16)), 3), ids=str)
def test_gradients_through_an_extremum(modules, op, dtype):
    """With 37 columns a row has a register that is not full, with 1000 it has several strips."""
    torch.manual_seed(0)
    module, reference = modules[op], FORMULAS[op][1]
    function = getattr(module, op)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    for shape in ((64, 37), (8, 1000)):
        x, w, u, v = (torch.randn(shape).to(dtype) for _ in range(4))
        true = [t.double().requires_grad_() for t in (x, w)]
        x, w = x.requires_grad_(), w.requires_grad_()
        grads = torch.autograd.grad(function(x, w).sum(), (x, w), create_graph=True)
        truth = torch.autograd.grad(reference(*true).sum(), true, create_graph=True)
        second = torch.autograd.grad(grads, (x, w), (u, v), allow_unused=True)
        known = [(t, c.double()) for t, c in zip(truth, (u, v), strict=True) if t.requires_grad]
        of_truth = torch.autograd.grad([t for t, _ in known], true, [c for _, c in known], allow_unused=True)
        for found, wanted in zip((*grads, *second), (*truth, *of_truth), strict=True):
            if wanted is not None:
                torch.testing.assert_close(found.double(), wanted, rtol=tolerance, atol=tolerance)
        with forward_ad.dual_level():
            y = function(forward_ad.make_dual(x.detach(), u), forward_ad.make_dual(w.detach(), v))
            tangent = forward_ad.unpack_dual(y).tangent
        _, wanted = torch.func.jvp(reference, tuple(t.detach() for t in true), (u.double(), v.double()))
        torch.testing.assert_close(tangent.double(), wanted, rtol=tolerance, atol=5 * tolerance)
    assert all(module._kernels.walks.values())


@needs_compiler
def test_backward_does_not_start_from_what_half_precision_has_rounded(modules):
    """Near 100 a logsumexp in bfloat16 is wrong by up to 1/4, and the gradient would be by as much."""
    torch.manual_seed(0)
    x = (100 + torch.randn(16, 300)).to(torch.bfloat16).requires_grad_()
    (grad,) = torch.autograd.grad(modules["log_sum"].log_sum(x).sum(), x)
    torch.testing.assert_close(grad.double(), x.detach().double().softmax(-1), rtol=0.005, atol=1e-6)
    assert all(modules["log_sum"]._kernels.walks.values())
