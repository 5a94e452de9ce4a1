"""What all Triton files of a folder share: functions that formulas and passes call, and how passes are launched."""

from __future__ import annotations

import ast
import keyword
import re
from functools import cache

from symgrad.resources import template_folder

__all__ = ["MODULE", "reserved", "shared_files", "shared_names"]

MODULE = "_triton.py"
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_PROSE = re.compile(r'"""(?s:.*?)"""|#.*')


@cache
def shared_files() -> dict[str, str]:
    """The texts by file name that the Triton files of a folder import."""
    return {MODULE: (template_folder() / "triton" / "shared.py").read_text(encoding="utf-8")}


@cache
def _defined() -> frozenset[str]:
    """The functions and classes of the shared file."""
    tree = ast.parse(shared_files()[MODULE])
    return frozenset(n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)))


def shared_names(text: str) -> set[str]:
    """Those of the shared file that a text calls."""
    return {word for word in _words(text) if word in _defined()}


def _words(text: str) -> list[str]:
    return _WORD.findall(_PROSE.sub("", text))


@cache
def reserved() -> frozenset[str]:
    """The names that formulas must leave alone: Python's, what is called, and what the passes are written with."""
    template = (template_folder() / "triton" / "kernels.py.j2").read_text(encoding="utf-8")
    return frozenset({*keyword.kwlist, *keyword.softkwlist, *_defined(), *_words(template), *_BUILTIN})


_BUILTIN = ("float", "int", "len", "list", "min", "max", "print", "range", "isinstance", "getattr", "hasattr", "math")
