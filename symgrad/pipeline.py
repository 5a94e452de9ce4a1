"""The stages in order: from a spec to the texts of its module and its test."""

from __future__ import annotations

from dataclasses import dataclass, field

from symgrad.compiler.compile import compile_operation
from symgrad.explain.derivation import Derivation
from symgrad.explain.derive import derivation
from symgrad.parse import parse_formulas
from symgrad.spec import Spec
from symgrad.targets.cpp.language import CPP
from symgrad.targets.fused.binding import fused
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.module import render_module
from symgrad.targets.torch.tests import render_test
from symgrad.targets.triton.language import TRITON


@dataclass(frozen=True)
class Compiled:
    """A compiled spec: the texts of its files, without their headers, and how they came about.

    `passes` are the files of the fused passes, none where there are no such passes; `shared` is what all modules of a
    folder have in common.
    """

    spec: Spec
    module: str
    test: str
    derivation: Derivation
    passes: dict[str, str] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, str]:
        """The operation's own files by name."""
        return {f"{self.spec.op}.py": self.module, f"test_{self.spec.op}.py": self.test, **self.passes}


_LANGUAGES = (CPP, TRITON)


def compile_spec(spec: Spec, *, package: str = "") -> Compiled:
    """Compile one spec; its test imports the module from `package`, from beside itself if that is empty.

    Raises SpecError with every mistake in its formulas.
    """
    program = parse_formulas(spec)
    operation = compile_operation(program)
    passes = fused(Layout(operation), _LANGUAGES) if spec.options.kernels else None
    if spec.options.kernels and passes is None:  # what a pass would compute once more is kept for eager operations
        operation = compile_operation(parse_formulas(spec.without_kernels()))
    return Compiled(
        spec,
        render_module(operation, passes),
        render_test(operation, passes.kept if passes else 0, package),
        derivation(operation),
        passes.files if passes else {},
    )
