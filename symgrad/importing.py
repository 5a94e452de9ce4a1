"""Importing generated modules from their folder, wherever that stands."""

from __future__ import annotations

import importlib
import sys
from itertools import count
from pathlib import Path
from types import ModuleType

__all__ = ["import_generated"]

_numbers = count()


def import_generated(path: Path) -> ModuleType:
    """Import a generated module anew from its file, with what the modules of its folder share.

    Raises ImportError and SyntaxError.
    """
    package = ModuleType(f"symgrad_folder_{next(_numbers)}", "A folder of generated modules.")
    package.__path__ = [str(path.parent.resolve())]
    sys.modules[package.__name__] = package
    importlib.invalidate_caches()
    return importlib.import_module(f"{package.__name__}.{path.stem}")
