"""Triton passes that read labels agree with the eager bodies, and never reach out of a row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from devices import on_cuda
from fused import agree, all_written, imported
from fused_specs import LABELS, MEAN_LABELS, PICKED, WEIGHTED_LABELS
from nightly import sampled

pytest.importorskip("triton")
import interpreted

from tests.targets.cpp.test_labels import NAMES, drawn

SMALL = {"TILE": 32, "WIDEST": 64, "PROGRAMS": 4, "LONGEST": 8, "NEAR": 50}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    texts = (LABELS, MEAN_LABELS, WEIGHTED_LABELS, PICKED)
    return {op: Path(m.__file__) for op, m in all_written(texts, tmp_path_factory.mktemp("labels")).items()}


@pytest.fixture(scope="module")
def both(paths, interpret):
    def call(op, tensors, settings=(), **options):
        wanted = (0,) if op == "mean_labels" else None  # whose weights have no gradient
        return interpret(interpreted.both, paths[op], tensors, settings, wanted, **options)

    return call


def changed(tensors, change):
    return [t if t.is_floating_point() else change(t) for t in tensors]


@pytest.mark.parametrize("sizes", [None, SMALL], ids=["usual tiles", "small tiles"])
@pytest.mark.parametrize(("name", "size"), sampled([(n, s) for s in (300, 17, 1, 64, 65) for n in NAMES], 2), ids=str)
def test_passes_agree_with_eager_bodies(both, name, size, sizes):
    fused, eager, served = both(name, drawn(name, size), sizes=sizes)
    agree(fused, eager)
    assert served == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["mean_labels", "weighted_labels"])
def test_dtypes(both, name, dtype):
    fused, eager, served = both(name, drawn(name, 40, dtype))
    agree(fused, eager)
    assert served == 2


@pytest.mark.parametrize("whole", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("name", ["labels", "picked"])
def test_labels_are_read_in_place(both, name, whole):
    fused, eager, served = both(name, drawn(name, 9, torch.float32, whole))
    agree(fused, eager)
    assert served == 2
    strided = changed(drawn(name, 9, torch.float32, whole), lambda i: torch.stack([i, i], -1)[..., 0])
    agree(both(name, strided)[0], fused)


@pytest.mark.parametrize("size", sampled([100_003, 32_000], 2))
def test_rows_that_no_program_holds(both, size):
    tensors = [3 * torch.randn(2, size), torch.rand(size), torch.tensor([size - 1, 8192])]
    fused, eager, served = both("mean_labels", tensors)
    agree(fused, eager)
    assert served == 2


def test_where_every_label_is_ignored_all_is_zero(both):
    x, i = torch.randn(4, 6), torch.full((4,), -100)
    (mean, _), _, served = both("mean_labels", [x, torch.ones(6), i])
    assert served == 2 and mean.isnan()  # 0 / 0, as torch has it
    (value, gradient), _, served = both("labels", [x, i])
    assert served == 2 and not value.any() and not gradient.any()


@pytest.mark.parametrize("place", [-1, 6, 2**24, 2**40, -(2**62)])
@pytest.mark.parametrize("name", ["labels", "picked"])
def test_a_label_out_of_range_is_an_error_and_never_read(paths, interpret, both, name, place):
    x, i = torch.randn(5, 6), torch.tensor([0, 1, place, 2, 3])
    said, found = interpret(interpreted.strayed, paths[name], [x, i])
    assert "index out of bounds" in said
    others = i != place
    agree([found[0][others]], [both(name, [x, i.clamp(0, 5)])[0][0][others]])


@pytest.mark.parametrize("name", ["labels", "picked"])
def test_forward_mode_and_second_derivatives(paths, interpret, name):
    fused, eager, served = interpret(interpreted.higher, paths[name], drawn(name, 9), sizes=SMALL, wanted=[0])
    agree(fused, eager)
    assert served["jvp"] and served["second"]


@on_cuda
@pytest.mark.parametrize("size", [1, 17, 1000, 8192, 32_000, 128_256])
@pytest.mark.parametrize("name", NAMES)
def test_passes_on_a_device_agree_with_eager_bodies(paths, name, size):
    module = imported(paths[name])
    kernels, wanted = module._kernels.elsewhere, (0,) if name == "mean_labels" else None
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        tensors = [t.cuda() for t in drawn(name, size, dtype)]
        found = []
        for on in (True, False, True):
            kernels.on = on
            found.append(interpreted.results(getattr(module, name), tensors, wanted=wanted))
        agree(*found[:2])
        assert all(map(torch.equal, found[0], found[2]))
        assert kernels.on and sum(map(bool, kernels.walks.values())) == 2
        kernels.forget()


@on_cuda
@pytest.mark.parametrize("place", [-1, 6, 2**40])
def test_a_label_out_of_range_on_a_device_is_an_assertion(paths, place):
    lines = [
        "import torch",
        "from symgrad.importing import import_generated",
        "from pathlib import Path",
        f"module = import_generated(Path({str(paths['labels'])!r}))",
        f"module.labels(torch.zeros(2, 6, device='cuda'), torch.tensor([0, {place}], device='cuda'))",
        "torch.cuda.synchronize()",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "index out of bounds" in done.stderr and "device-side assert" in done.stderr
