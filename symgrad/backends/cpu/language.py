"""C++, for passes over CPU tensors."""

from __future__ import annotations

from symgrad.backends.cpu.source import render_source
from symgrad.backends.cpu.spellings import can_spell
from symgrad.backends.fused.language import Language
from symgrad.backends.fused.model import Kernel

__all__ = ["CPP"]


def _has(kernel: Kernel) -> bool:
    return True


CPP = Language("_cpu.cpp", "_Kernels", can_spell, _has, render_source)
