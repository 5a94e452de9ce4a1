"""Rows shorter than some registers are reduced abreast, one in each lane: they agree with the eager bodies."""

from __future__ import annotations

import pytest
import torch
from fused import agree, all_written, needs_compiler, passes_of
from fused_specs import DISTANCE, HEADS, LAYER, PICKED, SHIFTED

pytestmark = needs_compiler

# Sums for each place over all rows, and over some; one sum over everything; values of a row; labels.
TEXTS = (LAYER, HEADS, DISTANCE, SHIFTED, PICKED)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SYMGRAD_KERNELS", raising=False)
        yield all_written(TEXTS, tmp_path_factory.mktemp("short"))


def drawn(op, rows, columns):
    """Arguments for so many rows, in float64."""
    generator = torch.Generator().manual_seed(rows * columns)
    shapes = {
        "layer": [(rows, columns), (columns,), (columns,)],
        "heads": [(2, rows, columns), (rows, 1), (1, 1, columns)],
        "distance": [(rows, columns), (rows, columns)],
        "shifted": [(rows, columns), (rows, 1)],
        "picked": [(rows, columns)],
    }
    found = [0.5 + torch.rand(s, generator=generator, dtype=torch.float64) for s in shapes[op]]
    labels = [torch.randint(0, columns, (rows,), generator=generator)] if op == "picked" else []
    return [*found, *labels]


def called(module, tensors, on):
    """Outputs and gradients with fused passes, or without, and how many passes served."""
    leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
    with passes_of(module, on) as served:
        y = getattr(module, module._kernels.source.stem)(*leaves)
        cotangent = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y.dtype)
        gradients = torch.autograd.grad(y, [t for t in leaves if t.requires_grad], cotangent)
    return [y, *gradients], served


@pytest.mark.parametrize("op", ["layer", "heads", "distance", "shifted", "picked"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_short_rows_agree_with_the_eager_bodies(modules, op, dtype):
    for rows, columns in ((100, 1), (37, 3), (16, 8), (50, 16), (333, 20), (40, 31), (2000, 33), (19, 48), (20, 49)):
        tensors = [t.to(dtype) if t.is_floating_point() else t for t in drawn(op, rows, columns)]
        (fused, served), (eager, _) = (called(modules[op], tensors, on) for on in (True, False))
        assert len(served) == 2
        agree(fused, eager)


def test_a_row_is_the_same_wherever_it_stands_among_short_ones(modules):
    x, weight, bias = (t.float() for t in drawn("layer", 45, 20))
    whole, _ = called(modules["layer"], [x[:1].expand(45, 20).contiguous(), weight, bias], True)
    assert (whole[0] == whole[0][0]).all()


def test_labels_of_short_rows_that_are_no_place_end_the_pass(modules):
    x, i = drawn("picked", 40, 20)
    i[39] = 20
    with pytest.raises((IndexError, RuntimeError)):
        called(modules["picked"], [x.float(), i], True)
