"""Fused passes over parts of a dimension agree with the eager bodies, whatever the sizes and strides."""

from __future__ import annotations

import pytest
import torch
from fused import agree, all_written, needs_compiler, passes_of
from fused_specs import (
    ANGLED,
    CROSSED,
    EVERY_OTHER,
    FIRST_OF_ALL,
    GATED_CHANNELS,
    JOINED,
    PACKED,
    PAIRS,
    PARTLY_TURNED,
    ROTARY,
    SPUN,
    TURNED_ROWS,
)
from torch.autograd import forward_ad, gradcheck, gradgradcheck

pytestmark = needs_compiler
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SHAPES = {
    "rotary": lambda n: [(2, 3, 5, 2 * n), (5, 2 * n), (5, 2 * n)],
    "packed": lambda n: [(7, 2 * n), (2 * n,), (7, 1)],
    "gated_channels": lambda n: [(2, 4, n, 3), (4, 1, 1)],
    "partly_turned": lambda n: [(n, 3, 12), (3, 4), (3, 4)],
    "joined": lambda n: [(5, n), (5, n)],
    "first_of_all": lambda n: [(n, 6)],
    "turned_rows": lambda n: [(5, 2 * n)],
    "pairs": lambda n: [(2, 3, 2 * n), (3, n), (3, n)],
    "every_other": lambda n: [(7, 2 * n), (7, 1)],
    "crossed": lambda n: [(n, 3), (n, 3), (3,)],
    "spun": lambda n: [(3, n, 2), (3, n, 2)],
    "angled": lambda n: [(n, 3), (n, 3), (n,)],
}
FIXED = {"rotary": (2,), "pairs": (2,), "partly_turned": (1, 2)}  # the places of what has no gradient


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    texts = (ROTARY, PACKED, GATED_CHANNELS, PARTLY_TURNED, JOINED, FIRST_OF_ALL, TURNED_ROWS, PAIRS, EVERY_OTHER)
    texts = (*texts, CROSSED, SPUN, ANGLED)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SYMGRAD_KERNELS", raising=False)
        yield all_written(texts, tmp_path_factory.mktemp("parts"))


def drawn(name, n, dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in SHAPES[name](n)]


def leaves_of(name, arguments, wanted=None):
    places = [k for k in range(len(arguments)) if k not in FIXED.get(name, ())]
    wanted = places if wanted is None else wanted
    return [t.detach().requires_grad_(k in wanted) for k, t in enumerate(arguments)]


def called(module, arguments, run, on=True):
    """What comes of an operation with fused passes, or without, and how many passes served."""
    with passes_of(module, on) as served:
        found = run(module, arguments)
    return found, len(served)


def results(module, arguments):
    found = getattr(module, module._kernels.source.stem)(*arguments)
    return list(found) if isinstance(found, tuple) else [found]


def cotangents(values):
    return [torch.linspace(-1, 2, v.numel(), dtype=torch.float64).reshape(v.shape).to(v.dtype) for v in values]


def gradients(module, arguments, wanted=None):
    leaves = leaves_of(module._kernels.source.stem, arguments, wanted)
    values = results(module, leaves)
    found = torch.autograd.grad(values, [t for t in leaves if t.requires_grad], cotangents(values))
    return [*(v.detach() for v in values), *found]


def second(module, arguments):
    leaves = leaves_of(module._kernels.source.stem, arguments)
    values = results(module, leaves)
    own = [t for t in leaves if t.requires_grad]
    pulled = [c.requires_grad_() for c in cotangents(values)]
    found = torch.autograd.grad(values, own, pulled, create_graph=True)
    return torch.autograd.grad(found, [*own, *pulled], [g.detach().cos() for g in found], materialize_grads=True)


def tangents(module, arguments):
    fixed = FIXED.get(module._kernels.source.stem, ())
    with forward_ad.dual_level():
        duals = [t if k in fixed else forward_ad.make_dual(t, t.cos()) for k, t in enumerate(arguments)]
        return [forward_ad.unpack_dual(v).tangent for v in results(module, duals)]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("n", [2, 7, 16, 17, 150])
def test_passes_agree_with_eager_bodies(modules, name, n):
    for dtype in DTYPES if name in ("rotary", "packed", "pairs") else DTYPES[:1]:
        arguments = drawn(name, n, dtype)
        fused, served = called(modules[name], arguments, gradients)
        eager, _ = called(modules[name], arguments, gradients, on=False)
        assert served == 2
        agree(fused, eager)


