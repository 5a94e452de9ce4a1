"""What is emitted is data until it is written: no module of a target takes source apart again."""

from __future__ import annotations

import ast
from pathlib import Path

import symgrad

PACKAGE = Path(symgrad.__file__).parent
EMITTING = sorted([*(PACKAGE / "lower").rglob("*.py"), *(PACKAGE / "targets").rglob("*.py")])
# Modules that read other text than what they emit, and which.
READERS = {
    "lower/code.py": "templates: spellings of rows, and those in the modules themselves",
    "targets/cpp/shared.py": "headers written by hand, for the names that these take",
    "targets/triton/shared.py": "a file written by hand, for the functions that it defines",
}
PARSING = {"parse", "literal_eval"}


def test_only_known_readers_have_regular_expressions_or_parse() -> None:
    found = set()
    for path in EMITTING:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = [a.name for a in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = node.module if isinstance(node, ast.ImportFrom) else ""
            called = isinstance(node, ast.Attribute) and node.attr in PARSING and ast.unparse(node.value) == "ast"
            if "re" in named or "tokenize" in named or module in ("re", "tokenize") or called:
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found == READERS.keys()
