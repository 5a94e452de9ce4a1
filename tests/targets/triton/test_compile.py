"""Triton passes as CUDA's compiler and assembler take them, without a device: as modules launch them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from fused import all_written
from fused_specs import BELL, CHANNEL, GATE, LOSS, NORM, ROWS
from nightly import sampled

pytest.importorskip("triton")
import ptx

from tests.targets.triton.test_passes import LAYER, MASKED, PEAK, SETTINGS


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    texts = (GATE, CHANNEL, LOSS, NORM, ROWS, LAYER, MASKED, PEAK, SETTINGS, BELL)
    return {op: Path(m.__file__) for op, m in all_written(texts, tmp_path_factory.mktemp("cuda")).items()}


@pytest.fixture(scope="module")
def compiled(paths, without_device):
    return lambda op, *args: without_device(ptx.of_passes, paths[op], *args)


CASES = [
    ("gate", [(4096,), ()], ()),
    ("gate", [(64, 100), (100,)], ()),
    ("gate", [(7, 5, 6, 9), (7, 1, 6, 1)], ()),
    ("channel", [(4, 8, 70), (8,)], ()),
    ("loss", [(50, 70), (70,)], (0.75, "mean")),
    ("norm", [(64, 512), (512,)], ()),
    ("norm", [(4, 9000), (9000,)], ()),
    ("layer", [(9, 64), (64,), (64,)], ()),
    ("rows", [(64, 100)], ()),
    ("peak", [(64, 100)], ()),
    ("settings", [(4, 5), (5,)], (0.1, True, 1.7)),
    ("gelu_tanh", [(1000,)], ()),
]


DTYPES = [(*CASES[k], dtype) for k in (0, 7) for dtype in (torch.float64, torch.bfloat16, torch.float16)]


@pytest.mark.parametrize(
    ("op", "shapes", "settings", "dtype"), sampled([*((*case, torch.float32) for case in CASES), *DTYPES], 4), ids=str
)
def test_passes_compile_without_approximations_and_atomic_operations(compiled, op, shapes, settings, dtype):
    found = compiled(op, [torch.rand(s).to(dtype) for s in shapes], settings)
    assert len(found) == 2
    for text in found.values():
        assert not re.search(r"(?:sin|cos|tanh)\.approx|div\.full", text)
        assert ".atom." not in text and "red.global" not in text
        assert dtype == torch.float64 or op not in ("gate", "norm", "layer", "peak") or "fma.rn.f64" not in text


@pytest.mark.parametrize(("op", "shapes", "settings"), sampled([CASES[k] for k in (1, 3, 4, 5, 8, 11)], 3), ids=str)
def test_passes_of_forward_mode_and_second_derivatives(compiled, op, shapes, settings):
    found = compiled(op, [torch.rand(s) for s in shapes], settings, None, ptx.derivatives)
    assert {name.partition("_")[0] for name in found} == {"forward", "backward", "jvp", "second"}
    for text in found.values():
        assert not re.search(r"(?:sin|cos|tanh)\.approx|div\.full", text)
        assert ".atom." not in text and "red.global" not in text


def test_offsets_of_64_bits(compiled):
    tensors = [torch.rand(9, 64), torch.rand(64), torch.rand(64)]
    small = compiled("layer", tensors)
    large = compiled("layer", tensors, (), {"NEAR": 0})
    assert all(large[name].count(".s64") > text.count(".s64") for name, text in small.items())


def test_a_kernel_is_looked_for_once_and_again_where_addresses_are_not_aligned(paths, without_device):
    x, beta = torch.rand(4096), torch.tensor(2.0)
    shifted = torch.rand(4097)[1:]
    found = without_device(ptx.relaunched, paths["gate"], [[x, beta], [x, beta], [shifted, beta], [x, beta]])
    assert [searched for _, searched in found] == [True, False, True, False]
    assert len({given for given, _ in found}) == 1


def test_truth_values_are_read_in_place(compiled):
    found = compiled("masked", [torch.rand(64), torch.rand(64) > 0.5, torch.tensor(2.0)])
    assert all(re.search(r"ld\.global\S*\.b8", text) for text in found.values())


def test_whole_vectors_are_read_and_written(compiled):
    found = compiled("gate", [torch.rand(4096), torch.tensor(1.0)])
    assert found["forward"].count("ld.global.v4.b32") == found["forward"].count("st.global.v4.b32") == 2
    rows = compiled("norm", [torch.rand(64, 1024), torch.rand(1024)])
    assert rows["forward"].count("ld.global.v4.b32") == 4  # a row that a program holds is read once
