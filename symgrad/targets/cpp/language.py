"""C++, for passes over CPU tensors."""

from __future__ import annotations

from symgrad.targets.cpp.source import render_source
from symgrad.targets.cpp.spellings import can_spell
from symgrad.targets.fused.language import Language
from symgrad.targets.fused.model import Kernel

__all__ = ["CPP"]


def _has(kernel: Kernel) -> bool:
    return True


CPP = Language("_cpu.cpp", "Library", can_spell, _has, render_source)
