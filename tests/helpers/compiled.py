"""Operations compiled for tests: the modules of specs and their composites, and arguments to call them with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from once import once
from torch import Tensor

from symgrad.compiler.compile import compile_operation
from symgrad.compiler.operation import Operation
from symgrad.parse import parse_formulas
from symgrad.spec import Spec, parse_spec
from symgrad.targets.torch import runtime
from symgrad.targets.torch.composite import load_composite
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.module import render_module
from symgrad.targets.torch.settings import settings
from symgrad.targets.torch.tests import render_test

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))
OWN_SPECS = sorted((Path(__file__).parents[1] / "specs").glob("*.yaml"))
SAMPLE = [*SPECS[1::6], *OWN_SPECS]  # for what holds of every module or of none; the dearest specs are not among them


class Compiled:
    """One operation: the parsed spec, what the compiler made of it, the running module and the composite."""

    def __init__(self, operation: Operation) -> None:
        self.spec: Spec = operation.program.spec
        self.operation = operation
        self._text: str | None = None
        self._module: ModuleType | None = None
        self._composite: Callable[..., Any] | None = None

    @property
    def text(self) -> str:
        """The generated module."""
        if self._text is None:
            self._text = render_module(self.operation).text
        return self._text

    @property
    def test(self) -> str:
        """The generated test."""
        return render_test(self.operation)

    @property
    def module(self) -> ModuleType:
        """The generated module, imported."""
        if self._module is None:
            self._module = ModuleType(self.spec.op)
            self._module.__package__ = runtime.__name__  # the runtime stands beside it
            exec(compile(self.text, f"<{self.spec.op}>", "exec"), self._module.__dict__)
        return self._module

    @property
    def function(self) -> Callable[..., Any]:
        """The public function."""
        found: Callable[..., Any] = getattr(self.module, self.spec.op)
        return found

    @property
    def surrogate(self) -> Callable[..., Any]:
        """The form for compilers, of an operation with overridden gradients."""
        found: Callable[..., Any] = getattr(self.module, f"{Layout(self.operation).class_name}Function").surrogate
        return found

    @property
    def composite(self) -> Callable[..., Any]:
        """The formula in eager torch operations."""
        if self._composite is None:
            self._composite = load_composite(self.operation)
        return self._composite

    @property
    def differentiable(self) -> list[str]:
        """The tensors that can have a gradient."""
        return [t.name for t in self.spec.tensors if t.grad and t.dtype == "float"]

    def hyperparameters(self, most: int = 4) -> Iterator[tuple[Any, ...]]:
        """Some settings of the hyperparameters."""
        return iter(settings(Layout(self.operation), every=True)[:most])

    def tensors(self, wanted: Sequence[str] = (), seed: int = 0, dtype: torch.dtype = torch.float64) -> list[Tensor]:
        """Arguments in the domain, those `wanted` with a gradient."""
        generator = torch.Generator().manual_seed(seed)
        return [self._tensor(t, generator, dtype).requires_grad_(t.name in wanted) for t in self.spec.tensors]

    def _tensor(self, t: Any, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        sizes = {
            name: 3 + i for i, name in enumerate(dict.fromkeys(d for s in self.spec.tensors for d in s.shape or ()))
        }
        given = self.spec.test.shapes.get(t.name)
        shape = given or tuple(sizes[d] if isinstance(d, str) else d for d in ((16, 8) if t.shape is None else t.shape))
        if t.dtype == "bool":
            return torch.rand(shape, generator=generator) > 0.5
        if t.dtype == "int":
            return torch.randint(0, 4, shape, generator=generator)
        low, high = -2.0, 2.0
        if t.domain is not None:
            low = max(t.domain.lower, low)
            high = min(t.domain.upper, low + 3)
        low, high = self.spec.test.ranges.get(t.name, (low + 0.01 * (high - low), high - 0.01 * (high - low)))
        return torch.rand(shape, generator=generator, dtype=dtype) * (high - low) + low


@cache
def compiled(path: Path) -> Compiled:
    """The operation of a spec file."""
    return compiled_text(path.read_text(encoding="utf-8"))


@cache
def compiled_text(text: str) -> Compiled:
    """The operation of a spec given as YAML; the same object in all of a process, compiled once in a run."""
    return Compiled(once(_operation, text))


def _operation(text: str) -> Operation:
    spec = parse_spec(text)  # its eager bodies are what is looked at, and planned for, where nobody asked for passes
    return compile_operation(parse_formulas(spec if spec.options.kernels == "all" else spec.without_kernels()))


def results(value: Any) -> list[Tensor]:
    """The outputs of an operation as a list."""
    return list(value) if isinstance(value, tuple) else [value]


def subsets(item: Compiled) -> list[tuple[str, ...]]:
    """The ways to want gradients, smaller ones first."""
    names = item.differentiable
    return list(chain.from_iterable(combinations(names, r) for r in range(1, len(names) + 1)))


def stored(function: Any, arguments: Sequence[Any]) -> tuple[int, int]:
    """Bytes that autograd keeps for a call: in all, and beside inputs and outputs, which live anyway."""
    seen: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def pack(t: torch.Tensor) -> torch.Tensor:
        seen[t.data_ptr(), t.dtype] = t
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        outputs = results(function(*arguments))
    alive = {t.data_ptr() for t in (*arguments, *outputs) if isinstance(t, torch.Tensor)}
    large = [t for t in seen.values() if t.numel() > 1]  # a number made a tensor is no matter
    return sum(t.nbytes for t in large), sum(t.nbytes for t in large if t.data_ptr() not in alive)
