"""The folders of the package are layers: each imports those below it, and none above."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import symgrad

PACKAGE = Path(symgrad.__file__).parent
LAYERS = (
    *("errors", "text", "__init__", "resources", "ir", "spec", "tensor_ops", "analysis", "functions", "differentiate"),
    *("numerics", "rules", "stabilise", "parse", "plan", "compiler", "explain"),
    *("backends", "backends.torch", "backends.fused", "backends.cpu", "backends.cuda"),
    *("pipeline", "files", "notebook", "bench", "cli", "__main__"),
)
UPWARD = {("ir.expr", "parse.formula"), ("spec.load", "parse")}  # inside of functions, each with its reason


def layer(module: str) -> str:
    """The layer of a module that is named without the package."""
    first, _, rest = module.partition(".")
    second = rest.partition(".")[0]
    return f"backends.{second}" if first == "backends" and (PACKAGE / "backends" / second).is_dir() else first


def imports(path: Path) -> Iterator[str]:
    """The modules of the package that a module imports when it runs, named without the package."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    checking = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    skipped = {id(inner) for block in checking for inner in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in skipped and (node.module or "").startswith("symgrad"):
            module = (node.module or "").removeprefix("symgrad").removeprefix(".")
            if module in ("", "backends"):
                yield from (f"{module}.{alias.name}".removeprefix(".") for alias in node.names)
            else:
                yield module


def test_every_import_goes_down() -> None:
    upward = set()
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        for other in imports(path):
            if other != "__version__" and LAYERS.index(layer(other)) > LAYERS.index(layer(module)):
                upward.add((module, other))
    assert upward == UPWARD
