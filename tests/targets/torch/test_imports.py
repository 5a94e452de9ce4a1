"""The import blocks of generated files: what their text reads, and nothing else."""

from __future__ import annotations

import ast

from symgrad.spec.names import op_fault
from symgrad.targets.torch.imports import module_imports
from symgrad.targets.torch.imports import test_imports as imports_of_a_test


def test_imports_are_those_that_are_read() -> None:
    assert "import math" in module_imports("x = math.pi")
    assert module_imports("x = math.pi") == module_imports("x = math.pi  # math.pi")
    assert "import math" not in module_imports("mathematics = 1")
    assert "forward_ad" not in module_imports("nothing")
    assert "from torch.nn import functional as F" in module_imports("F.softplus(x)")


def test_an_argument_with_the_name_of_a_module_is_not_imported() -> None:
    assert "import math" not in module_imports("def f(math):\n    return math + 1")


def test_blocks_are_apart_and_an_empty_one_is_left_out() -> None:
    assert module_imports("math.pi") == "from __future__ import annotations\n\nimport math"
    text = imports_of_a_test("math.pi; torch.pi; Input; FunctionTests")
    assert text.split("\n\n")[1:] == ["import math", "import torch\nfrom symgrad.testing import FunctionTests, Input"]


def test_no_operation_has_the_name_of_something_imported() -> None:
    """The function of an operation named reduce or forward_ad would stand in its place."""
    lines = ast.parse(module_imports("Any, Literal, Callable, Tensor, Function, F, rt, Kernels, Pass, Passes")).body
    froms = [line for line in lines if isinstance(line, ast.ImportFrom) and line.module != "__future__"]
    names = {alias.asname or alias.name for line in froms for alias in line.names}
    assert {"Tensor", "rt"} < names
    assert [name for name in names if op_fault(name) is None] == []
