"""Fused second derivatives and fused forward mode: they agree with the eager bodies, and are no less accurate."""

from __future__ import annotations

from itertools import product

import mpmath as mp
import numpy as np
import pytest
import torch
from fused import all_written, needs_compiler
from fused_specs import BELL, CHANNEL, ENTROPY, GATE, LOSS, NORM, ROWS, TWO
from nightly import sampled
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

pytestmark = needs_compiler

SATURATING = "op: saturating\ntensors: {x: }\noptions: {save: memory}\noutputs: {y: tanh(x)}\n"
SMOOTH = "op: smooth\ntensors: {x: }\noutputs: {y: x * tanh(log1p(exp(x)))}\n"
BIAS = "op: bias\ntensors: {x: {shape: [N, C, T]}, b: {shape: [C]}}\noutputs: {y: x + b}\n"
UNIT = "op: unit\ntensors: {x: }\noutputs: {y: 'x / (norm(x, dim=-1, keepdim=True) + 1)'}\n"
FLOORED = "op: floored\ntensors: {x: }\noutputs: {y: sin(x), n: {expr: floor(x), grad: false}}\n"
ONCE = "op: once\ntensors: {x: }\noptions: {double_backward: false}\noutputs: {y: sin(x)}\n"


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    texts = (GATE, CHANNEL, LOSS, ENTROPY, NORM, ROWS, TWO, SATURATING, SMOOTH, BELL, ONCE, BIAS, UNIT, FLOORED)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SYMGRAD_KERNELS", raising=False)
        yield all_written(texts, tmp_path_factory.mktemp("second"))


def leaves(shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [(0.5 + torch.rand(s, generator=generator, dtype=torch.float64)).requires_grad_() for s in shapes]


def passes(module, name):
    """How many passes of a kind have run, for different shapes or choices."""
    return sum(bool(walk) and key[0].startswith(name) for key, walk in module._kernels.walks.items())


def second(module, name, shapes, settings, differentiated, wanted):
    """The gradients of some gradients with respect to some inputs and the cotangents."""
    inputs = leaves(shapes)
    outputs = getattr(module, name)(*inputs, *settings)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    cotangents = leaves([y.shape for y in outputs], 1)
    chosen = [inputs[k] for k in differentiated]
    gradients = torch.autograd.grad(outputs, chosen, cotangents, create_graph=True)
    found = torch.autograd.grad(
        gradients,
        [*(inputs[k] for k in wanted), *cotangents],
        leaves([g.shape for g in gradients], 2),
        allow_unused=True,
    )
    return [*gradients, *(torch.zeros(()) if g is None else g for g in found)]


CASES = [
    ("gate", [(40, 33), (33,)], ()),
    ("gate", [(70000,), ()], ()),
    ("gate", [(), ()], ()),
    ("channel", [(2, 3, 50), (3,)], ()),
    ("loss", [(50, 70), (70,)], (0.3, "mean")),
    ("loss", [(6,), (6,)], (0.3, "sum")),
    ("loss", [(6, 5), (6, 1)], (0.3, "none")),
    ("entropy", [(5, 70), (5, 70)], ("mean",)),
    ("norm", [(2, 3, 16), (16,)], ()),
    ("rows", [(4, 40)], ()),
    ("two", [(4, 5), (5,)], ()),
    ("saturating", [(300,)], ()),
    ("unit", [(4, 40)], ()),  # a truth value of a row, which is read for each element
    ("bias", [(3, 2, 5), (2,)], ()),  # a tangent of b alone is smaller than the result
]


@pytest.mark.parametrize(("name", "shapes", "settings"), sampled(CASES, 3), ids=str)
def test_every_choice_agrees_with_eager_operations(modules, name, shapes, settings):
    module = modules[name]
    module._kernels.forget()
    subsets = [[0], [1], [0, 1]] if len(shapes) == 2 else [[0]]
    for differentiated, wanted in product(subsets, subsets):
        found = []
        for on in (True, False):
            module._kernels.on = on
            found.append(second(module, name, shapes, settings, differentiated, wanted))
        module._kernels.on = True
        for fused, eager in zip(*found, strict=True):
            torch.testing.assert_close(fused, eager, rtol=1e-10, atol=1e-11)
    assert passes(module, "second")


def test_third_derivatives_are_right(modules):
    x, beta = leaves([(5,), ()])
    assert torch.autograd.gradgradcheck(
        lambda x, beta: torch.autograd.grad(modules["gate"].gate(x, beta).sum(), x, create_graph=True)[0], (x, beta)
    )


def test_a_saved_output_keeps_its_part_of_higher_derivatives(modules):
    (x,) = leaves([(5,)])
    y = modules["saturating"].saturating(x)
    for truth in (lambda t: 1 - t**2, lambda t: -2 * t * (1 - t**2), lambda t: (6 * t**2 - 2) * (1 - t**2)):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        torch.testing.assert_close(y, truth(torch.tanh(x)))


def test_a_gradient_that_is_not_differentiable_twice_says_so(modules):
    (x,) = leaves([(5,)])
    (grad,) = torch.autograd.grad(modules["once"].once(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double_backward"):
        grad.sum().backward()


def test_where_nothing_serves_eager_operations_do(modules):
    x, beta = leaves([(5,), ()])
    narrow = beta.detach().float().requires_grad_()
    grads = torch.autograd.grad(modules["gate"].gate(x, narrow).sum(), (x, narrow), create_graph=True)
    found = torch.autograd.grad(sum(g.double().sum() for g in grads), (x, narrow))
    z, eager_beta = x.detach().requires_grad_(), narrow.detach().requires_grad_()
    expected = torch.autograd.grad((z * torch.sigmoid(eager_beta * z)).sum(), (z, eager_beta), create_graph=True)
    expected = torch.autograd.grad(sum(g.double().sum() for g in expected), (z, eager_beta))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_under_checkpoint_and_hooks(modules):
    found = []
    for wrapped in (False, True):
        x, beta = leaves([(30,), ()])
        seen = []
        x.register_hook(lambda g, seen=seen: seen.append(g.detach().clone()))
        f = modules["gate"].gate
        y = checkpoint(f, x, beta, use_reentrant=False) if wrapped else f(x, beta)
        grads = torch.autograd.grad(y.sum(), (x, beta), create_graph=True)
        (grads[0].square().sum() + grads[1]).backward()
        found.append([x.grad, beta.grad, *seen])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)
    assert len(found[0]) == 4


def test_forward_mode_over_the_gradient_is_eager_and_right(modules):
    x, beta = leaves([(5,), ()])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        (grad,) = torch.autograd.grad(modules["gate"].gate(dual, beta).sum(), x, create_graph=True)
        pushed = forward_ad.unpack_dual(grad).tangent
    (grad,) = torch.autograd.grad(modules["gate"].gate(x, beta).sum(), x, create_graph=True)
    torch.testing.assert_close(pushed, torch.autograd.grad(grad.sum(), x)[0])


# ------------------------------------------------------------------------------------------------ forward mode
@pytest.mark.parametrize(("name", "shapes", "settings"), sampled(CASES, 3), ids=str)
def test_forward_mode_is_one_pass(modules, name, shapes, settings):
    module = modules[name]
    module._kernels.forget()
    subsets = [[0], [1], [0, 1]] if len(shapes) == 2 else [[0]]
    for chosen in subsets:
        found = []
        for on in (True, False):
            module._kernels.on = on
            with forward_ad.dual_level():
                inputs = [t.detach() for t in leaves(shapes)]
                tangents = [t.detach() for t in leaves(shapes, 1)]
                for k in chosen:
                    inputs[k] = forward_ad.make_dual(inputs[k], tangents[k])
                outputs = getattr(module, name)(*inputs, *settings)
                outputs = outputs if isinstance(outputs, tuple) else (outputs,)
                found.append([forward_ad.unpack_dual(y).tangent for y in outputs])
        module._kernels.on = True
        for fused, eager in zip(*found, strict=True):
            torch.testing.assert_close(fused, eager, rtol=1e-10, atol=1e-11)
    assert passes(module, "jvp") == len(subsets)


def test_an_output_without_derivatives_has_no_tangent(modules):
    x = torch.randn(5)
    with forward_ad.dual_level():
        y, n = modules["floored"].floored(forward_ad.make_dual(x, torch.ones_like(x)))
        torch.testing.assert_close(forward_ad.unpack_dual(y).tangent, torch.cos(x))
        assert forward_ad.unpack_dual(n).tangent is None
    assert passes(modules["floored"], "jvp")


def test_forward_mode_that_autograd_records_is_eager(modules):
    x, beta = leaves([(5,), ()])
    modules["gate"]._kernels.forget()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        pushed = forward_ad.unpack_dual(modules["gate"].gate(dual, beta)).tangent
    assert not passes(modules["gate"], "jvp")
    assert torch.autograd.grad(pushed.sum(), x)[0].abs().sum() > 0


# ------------------------------------------------------------------------------------------------ accuracy
TRUTH = {
    "smooth": lambda x: x * mp.tanh(mp.log1p(mp.exp(x))),
    "gelu_tanh": lambda x: x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))),
    "gate": lambda x: x / (1 + mp.exp(-x)),
}


