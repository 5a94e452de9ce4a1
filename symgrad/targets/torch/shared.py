"""The files that the generated modules of a folder share."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from pathlib import Path

__all__ = ["shared_files"]

_FOLDER = Path(__file__).with_name("runtime")


@cache
def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def shared_files(read: Collection[str]) -> dict[str, str]:
    """Those of which a module reads something, by name."""
    return {f"{name}.py": _text(f"{name}.py") for name, alias in _CALLED.items() if alias in read}


_CALLED = {
    "_runtime": "rt",
    "_kernels": "rtk",
    "_library": "_library",
    "_extern": "_extern",
    "_packing": "_packing",
    "_special": "_special",
}
