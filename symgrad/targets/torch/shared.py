"""The files that the generated modules of a folder share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["shared_files"]

_FOLDER = Path(__file__).with_name("runtime")


@cache
def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def shared_files(*, kernels: bool) -> dict[str, str]:
    """Their texts by name; modules with `kernels` share more."""
    return {name: _text(name) for name in ("_runtime.py", *(["_kernels.py"] if kernels else []))}