def _second_of(module, name, x, *others):
    leaf = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(getattr(module, name)(leaf, *others).sum(), leaf, create_graph=True)
    return torch.autograd.grad(grad.sum(), leaf)[0]


@pytest.mark.parametrize("name", TRUTH)
def test_second_derivatives_are_accurate_wherever_they_are_finite(modules, name):
    """Within a few ulp beyond the conditioning, and no worse than the double backward of the eager bodies.

    What is below the normal range may be flushed to zero.
    """
    module, points = modules[name], np.concatenate([np.linspace(-30, 30, 241), [-90, -60, 45, 80, 1e4, -1e4, 1e-6]])
    x = torch.tensor(points, dtype=torch.float32)
    others = (torch.ones(()),) if name == "gate" else ()
    fused = _second_of(module, name, x, *others).double()
    module._kernels.on = False
    eager = _second_of(module, name, x, *others).double()
    module._kernels.on = True
    assert torch.isfinite(fused).all()
    errors = []
    for k, value in enumerate(x.tolist()):
        with mp.workdps(60):
            own = mp.mpf(value)
            d2, d3 = (mp.diff(TRUTH[name], own, n, h=mp.mpf(10) ** -14) for n in (2, 3))
            ulp = mp.mpf(float(np.spacing(np.float32(abs(float(d2))))))
            allowed = abs(d3 * own) * mp.mpf(2) ** -23  # what an ulp of x changes
            if abs(d2) < np.finfo(np.float32).tiny:
                continue
            errors.append(
                [float(max(0, abs(mp.mpf(v) - d2) - allowed) / ulp) for v in (fused[k].item(), eager[k].item())]
            )
    ours, theirs = map(max, zip(*errors, strict=True))
    assert ours <= 10 and ours <= max(theirs, 1)
