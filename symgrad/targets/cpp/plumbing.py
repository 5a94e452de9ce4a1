"""The C++ that runs the formulas of a pass: each helper only where the file uses it."""

from __future__ import annotations

import re
from functools import cache

from symgrad.resources import template_folder

_FUNCTIONS_FROM = "22"  # helpers from here on are functions of lanes
_WORD = re.compile(r"\b[A-Za-z_]\w*")


@cache
def snippets() -> tuple[tuple[frozenset[str], str], ...]:
    """All helpers in the order in which they are written, each with the names that it defines."""
    found: list[tuple[frozenset[str], str]] = []
    for path in sorted((template_folder() / "cpp" / "plumbing").glob("*.h")):
        if path.name >= _FUNCTIONS_FROM and not any("sqrt" in names for names, _ in found):
            found += [(frozenset([name]), _by_lane(name)) for name in LANE_BY_LANE]
        text = path.read_text(encoding="utf-8").strip("\n")
        first, _, rest = text.partition("\n")
        names = first.removeprefix("// defines: ").split() if first.startswith("// defines: ") else []
        found.append((frozenset(names), rest if names else text))
    return tuple(found)


# Functions that the standard library computes, one element after the other, and how many arguments they have.
LANE_BY_LANE = {
    **dict.fromkeys(("floor", "ceil", "sqrt", "log2", "log10", "asin", "acos", "atan", "sinh", "cosh"), 1),
    **dict.fromkeys(("asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "nearbyint"), 1),
    **dict.fromkeys(("pow", "atan2", "hypot"), 2),
}


def _by_lane(name: str) -> str:
    arguments = ["x", "y"][: LANE_BY_LANE[name]]
    lanes = ", ".join(f"Lanes<T> {a}" for a in arguments)
    numbers = ", ".join(f"T {a}" for a in arguments)
    call = ", ".join(arguments)
    return (
        f"template <typename T>\nINLINE Lanes<T> {name}({lanes}) {{\n"
        f"    return each({call}, []({numbers}) {{ return std::{name}({call}); }});\n}}"
    )


def plumbing(body: str) -> str:
    """The helpers that a file uses, directly or through others; those that define no name are always there."""
    known = snippets()
    used = [not names for names, _ in known]
    pending = [body, *(text for names, text in known if not names)]
    while pending:
        words = frozenset(_WORD.findall(pending.pop()))
        for k, (names, text) in enumerate(known):
            if not used[k] and names & words:
                used[k] = True
                pending.append(text)
    return "\n\n".join(text for keep, (_, text) in zip(used, known, strict=True) if keep)


@cache
def reserved() -> frozenset[str]:
    """The names that formulas in C++ must leave alone: keywords, what is called or is a type, what formulas read."""
    template = (template_folder() / "cpp" / "kernels.cpp.j2").read_text(encoding="utf-8")
    texts = [re.sub(r"//.*", "", text) for text in (template, *(text for _, text in snippets()))]
    return _KEYWORDS.union(*(_GLOBAL.findall(text) for text in texts), *(names for names, _ in snippets()))


_GLOBAL = re.compile(r"\b(?:[A-Z]\w*|\w+(?=[(<]))")
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
