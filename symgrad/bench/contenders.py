"""What is measured against each other: forms of one operation that give the same results."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from symgrad.compiler.compile import compile_operation
from symgrad.errors import SymgradError
from symgrad.explain.natives import native
from symgrad.importing import import_generated
from symgrad.parse import parse_formulas
from symgrad.pipeline import compile_spec
from symgrad.spec import Spec
from symgrad.targets.torch.composite import load_composite

__all__ = ["Contender", "contenders", "natives", "own_of_torch"]


@dataclass(frozen=True)
class Contender:
    """One form: its name, and how to call it."""

    name: str
    call: Callable[..., Any]


def contenders(spec: Spec, folder: Path, native: Callable[..., Any] | None, *, compiled: bool) -> list[Contender]:
    """The forms of an operation; generated modules are written to a folder."""
    composite = load_composite(compile_operation(parse_formulas(spec)))
    eager = _module(spec.without_kernels(), folder / "eager")
    kernels = _module(spec.with_kernels(), folder / "kernels")
    found = [
        Contender("composite", composite),
        Contender("eager", getattr(eager, spec.op)),
        Contender("kernels", getattr(kernels, spec.op)),
    ]
    if compiled:
        torch._dynamo.reset()
        found.append(Contender("torch.compile", torch.compile(composite)))
    if native is not None:
        found.append(Contender("native", native))
    return found


def _module(spec: Spec, folder: Path) -> ModuleType:
    """The generated module of a spec, written and imported."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = compile_spec(spec)
    path = folder / f"{spec.op}.py"
    path.write_text(texts.module, encoding="utf-8")
    for name, text in {**texts.passes, **texts.shared}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return import_generated(path)


def own_of_torch(spec: Spec) -> Callable[..., Any] | None:
    """What torch has for an operation as one of its own, found by the formula."""
    found = native(parse_formulas(spec))
    try:
        return found.load() if found is not None else None
    except (ImportError, AttributeError):  # another version of torch
        return None


def natives(path: Path | None) -> dict[str, Callable[..., Any]]:
    """Functions of a Python file by name: what torch itself has for an operation, with the same arguments.

    Raises SymgradError for what is no Python file, or raises when it is imported.
    """
    if path is None:
        return {}
    module_spec = importlib.util.spec_from_file_location("symgrad_bench_natives", path)
    if module_spec is None or module_spec.loader is None:
        raise SymgradError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(module_spec)
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:  # whatever the file raises
        raise SymgradError(f"{path} cannot be imported: {str(error) or type(error).__name__}") from error
    return {name: value for name, value in vars(module).items() if callable(value) and not name.startswith("_")}
