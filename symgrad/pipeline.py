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
from symgrad.targets.torch.shared import shared_files
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


_LANGUAGES = {"auto": (CPP,), "all": (CPP, TRITON)}


def compile_spec(spec: Spec, *, package: str = "") -> Compiled:
    """Compile one spec; its test imports the module from `package`, from beside itself if that is empty.

    Raises SpecError with every mistake in its formulas.
    """
    program = parse_formulas(spec)
    operation = compile_operation(program)
    written = fused(Layout(operation), _LANGUAGES[spec.options.kernels]) if spec.options.fused else None
    passes = written if written and written.files else None
    if spec.options.fused and passes is None:  # what a pass would compute once more is kept for eager operations
        operation = compile_operation(parse_formulas(spec.without_kernels()))
    module = render_module(operation, passes)
    return Compiled(
        spec,
        module,
        render_test(operation, passes.kept if passes else 0, package),
        derivation(operation, written.missing if written else ()),
        passes.files if passes else {},
        {**shared_files(module, kernels=passes is not None), **(passes.shared if passes else {})},
    )
