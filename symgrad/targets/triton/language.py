"""Triton, for passes over CUDA tensors."""

from __future__ import annotations

from symgrad.targets.fused.language import Language
from symgrad.targets.fused.model import Kernel
from symgrad.targets.fused.terms import ELEMENTS, ROW, is_count
from symgrad.targets.triton.shared import shared_files
from symgrad.targets.triton.source import render_source
from symgrad.targets.triton.spellings import can_spell

__all__ = ["TRITON"]


def _has(kernel: Kernel) -> bool:
    """Passes that reduce everything, along a row, or to the shape of a tensor, and are given reductions alone."""
    reduced = any(r.reduced for r in kernel.results)
    counted = any(is_count(n) and n not in (ELEMENTS, ROW) for n in kernel.numbers)
    read_before = kernel.whole or kernel.placed or kernel.finish or any(o.leaf.op == "sym" for o in kernel.known)
    return not reduced and not counted and not read_before


TRITON = Language("Triton", "_triton.py", "CudaLibrary", can_spell, _has, render_source, shared_files, '"""')
