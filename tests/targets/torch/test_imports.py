"""The import blocks of generated files: what their programs read, and nothing else."""

from __future__ import annotations

import ast

from symgrad.spec.names import op_fault
from symgrad.targets.torch.imports import module_imports
from symgrad.targets.torch.imports import test_imports as imports_of_a_test


def test_imports_are_those_that_are_read() -> None:
    assert "import math" in module_imports({"math", "x"})
    assert "import math" not in module_imports({"mathematics"})
    assert "from torch.nn import functional as F" in module_imports({"F"})
    assert "_special" not in module_imports({"F"})


def test_blocks_are_apart_and_an_empty_one_is_left_out() -> None:
    text = imports_of_a_test({"math", "torch"})
    assert text.split("\n\n")[1:] == [
        "import math\nfrom typing import Any",
        "import torch\nfrom symgrad.testing import FunctionTests, Input",
    ]


def test_no_operation_has_the_name_of_something_imported() -> None:
    """The function of an operation named reduce or forward_ad would stand in its place."""
    lines = ast.parse(module_imports({"Literal", "torch", "math", "F", "rtk", "_special"})).body
    froms = [line for line in lines if isinstance(line, ast.ImportFrom) and line.module != "__future__"]
    names = {alias.asname or alias.name for line in froms for alias in line.names}
    assert {"Tensor", "rt", "Literal"} < names
    assert [name for name in names if op_fault(name) is None] == []
