"""The Triton functions that formulas and passes call: each only where the file uses it."""

from __future__ import annotations

import keyword
import re
from functools import cache

from symgrad.resources import template_folder

_WORD = re.compile(r"\b[A-Za-z_]\w*")
_PROSE = re.compile(r'"""(?s:.*?)"""|#.*')


@cache
def snippets() -> dict[str, str]:
    """All functions by name, in the order in which they are written."""
    found: dict[str, str] = {}
    for path in sorted((template_folder() / "cuda" / "plumbing").glob("*.py")):
        text = path.read_text(encoding="utf-8").strip("\n")
        named = re.search(r"^(?:def|class) (\w+)", text, re.MULTILINE)
        assert named is not None, path
        found[named.group(1)] = text
    return found


def plumbing(body: str) -> str:
    """The functions that a file uses, directly or through others."""
    known = snippets()
    used: set[str] = set()
    pending = [body]
    while pending:
        for word in set(_WORD.findall(_PROSE.sub("", pending.pop()))):
            if word in known and word not in used:
                used.add(word)
                pending.append(known[word])
    return "\n\n\n".join(text for name, text in known.items() if name in used)


@cache
def reserved() -> frozenset[str]:
    """The names that formulas must leave alone: Python's, what is called, and what the passes are written with."""
    template = (template_folder() / "cuda" / "kernels.py.j2").read_text(encoding="utf-8")
    words = _WORD.findall(_PROSE.sub("", template))
    return frozenset({*keyword.kwlist, *keyword.softkwlist, *snippets(), *words, *_BUILTIN})


_BUILTIN = ("float", "int", "len", "list", "min", "max", "print", "range", "isinstance", "getattr", "hasattr", "math")

__all__ = ["plumbing", "reserved", "snippets"]
