"""The files that the generated modules of a folder share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from symgrad.targets.free_names import free_names

__all__ = ["shared_files"]

_FOLDER = Path(__file__).with_name("runtime")


@cache
def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def shared_files(module: str, *, kernels: bool) -> dict[str, str]:
    """What the text of a module reads of them, by name; modules with `kernels` share more."""
    read = free_names(module)
    more = {"_kernels.py": kernels, "_library.py": "_library" in read, "_special.py": "_special" in read}
    return {name: _text(name) for name in ("_runtime.py", *(name for name, read in more.items() if read))}
