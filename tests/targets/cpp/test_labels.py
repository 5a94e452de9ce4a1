"""Fused passes that read labels agree with the eager bodies, and never reach out of a row."""

from __future__ import annotations

import pytest
import torch
from fused import agree, all_written, needs_compiler, passes_of
from fused_specs import LABELS, MEAN_LABELS, PICKED, WEIGHTED_LABELS
from torch.autograd import forward_ad, gradcheck, gradgradcheck

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SYMGRAD_KERNELS", raising=False)
        yield all_written((LABELS, MEAN_LABELS, WEIGHTED_LABELS, PICKED), tmp_path_factory.mktemp("labels"))


def drawn(name, size, dtype=torch.float64, whole=torch.int64):
    """Arguments of an operation for rows of a length; a few labels are ignored."""
    generator = torch.Generator().manual_seed(3)
    rows = (2, 3) if name == "weighted_labels" else (7,)
    x = 3 * torch.randn(*rows, size, generator=generator)
    i = torch.randint(0, size, rows, generator=generator)
    if name != "picked":
        i.view(-1)[1::3] = -1 if name == "weighted_labels" else -100
    w = [] if name in ("labels", "picked") else [torch.rand(size, generator=generator).to(dtype)]
    return [x.to(dtype), *w, i.to(whole)]


def called(module, arguments, run, on=True):
    """What comes of an operation with fused passes, or without, and how many passes served."""
    with passes_of(module, on) as served:
        found = run(getattr(module, module._kernels.source.stem), arguments)
    return found, served


def gradients(function, arguments):
    leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in arguments]
    if function.__name__ == "mean_labels":  # whose weights have no gradient
        leaves[1].requires_grad_(False)
    y = function(*leaves)
    cotangent = torch.linspace(-1, 2, y.numel(), dtype=torch.float64).reshape(y.shape).to(y.dtype)
    return [y.detach(), *torch.autograd.grad(y, [t for t in leaves if t.requires_grad], cotangent)]


def tangents(function, arguments):
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(t, t.cos()) if k == 0 else t for k, t in enumerate(arguments)]
        return [forward_ad.unpack_dual(function(*duals)).tangent]


NAMES = ("labels", "mean_labels", "weighted_labels", "picked")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 300])
def test_passes_agree_with_eager_bodies(modules, name, size):
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        arguments = drawn(name, size, dtype)
        fused, served = called(modules[name], arguments, gradients)
        eager, _ = called(modules[name], arguments, gradients, on=False)
        assert len(served) == 2
        agree(fused, eager)


@pytest.mark.parametrize("whole", [torch.int32, torch.int64])
def test_labels_are_what_torch_takes_for_indices(modules, whole):
    arguments = drawn("picked", 9, torch.float32, whole)
    fused, served = called(modules["picked"], arguments, gradients)
    eager, _ = called(modules["picked"], arguments, gradients, on=False)
    assert len(served) == 2
    agree(fused, eager)


def test_other_whole_numbers_are_refused_as_torch_does(modules):
    with pytest.raises(RuntimeError, match="int32/int64"):
        called(modules["labels"], drawn("labels", 4, torch.float32, torch.int16), gradients)


@pytest.mark.parametrize("name", NAMES)
def test_tensors_in_any_order_of_memory(modules, name):
    x, *w, i = drawn(name, 20, torch.float32)
    strided = [x.mT.contiguous().mT, *(torch.stack([t, t], -1)[..., 0] for t in w), torch.stack([i, i], -1)[..., 0]]
    fused, served = called(modules[name], strided, gradients)
    eager, _ = called(modules[name], strided, gradients, on=False)
    assert len(served) == 2
    agree(fused, eager)
    broadcast = [x[..., :1, :].expand(x.shape), *w, i[..., :1].expand(i.shape)]
    agree(called(modules[name], broadcast, gradients)[0], called(modules[name], broadcast, gradients, on=False)[0])


def test_where_every_label_is_ignored_all_is_zero(modules):
    x, i = torch.randn(4, 6), torch.full((4,), -100)
    mean, served = called(modules["mean_labels"], [x, torch.ones(6), i], lambda f, given: f(*given))
    assert served and mean.isnan()  # 0 / 0, as torch has it
    (value, gradient), served = called(modules["labels"], [x, i], gradients)
    assert len(served) == 2 and not value.any() and not gradient.any()


@pytest.mark.parametrize("shape", [(0, 5), (0, 0)])
def test_no_rows_are_left_to_eager_bodies(modules, shape):
    arguments = [torch.zeros(shape), torch.zeros(shape[0], dtype=torch.int64)]
    (value, gradient), served = called(modules["labels"], arguments, gradients)
    assert not served and value.shape == shape[:1] and gradient.shape == shape


@pytest.mark.parametrize("place", [-1, -2, 6, 7, 2**24, 2**40, -(2**62)])
def test_a_label_out_of_range_is_an_error_and_never_read(modules, place):
    x, i = torch.randn(5, 6), torch.tensor([0, 1, place, 2, 3])
    for name in ("labels", "picked"):
        with pytest.raises(RuntimeError, match="out of bounds"):
            called(modules[name], [x, i], lambda function, given: function(*given))


def test_a_number_to_compare_labels_with_that_float32_has_not_is_left_to_eager_bodies(modules):
    x, w, i = drawn("weighted_labels", 5, torch.float32)
    i.clamp_(min=0)[0, 0] = 2**24 + 1
    result, served = called(modules["weighted_labels"], [x, w, i], lambda f, given: f(*given, ignored=2**24 + 1))
    assert not served and result[0, 0] == 0
    i[0, 0] = 4
    result, served = called(modules["weighted_labels"], [x, w, i], lambda f, given: f(*given, ignored=4))
    assert len(served) == 1 and result[0, 0] == 0


@pytest.mark.parametrize("name", ["labels", "mean_labels", "picked"])
def test_forward_mode_and_second_derivatives(modules, name):
    arguments = drawn(name, 5)
    fused, served = called(modules[name], arguments, tangents)
    eager, _ = called(modules[name], arguments, tangents, on=False)
    assert served
    agree(fused, eager)
    leaves = [t.requires_grad_(k == 0) for k, t in enumerate(arguments)]
    _, served = called(modules[name], leaves, lambda f, given: gradcheck(f, given) and gradgradcheck(f, given))
    assert served


@pytest.mark.parametrize("name", NAMES)
def test_what_is_vectorised_is_left_to_eager_bodies(modules, name):
    arguments = [torch.stack([t, t.flip(0)]) for t in drawn(name, 4, torch.float32)]
    function = getattr(modules[name], name)
    together = torch.func.vmap(function)(*arguments)
    for k in range(2):
        torch.testing.assert_close(together[k], function(*(t[k] for t in arguments)))
