"""What all C++ files of a folder share: the lanes that a register holds, their functions, and what runs a pass."""

from __future__ import annotations

import re
from functools import cache

from symgrad.resources import template_folder

__all__ = ["HEADER", "reserved", "shared_files"]

HEADER = "_kernels.h"
_PARTS = ("lanes.h", "storage.h", "functions.h", "passes.h")
_TITLE = """\
// What the fused passes of this folder run on: vector registers, functions of them, and loops over memory.
//
// Plain C++17 for GCC and Clang; nothing is included but the headers of the compiler and the system. What compilers
// have built in is called as that: <cmath>, which has names for it, takes longer to read than many a pass to compile.
#pragma once
"""


@cache
def shared_files() -> dict[str, str]:
    """The texts by file name that the C++ files of a folder include."""
    folder = template_folder() / "cpp"
    parts = [(folder / name).read_text(encoding="utf-8").strip("\n") for name in _PARTS]
    includes, _, lanes = parts[0].partition("\n\n// ---")
    body = "\n\n".join([f"// ---{lanes}", *parts[1:]])
    return {HEADER: f"{_TITLE}{includes}\n\nnamespace {{\n\n{body}\n\n}}  // namespace\n"}


@cache
def reserved() -> frozenset[str]:
    """The names that formulas in C++ must leave alone: keywords, what is called or is a type, what formulas read."""
    template = (template_folder() / "cpp" / "kernels.cpp.j2").read_text(encoding="utf-8")
    texts = [re.sub(r"//.*", "", text) for text in (template, *shared_files().values())]
    return _KEYWORDS.union(*(_GLOBAL.findall(text) for text in texts))


_GLOBAL = re.compile(r"\b(?:[A-Z]\w*|\w+(?=[(<])|(?<=BY_LANE\()\w+)")  # and functions that a macro defines
_KEYWORDS = frozenset(
    {
        *("alignas", "alignof", "and", "and_eq", "asm", "bitand", "bitor", "break", "case", "catch", "class", "compl"),
        *("continue", "decltype", "default", "delete", "do", "else", "enum", "explicit", "export", "extern", "false"),
        *("goto", "if", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "or", "or_eq"),
        *("private", "protected", "public", "register", "short", "signed", "switch", "this", "throw", "true", "try"),
        *("typeid", "union", "unsigned", "virtual", "volatile", "wchar_t", "while", "xor", "xor_eq", "std", "main"),
        *("given", "result", "number", "row", "partial", "wanted", "stage", "operands", "results", "void", "V"),
        *("const", "constexpr", "auto", "bool", "char", "double", "float", "int", "struct", "static", "inline", "for"),
        *("sizeof", "return", "template", "typename", "typedef", "using", "friend", "operator", "data", "geometry"),
        *("INFINITY", "NAN", "I", "M_PI", "errno", "stdin", "stdout", "signbit", "isnan", "isinf"),
    }
)
