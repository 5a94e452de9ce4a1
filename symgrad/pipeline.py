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

    `passes` are the files of the fused passes, none where there are no such passes; `without` are the
    names that files of such passes would have here. `shared` are the files that all operations of a folder share.
    """

    spec: Spec
    module: str
    test: str
    derivation: Derivation
    passes: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    shared: dict[str, str] = field(default_factory=dict)


_LANGUAGES = (CPP, TRITON)


def compile_spec(spec: Spec) -> Compiled:
    """Compile one spec.

    Raises SpecError with every mistake in its formulas.
    """
    program = parse_formulas(spec)
    operation = compile_operation(program)
    passes = fused(Layout(operation), _LANGUAGES) if spec.options.kernels else None
    if spec.options.kernels and passes is None:  # what a pass would compute once more is kept for eager operations
        operation = compile_operation(parse_formulas(spec.without_kernels()))
    files = passes.files if passes else {}
    names = [f"{spec.op}{language.suffix}" for language in _LANGUAGES]
    return Compiled(
        spec,
        render_module(operation, passes),
        render_test(operation, passes.kept if passes else 0),
        derivation(operation),
        files,
        tuple(name for name in names if name not in files),
        passes.shared if passes else {},
    )
