"""The frameworks that modules are written for: one row each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from symgrad.compiler.operation import Operation
from symgrad.errors import Mistake
from symgrad.explain.derivation import PlanEntry
from symgrad.ir.expr import Expr
from symgrad.ops.functions import SPELLINGS
from symgrad.ops.tensors import TENSOR_SPELLINGS
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.module import COMMON, Framework, render_module, residuals, runtime
from symgrad.targets.arrays.spelling import Spelling
from symgrad.targets.arrays.tests import render_test
from symgrad.targets.jax import module as jax
from symgrad.targets.mlx import module as mlx

__all__ = ["TARGETS", "Target", "refusals"]


@dataclass(frozen=True)
class Target:
    """A framework beside PyTorch.

    Attributes:
        framework: what is special about its modules.
    """

    framework: Framework

    @property
    def name(self) -> str:
        """As specs and the command line call it; its files end with it."""
        return self.framework.name

    @property
    def spelling(self) -> Spelling:
        return self.framework.spelling

    @property
    def shared(self) -> dict[str, str]:
        """The files that all modules of a folder share, by name."""
        return {name: runtime(name) for name in (COMMON, self.framework.runtime)}

    def module(self, operation: Operation) -> str:
        """The text of an operation's module."""
        return render_module(operation, self.framework)

    def kept(self, operation: Operation) -> tuple[PlanEntry, ...]:
        """What reverse mode keeps of an operation that the target can have, for each variant and in all."""
        return tuple(residuals(Layout(operation, self.spelling), self.framework))

    def files(self, operation: Operation, package: str = "") -> dict[str, str]:
        """The files of an operation, by name."""
        name = f"{operation.program.spec.op}_{self.name}.py"
        return {name: self.module(operation), f"test_{name}": render_test(operation, self.framework, package)}


TARGETS: Mapping[str, Target] = MappingProxyType({f.name: Target(f) for f in (jax.FRAMEWORK, mlx.FRAMEWORK)})


def refusals(operation: Operation, target: Target) -> list[Mistake]:
    """Why a target cannot have an operation, each reason at its place in the spec; none where it can."""
    spec = operation.program.spec
    name = target.spelling.name
    found = []
    if spec.options.inplace:
        found.append(spec.mistake_at("options.inplace", f"{name} has no operations in place"))
    if not spec.options.double_backward:
        found.append(spec.mistake_at("options.double_backward", f"every derivative in {name} can be differentiated"))
    if spec.options.packed:
        found.append(spec.mistake_at("options.save", f"{name} decides itself what it keeps, and in which form"))
    if spec.op in target.framework.imports:
        found.append(spec.mistake_at("op", f"{spec.op!r} is a module that the files for {name} need"))
    forms = [form for v in _forms(operation) for form in v]
    for calls in dict.fromkeys(target.spelling.missing(forms)):
        written = next((w for w in operation.program.calls if _canonical(w) in calls), "")
        which = repr(written) if written else f"{calls[0]!r}, of which this or its derivative is made"
        message = f"{name} has no {which}; leave the target {target.name!r} out for this spec"
        last = [*(o.formula for o in spec.outputs), *spec.gradients.values()][-1]
        found.append(spec.mistake(*operation.program.calls.get(written, (last, 0)), message))
    return found


def _canonical(written: str) -> str:
    """What a function is called in the tables."""
    return SPELLINGS.get(written) or TENSOR_SPELLINGS.get(written) or written


def _forms(operation: Operation) -> Iterator[Iterable[Expr]]:
    for _, variant in operation.variants():
        yield variant.outputs.values()
        yield variant.tangents.values()
        yield (override.gradient for override in variant.overrides.values())
