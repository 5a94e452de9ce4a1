"""The Triton functions that formulas and passes call: each only where the file uses it."""

from __future__ import annotations

import keyword
import re
from functools import cache

from symgrad.resources import template_folder
from symgrad.targets.snippets import needed

__all__ = ["plumbing", "reserved", "snippets"]

_WORD = re.compile(r"\b[A-Za-z_]\w*")
_PROSE = re.compile(r'"""(?s:.*?)"""|#.*')


@cache
def snippets() -> dict[str, str]:
    """All functions by name, in the order in which they are written."""
    found: dict[str, str] = {}
    for path in sorted((template_folder() / "triton" / "plumbing").glob("*.py")):
        text = path.read_text(encoding="utf-8").strip("\n")
        named = re.search(r"^(?:def|class) (\w+)", text, re.MULTILINE)
        assert named is not None, path
        found[named.group(1)] = text
    return found


def plumbing(body: str) -> str:
    """The functions that a file uses, directly or through others."""
    return "\n\n\n".join(needed(snippets(), body, _words))


def _words(text: str) -> list[str]:
    return _WORD.findall(_PROSE.sub("", text))


@cache
def reserved() -> frozenset[str]:
    """The names that formulas must leave alone: Python's, what is called, and what the passes are written with."""
    template = (template_folder() / "triton" / "kernels.py.j2").read_text(encoding="utf-8")
    return frozenset({*keyword.kwlist, *keyword.softkwlist, *snippets(), *_words(template), *_BUILTIN})


_BUILTIN = ("float", "int", "len", "list", "min", "max", "print", "range", "isinstance", "getattr", "hasattr", "math")
