"""Triton, for passes over CUDA tensors."""

from __future__ import annotations

from symgrad.backends.cuda.source import render_source
from symgrad.backends.cuda.spellings import can_spell
from symgrad.backends.fused.elements import ELEMENTS, ROW, is_count
from symgrad.backends.fused.language import Language
from symgrad.backends.fused.model import Kernel

__all__ = ["TRITON"]


def _has(kernel: Kernel) -> bool:
    """Passes that reduce everything, along a row, or to the shape of a tensor."""
    reduced = any(r.reduced for r in kernel.results)
    counted = any(is_count(n) and n not in (ELEMENTS, ROW) for n in kernel.numbers)
    return not reduced and not counted


TRITON = Language("_cuda.py", "_CudaKernels", can_spell, _has, render_source)
