"""Modules for JAX and MLX, written in a package of their own and imported."""

from __future__ import annotations

import importlib
import sys
from itertools import count
from pathlib import Path
from types import ModuleType

from compiled import compiled_text

from symgrad.targets.target import TARGETS

_NUMBERS = count()


def imported(text: str, target: str, folder: Path) -> ModuleType:
    """The module of a spec for a target."""
    row = TARGETS[target]
    operation = compiled_text(text).operation
    package = f"written_{next(_NUMBERS)}"
    home = folder / package
    home.mkdir()
    (home / "__init__.py").touch()
    for file, text in row.shared.items():
        (home / file).write_text(text, encoding="utf-8")
    name = f"{operation.program.spec.op}_{row.name}"
    (home / f"{name}.py").write_text(row.module(operation), encoding="utf-8")
    sys.path.insert(0, str(folder))
    try:
        importlib.invalidate_caches()
        return importlib.import_module(f"{package}.{name}")
    finally:
        sys.path.remove(str(folder))
