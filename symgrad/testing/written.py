"""The facts of a spec for JAX or MLX: what its generated test states, with the generated module as what is called."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from symgrad.compiler.operation import Operation
from symgrad.errors import SpecError
from symgrad.importing import import_generated
from symgrad.resources import module_name
from symgrad.targets.target import TARGETS, refusals
from symgrad.testing.arrays import Facts

__all__ = ["facts_of"]


def facts_of(operation: Operation, target: str) -> type[Facts]:
    """The class of an operation's generated test for a target.

    Raises SpecError where the target cannot have the operation, and ImportError where the framework is not installed.
    """
    row = TARGETS[target]
    mistakes = refusals(operation, row)
    if mistakes:
        raise SpecError(mistakes)
    op = operation.program.spec.op
    with TemporaryDirectory() as folder:
        for name, text in {**row.shared, **row.files(operation)}.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        test = import_generated(Path(folder, f"test_{module_name(op, target)}.py"))
    found = (v for v in vars(test).values() if isinstance(v, type) and issubclass(v, Facts) and "call" in vars(v))
    return next(found)