@pytest.mark.parametrize(
    ("name", "run"),
    [*((n, tangents) for n in SHAPES), *((n, second) for n in SHAPES if n not in ("gated_channels", "angled"))],
)
def test_forward_mode_and_second_derivatives_agree_with_eager_bodies(modules, name, run):
    arguments = drawn(name, 17)
    fused, served = called(modules[name], arguments, run)
    eager, _ = called(modules[name], arguments, run, on=False)
    assert served == (3 if run is second else 2)
    agree(fused, eager)


@pytest.mark.parametrize("wanted", [(0,), (1,), (0, 2), (1, 2)])
def test_only_the_gradients_that_are_wanted_are_written(modules, wanted):
    arguments = drawn("packed", 20)
    fused, served = called(modules["packed"], arguments, lambda m, given: gradients(m, given, wanted))
    eager, _ = called(modules["packed"], arguments, lambda m, given: gradients(m, given, wanted), on=False)
    assert served == 2 and len(fused) == 1 + len(wanted)
    agree(fused, eager)


STRIDES = {
    "swapped": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1) if t.dim() > 1 else t,
    "the last dimension outside": lambda t: t.movedim(-1, 0).contiguous().movedim(0, -1),
    "every second element": lambda t: torch.stack([t, t], -1)[..., 0],
    "at an offset": lambda t: torch.cat([t, t])[len(t) :],
    "expanded": lambda t: t[:1].expand(t.shape),
    "channels last": lambda t: t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t,
}


@pytest.mark.parametrize(
    "name", ["rotary", "packed", "gated_channels", "joined", "turned_rows", "pairs", "every_other", "crossed", "angled"]
)
@pytest.mark.parametrize("order", STRIDES)
def test_tensors_in_any_order_of_memory(modules, name, order):
    for n in (5, 32):
        arguments = list(map(STRIDES[order], drawn(name, n)))
        fused, _ = called(modules[name], arguments, gradients)
        eager, _ = called(modules[name], arguments, gradients, on=False)
        agree(fused, eager)


@pytest.mark.parametrize("name", SHAPES)
def test_parts_of_one_element_and_tensors_without_any(modules, name):
    for n in (1, 0):
        arguments = drawn(name, n)
        agree(called(modules[name], arguments, gradients)[0], called(modules[name], arguments, gradients, on=False)[0])


def test_what_has_no_equal_parts_is_refused_as_eager_bodies_do(modules):
    for on in (True, False):
        with pytest.raises((ValueError, RuntimeError)):
            called(modules["packed"], [torch.randn(3, 5), torch.randn(5), torch.randn(3, 1)], results, on=on)


@pytest.mark.parametrize("name", ["rotary", "packed", "joined", "turned_rows", "pairs", "crossed", "spun"])
def test_derivatives_are_those_of_finite_differences(modules, name):
    arguments = leaves_of(name, drawn(name, 2))
    function = getattr(modules[name], name)
    assert gradcheck(function, arguments, check_forward_ad=True)
    assert gradgradcheck(function, arguments)


def test_tensors_of_other_leading_dimensions_are_left_to_eager_operations(modules):
    arguments = [torch.randn(3, 5, 2), torch.randn(5, 2)]
    fused, served = called(modules["spun"], arguments, gradients)
    eager, _ = called(modules["spun"], arguments, gradients, on=False)
    assert served in (0, 1)  # forward may broadcast
    agree(fused, eager)


@pytest.mark.parametrize("name", ["packed", "pairs"])
def test_large_results_are_written_part_by_part_past_the_caches(modules, name):
    arguments = {
        "packed": [torch.randn(3200, 1024), torch.randn(1024), torch.randn(3200, 1)],
        "pairs": [torch.randn(8, 400, 1024), torch.randn(400, 512), torch.randn(400, 512)],
    }[name]
    for _ in range(2):  # memory that is new, and memory that is there
        fused, served = called(modules[name], arguments, gradients)
        assert served == 2
    eager, _ = called(modules[name], arguments, gradients, on=False)
    torch.testing.assert_close(fused[:2], eager[:2], rtol=1e-5, atol=1e-5)
