"""Triton, for passes over CUDA tensors."""

from __future__ import annotations

from symgrad.targets.fused.language import Language
from symgrad.targets.triton.shared import shared_files
from symgrad.targets.triton.source import render_source
from symgrad.targets.triton.spellings import can_spell

__all__ = ["TRITON"]

TRITON = Language(
    "Triton", "CUDA", "_triton.py", "CudaLibrary", can_spell, render_source, shared_files, '"""', has_parts=False
)
