"""What all Triton files of a folder share: functions that formulas and passes call, and how passes are launched."""

from __future__ import annotations

import ast
import keyword
from functools import cache

from symgrad.resources import template_folder

__all__ = ["MODULE", "reserved", "shared_files", "shared_names"]

MODULE = "_triton.py"


@cache
def shared_files() -> dict[str, str]:
    """The texts by file name that the Triton files of a folder import."""
    return {MODULE: (template_folder() / "triton" / "shared.py").read_text(encoding="utf-8")}


@cache
def shared_names() -> frozenset[str]:
    """The functions and classes of the shared file."""
    tree = ast.parse(shared_files()[MODULE])
    return frozenset(n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)))


@cache
def reserved() -> frozenset[str]:
    """The names that formulas must leave alone: Python's, what is called, and what the passes are written with."""
    return frozenset({*keyword.kwlist, *keyword.softkwlist, *shared_names(), *_OF_PASSES, *_BUILTIN})


_OF_PASSES = (
    *("triton", "tl", "libdevice", "PASSES", "TritonError", "INDEX", "BLOCK", "ROWS", "RUN", "WHOLE", "VARIES", "T"),
    *("rows", "length", "sizes", "outer", "column", "within", "left", "step", "row", "place", "begin", "tile"),
)
_BUILTIN = ("float", "int", "len", "list", "min", "max", "print", "range", "isinstance", "getattr", "hasattr", "math")
