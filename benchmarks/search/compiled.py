"""The passes of many drafts in C++, compiled together: headers are read once, and optimisation is kept short.

What `-O2`, with which the passes of users are compiled, does more changes the order of instructions alone.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.search.made import Made
from symgrad.targets.torch.runtime import _kernels

__all__ = ["cheap", "compile_together"]


def cheap(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags of users with optimisation kept short."""
    own = (flag for flag in flags if flag != "-O2")
    return *own, "-O1", "-fexpensive-optimizations"  # the latter contracts multiplications and additions


def compile_together(drafts: Sequence[Made], dtype: torch.dtype, *, narrow: bool) -> None:
    """Let the passes of drafts run in C++ for a dtype. Raises RuntimeError where that does not compile."""
    flags = [*cheap(_kernels._FLAGS), "-fopenmp", f"-DSTORAGE={_kernels._STORAGE[dtype]}"]
    flags += ["-mno-avx512f"] if narrow else []
    with TemporaryDirectory() as name:
        folder = Path(name)
        shared = drafts[0].passes.shared
        for file, text in shared.items():
            (folder / file).write_text(text, encoding="utf-8")
        source, target = folder / "together.cpp", folder / "together.so"
        source.write_text("".join(_part(made) for made in drafts), encoding="utf-8")
        command = [*_kernels._compiler(), *flags, str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[:2000])
        library = ctypes.CDLL(str(target), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    for made in drafts:
        own = _Own(library, made.drawn.op)
        made.library.forget()
        for part in range(made.library.parts):
            made.library.libraries[dtype, part, False] = made.library.libraries[dtype, part, True] = own


def _part(made: Made) -> str:
    """The source of a module in a namespace of its own, with entries of its own."""
    (text,) = made.passes.files.values()
    op = made.drawn.op
    entries = [k.name for k in made.passes.kernels]
    renamed = "".join(f"#define {e} {op}_{e}\n" for e in entries)
    back = "".join(f"#undef {e}\n" for e in entries)
    return f'#include "_kernels.h"\n{renamed}namespace {op} {{\n{text}\n}}\n{back}'


class _Own:
    """The entries of one module in the library of many."""

    def __init__(self, library: Any, op: str) -> None:
        self._library, self._op = library, op
        self._name = "the library of many"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, f"{self._op}_{name}")
