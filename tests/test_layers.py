"""The folders of the package are layers: each imports those below it, and none above."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import symgrad

PACKAGE = Path(symgrad.__file__).parent
LAYERS = (
    *(
        "errors",
        "text",
        "__init__",
        "bytecode",
        "resources",
        "ir",
        "spec",
        "ops",
        "ops.tensors",
        "analysis",
        "ops.functions",
    ),
    *(
        "differentiate",
        "accuracy.widening",
        "accuracy.balls",
        "accuracy.evaluate",
        "accuracy.machine",
        "accuracy.guards",
        "accuracy.cost",
    ),
    "symbolic",
    *("rules", "accuracy", "parse", "symbolic.display", "ways", "plan", "compiler"),
    *("symbolic.whole", "symbolic.certify", "explain"),
    "lower",
    *("targets", "targets.torch", "targets.arrays", "targets.jax", "targets.mlx", "targets.fused"),
    *("targets.cpp", "targets.triton", "targets.target"),
    *("pipeline", "report", "files", "importing", "notebook", "operation", "testing", "bench", "cli", "__main__"),
)
UPWARD = {("ir.expr", "parse.formula"), ("spec.load", "parse")}  # inside of functions, each with its reason


def layer(module: str) -> str:
    """The layer of a module that is named without the package: its own, or that of the nearest folder around it."""
    while module not in LAYERS:
        assert "." in module, f"{module} is in no layer"
        module = module.rpartition(".")[0]
    return module


def imports(path: Path) -> Iterator[str]:
    """The modules of the package that a module imports when it runs, named without the package."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    checking = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    skipped = {id(inner) for block in checking for inner in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in skipped and (node.module or "").startswith("symgrad"):
            module = (node.module or "").removeprefix("symgrad").removeprefix(".")
            if module in ("", "targets", "ops"):
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
