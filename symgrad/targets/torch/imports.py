"""The import blocks of generated modules and tests: what their programs read of torch and the standard library."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

__all__ = ["module_imports", "test_imports"]

Row: TypeAlias = "tuple[str, tuple[str, ...]]"
"""A module, and the names that are imported from it; none where it is imported itself."""

# By block, in the order in which they are written. Of names that an operation may have only the modules are imported.
_OF_MODULES: tuple[tuple[Row, ...], ...] = (
    (
        ("math", ()),
        ("collections.abc", ("Callable",)),
        ("typing", ("Any", "Literal")),
    ),
    (
        ("torch", ()),
        ("torch", ("Tensor",)),
        ("torch.autograd", ("Function",)),
        ("torch.nn", ("functional as F",)),
    ),
    (
        (".", ("_extern",)),
        (".", ("_kernels as rtk",)),
        (".", ("_library",)),
        (".", ("_packing",)),
        (".", ("_runtime as rt",)),
        (".", ("_special",)),
    ),
)

_OF_TESTS: tuple[tuple[Row, ...], ...] = (
    (
        ("math", ()),
        ("typing", ("Any",)),
    ),
    (
        ("torch", ()),
        ("symgrad.targets.torch.runtime", ("_special",)),
        ("symgrad.testing", ("Accuracy", "FunctionTests", "Input")),
        ("torch.nn", ("functional as F",)),
    ),
)


def module_imports(read: Collection[str]) -> str:
    """The import block of a module that reads these names; torch, the standard library and the runtime."""
    return _imports({"Any", "Callable", "Function", "Tensor", "rt", *read}, _OF_MODULES)


def test_imports(read: Collection[str]) -> str:
    """The import block of a generated test that reads these names."""
    return _imports({"Any", "FunctionTests", "Input", *read}, _OF_TESTS)


def _imports(read: Collection[str], blocks: tuple[tuple[Row, ...], ...]) -> str:
    found = ["from __future__ import annotations"]
    for block in blocks:
        lines: list[str] = []
        for module, names in block:
            wanted = [name for name in names if name.rpartition(" ")[2] in read]
            if wanted:
                lines.append(f"from {module} import {', '.join(wanted)}")
            elif not names and module.partition(".")[0] in read:
                lines.append(f"import {module}")
        found.append("\n".join(lines))
    return "\n\n".join(filter(None, found))
