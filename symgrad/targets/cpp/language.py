"""C++, for passes over CPU tensors."""

from __future__ import annotations

from symgrad.targets.cpp.shared import shared_files
from symgrad.targets.cpp.source import render_source
from symgrad.targets.cpp.spellings import can_spell
from symgrad.targets.fused.language import Language
from symgrad.targets.fused.model import Kernel

__all__ = ["CPP"]


def _lacks(kernel: Kernel) -> str:
    return ""


CPP = Language("C++", ".cpp", "Library", can_spell, _lacks, render_source, shared_files, "//\n")
