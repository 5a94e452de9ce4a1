"""Triton, for passes over CUDA tensors."""

from __future__ import annotations

from symgrad.targets.fused.language import Language
from symgrad.targets.fused.model import Kernel
from symgrad.targets.fused.terms import ELEMENTS, ROW, is_count
from symgrad.targets.triton.shared import shared_files
from symgrad.targets.triton.source import render_source
from symgrad.targets.triton.spellings import can_spell

__all__ = ["TRITON"]


def _lacks(kernel: Kernel) -> str:
    """Passes there are that reduce everything, along a row, or to a tensor's shape, and are given reductions alone."""
    if kernel.whole or kernel.placed:
        return "whole numbers and places in rows"
    if any(o.part for o in kernel.operands) or any(r.part for r in kernel.results):
        return "parts of a dimension"
    if kernel.finish or any(o.leaf.op == "sym" for o in kernel.known):
        return "what follows from sums over everything"
    counted = any(is_count(n) and n not in (ELEMENTS, ROW) for n in kernel.numbers)
    return "sums over other dimensions" if counted or any(r.reduced for r in kernel.results) else ""


TRITON = Language("Triton", "_triton.py", "CudaLibrary", can_spell, _lacks, render_source, shared_files, '"""')
