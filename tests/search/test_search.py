"""A few formulas of the search for wrong kernels in every run, and what it has found before."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import pytest
import torch
from fused import needs_compiler

_PATH = Path(__file__).parents[2] / "benchmarks" / "search.py"


@pytest.fixture(scope="module")
def search():
    spec = importlib.util.spec_from_file_location("search_for_wrong_kernels", _PATH)
    module = importlib.util.module_from_spec(spec)

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@needs_compiler
def test_formulas_drawn_anew_have_right_kernels(search, request):
    """Another seed in every run; a failure prints it."""
    seed = random.SystemRandom().randrange(1 << 30)
    found = [f for f in search.search(seed, count=2, seconds=10) if f is not None]
    assert not found, found


def test_formulas_are_drawn_from_every_row_of_the_table(search):
    texts = " ".join(search.formula(random.Random(seed)) for seed in range(4000))
    wanted = {n for n, row in search.FUNCTIONS.items() if not row.internal} - search._SKIPPED
    assert not {n for n in wanted if f"{n}(" not in texts}


def test_what_is_wrong_is_told(search):
    true = torch.ones(4, dtype=torch.float64)
    right, off, lost = torch.ones(4), torch.tensor([1.0, 1.0, 1.1, 1.0]), torch.tensor([1.0, torch.nan, 1.0, 1.0])
    assert search._difference(right, right, true, torch.float32) == ""
    assert "off by 0.1" in search._difference(off, right, true, torch.float32)
    assert "1 elements are no numbers" in search._difference(lost, right, true, torch.float32)
    assert search._difference(lost, lost, true, torch.float32) == ""
