"""The helpers at the end of a generated module: each only where the module uses it."""

from __future__ import annotations

import ast
import re
from functools import cache

from symgrad.resources import template_folder
from symgrad.targets.snippets import needed

_DEFINED = re.compile(r"^(?:def |class )?(_\w+)", re.MULTILINE)
_WORD = re.compile(r"\b_\w+")


@cache
def snippets() -> dict[str, str]:
    """All helpers by name, in the order in which they are written."""
    found: dict[str, str] = {}
    for path in sorted((template_folder() / "torch" / "plumbing").glob("*.py")):
        text = path.read_text(encoding="utf-8").strip("\n")
        named = _DEFINED.search(re.sub(r"^@.*\n", "", text))
        assert named is not None, path
        found[named.group(1)] = text
    return found | _special_functions()


def _special_functions() -> dict[str, str]:
    """The functions of a module of the templates, by name."""
    text = (template_folder() / "torch" / "special_functions.py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    return {node.name: ast.get_source_segment(text, node) or "" for node in functions}


def plumbing(body: str) -> str:
    """The helpers that a module body uses, directly or through others: constants, then functions."""
    chosen = needed(snippets(), body, _WORD.findall)
    constants = [text for text in chosen if not text.startswith(("def ", "class ", "@"))]
    functions = [text for text in chosen if text.startswith(("def ", "class ", "@"))]
    return "\n\n\n".join(["\n".join(constants), *functions] if constants else functions)
