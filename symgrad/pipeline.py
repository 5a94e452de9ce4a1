"""The stages in order: from a spec to the texts of its module and its test."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from symgrad.compiler.compile import compile_operation
from symgrad.compiler.judges import Memory
from symgrad.compiler.measured import Measured
from symgrad.errors import Mistake, SpecError
from symgrad.explain.derivation import Derivation
from symgrad.explain.derive import derivation
from symgrad.explain.gain import certificate_line
from symgrad.ir.order import in_order
from symgrad.ir.traversal import forget_nodes
from symgrad.parse import Program, parse_formulas
from symgrad.spec import Spec
from symgrad.targets.cpp.language import CPP
from symgrad.targets.fused.binding import fused
from symgrad.targets.fused.language import Language
from symgrad.targets.target import TARGETS, refusals
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.module import Module, render_module
from symgrad.targets.torch.shared import shared_files
from symgrad.targets.torch.tests import render_test
from symgrad.targets.triton.language import TRITON


@dataclass(frozen=True)
class Compiled:
    """A compiled spec: the texts of its files, without their headers, and how they came about.

    `module` and `test` are those for torch, empty where it is no target. `passes` are the files of the fused passes,
    none where there are no such passes; `others` those of other targets; `shared` is what all modules of a folder have
    in common. `mistakes` say why there is nothing for some of the targets.
    """

    spec: Spec
    module: str
    test: str
    derivation: Derivation
    passes: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """The operation's own files by name."""
        own = {f"{self.spec.op}.py": self.module, f"test_{self.spec.op}.py": self.test} if self.module else {}
        return {**own, **self.passes, **self.others}


# The languages of passes, and those that they might be in as well.
_LANGUAGES: dict[str, tuple[tuple[Language, ...], ...]] = {"auto": ((CPP,), (TRITON,)), "all": ((CPP, TRITON), ())}


def compile_spec(spec: Spec, *, package: str = "", prove: bool = False, measured: Measured | None = None) -> Compiled:
    """Compile one spec for its targets; its tests import modules from `package`, from beside themselves if that is
    empty. With `prove` SymPy judges values and derivatives, and the derivation says what it found. `measured` spares
    searches of earlier runs.

    Raises SpecError with every mistake in its formulas, or if no target can have it.
    """
    forget_nodes()
    spec = spec if spec.extern is None else spec.without_kernels()
    program = parse_formulas(spec)
    with in_order(program.orders):
        return _compiled(spec, program, package, measured, prove=prove)


def _compiled(spec: Spec, program: Program, package: str, measured: Measured | None, *, prove: bool) -> Compiled:
    for_torch = "torch" in spec.options.targets
    with_passes = for_torch and spec.options.fused
    memory = Memory(measured=measured)
    operation = eager = compile_operation(program if for_torch else parse_formulas(spec.without_kernels()), memory)
    written = fused(Layout(operation), *_LANGUAGES[spec.options.kernels]) if with_passes else None
    passes = written if written and written.files else None
    if with_passes and (passes is None or len(spec.options.targets) > 1):
        # Eager operations keep what a pass would rather compute once more.
        eager = compile_operation(parse_formulas(spec.without_kernels()), memory)
    operation = operation if passes else eager
    wanted = [TARGETS[name] for name in spec.options.targets if name in TARGETS]
    mistakes = {target.name: refusals(eager, target) for target in wanted}
    fine = [target for target in wanted if not mistakes[target.name]]
    if not for_torch and not fine:
        raise SpecError(m for own in mistakes.values() for m in own)
    found = derivation(operation, written.missing if written else (), prove=prove)
    module = render_module(operation, passes, certificate_line(found)) if for_torch else Module("", frozenset())
    kept = tuple((target.spelling.name, target.kept(eager)) for target in fine)
    return Compiled(
        spec,
        module.text,
        render_test(operation, passes.kept if passes else 0, package) if for_torch else "",
        replace(found, plan=found.plan if for_torch else (), kept=kept),
        passes.files if passes else {},
        {name: text for target in fine for name, text in target.files(eager, package).items()},
        {
            **shared_files(module.reads),
            **(passes.shared if passes else {}),
            **{name: text for target in fine for name, text in target.shared.items()},
        },
        tuple(m for own in mistakes.values() for m in own),
    )
