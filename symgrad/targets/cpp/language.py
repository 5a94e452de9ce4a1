"""C++, for passes over CPU tensors."""

from __future__ import annotations

from symgrad.targets.cpp.shared import shared_files
from symgrad.targets.cpp.source import render_source
from symgrad.targets.cpp.spellings import can_spell
from symgrad.targets.fused.language import Language

__all__ = ["CPP"]

CPP = Language("C++", "a CPU", ".cpp", "Library", can_spell, render_source, shared_files, "//\n")
