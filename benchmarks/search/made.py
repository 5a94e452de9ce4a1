"""Modules of drawn formulas, for users or as drafts, with their passes interpreted or in C++."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch

from benchmarks.search.draw import Drawn
from benchmarks.search.passes import interpret
from symgrad.accuracy.candidates import Candidate, Choice
from symgrad.accuracy.choose import directed
from symgrad.accuracy.measure import Score
from symgrad.accuracy.together import Member
from symgrad.compiler import workbench
from symgrad.compiler.compile import compile_operation
from symgrad.compiler.operation import Operation, leaves
from symgrad.importing import import_generated
from symgrad.ir.expr import Expr
from symgrad.ir.order import in_order
from symgrad.ir.traversal import topological, transform
from symgrad.parse import parse_formulas
from symgrad.targets.cpp.language import CPP
from symgrad.targets.fused.binding import Fused, fused
from symgrad.targets.torch import docs
from symgrad.targets.torch.composite import load_composite
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.module import render_module
from symgrad.targets.torch.shared import shared_files

__all__ = ["Made"]

_SECOND = 8  # one formula of so many has passes of second derivatives


class _Trusting:
    """A judge of forms that has no doubts."""

    def score(self, *_: Any, **__: Any) -> Score:
        return Score(0, 0.0)


def _drafted(formula: Expr, *_: Any, **__: Any) -> Choice:
    """The form that the directed rules make, not measured."""
    form, steps = directed(formula)
    candidate = Candidate(form, Score(0, 0.0), Score(0, 0.0), 1.0)
    return Choice(formula, candidate, (candidate,), steps)


def _as_they_are(members: Sequence[Member], *_: Any) -> list[Choice]:
    return [member.choice for member in members]


@contextlib.contextmanager
def _drafts() -> Iterator[None]:
    """Compile without what costs most and changes no result: measured forms, and derivatives written out in prose."""
    with contextlib.ExitStack() as changed:
        changed.enter_context(mock.patch.object(workbench, "choose", _drafted))
        changed.enter_context(mock.patch.object(workbench.Workbench, "_new_judge", lambda *_: _Trusting()))
        changed.enter_context(mock.patch.object(workbench.Workbench, "_missed", lambda *_: None))
        changed.enter_context(mock.patch.object(workbench, "together", _as_they_are))
        changed.enter_context(mock.patch.object(docs, "derivatives_text", lambda _: ""))
        yield


class Made:
    """A module of a drawn formula; a `draft` has forms that are not measured, and passes that are interpreted."""

    def __init__(self, drawn: Drawn, folder: Path, *, draft: bool) -> None:
        self.drawn, self.draft = drawn, draft
        spec = drawn.spec.with_kernels()
        if drawn.seed % _SECOND:  # second derivatives take most of the time
            spec = replace(spec, options=replace(spec.options, kernels="auto"))
        program = parse_formulas(spec)
        with in_order(program.orders), _drafts() if draft else contextlib.nullcontext():
            self.operation: Operation = compile_operation(program)
            self.layout = Layout(self.operation)
            self.passes: Fused = fused(self.layout, (CPP,))
            module = render_module(self.operation, self.passes if self.passes.files else None)
        files = {f"{drawn.op}.py": module.text, **self.passes.files}
        for name, text in {**shared_files(module.reads), **self.passes.shared, **files}.items():
            (folder / name).write_text(text, encoding="utf-8")
        self.module: ModuleType = import_generated(folder / f"{drawn.op}.py")
        self.function: Callable[..., Any] = getattr(self.module, drawn.op)
        self.composite = load_composite(self.operation)
        self.tensors = [t.name for t in drawn.spec.tensors]
        self.library = getattr(self.module, "_kernels", None)
        if self.library is not None:
            self.library.narrow, self.library.least = 0, 0

    @cached_property
    def formula(self) -> Expr:
        """What is computed of elements, and `cancelled` where it has the shape of a tensor that is no longer in it."""
        return transform(self._whole, lambda node: node.args[0] if node.op == "expand" else node)

    @cached_property
    def cancelled(self) -> bool:
        return any(node.op == "expand" for node in topological(self._whole))

    @property
    def _whole(self) -> Expr:
        return next(iter(leaves(self.operation.body))).formulas["y"]

    def with_passes(self, dtype: torch.dtype) -> bool:
        """Whether there are passes; from now on they serve."""
        if self.library is None:
            return False
        if self.draft and (dtype, 0, False) not in self.library.libraries:
            interpret(self.passes.kernels, self.library, dtype)
        self.library.on = True
        return True

    def without_passes(self) -> None:
        if self.library is not None:
            self.library.on = False
