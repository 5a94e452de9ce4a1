"""Modules with fused passes, written to a folder and imported, as users have them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from once import once, prepare

from symgrad.files import render, spec_hash
from symgrad.importing import import_generated
from symgrad.pipeline import Compiled, compile_spec
from symgrad.spec import parse_spec

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="no C++ compiler: there are no fused passes"
)


@cache
def compiled(text: str) -> Compiled:
    """A spec given as YAML, compiled with fused passes, once in a run."""
    return once(_with_kernels, text)


def _with_kernels(text: str) -> Compiled:
    return compile_spec(parse_spec(text).with_kernels())


def written(text: str, folder: Path) -> ModuleType:
    """The module of a spec, with its passes beside it."""
    made = compiled(text)
    op = made.spec.op
    texts = {**made.files, **made.shared}
    for name, body in render(texts, spec_path="a.yaml", source=spec_hash(made.spec)).items():
        (folder / name).write_text(body, encoding="utf-8")
    return imported(folder / f"{op}.py")


def all_written(texts: Sequence[str], folder: Path) -> dict[str, ModuleType]:
    """The modules of specs by the names of their operations."""
    prepare(_with_kernels, texts)
    made = [written(text, folder) for text in texts]
    return {m._kernels.source.stem: m for m in made}


def imported(path: Path) -> ModuleType:
    """A generated module, imported anew, with one library for all sizes, to save the time of another one."""
    module = import_generated(path)
    if hasattr(module, "_kernels"):
        module._kernels.narrow = 0
    return module


@contextmanager
def passes_of(module: ModuleType, on: bool = True) -> Iterator[list[list[Any]]]:
    """With the passes of a module turned on or off: the results of each that serves meanwhile."""
    kind, served = module.rtk._Run, []
    running = kind.running

    def counting(*given: Any) -> Any:
        run = running(*given)

        def counted(*given: Any) -> Any:
            found = run(*given)
            served.extend([] if found is None else [found])
            return found

        return counted

    module._kernels.forget()
    module._kernels.on, kind.running = on, counting
    try:
        yield served
    finally:
        module._kernels.on, kind.running = True, running
        module._kernels.forget()


def agree(fused: Sequence[torch.Tensor], eager: Sequence[torch.Tensor]) -> None:
    """Assert that passes and eager bodies give the same, to the rounding of their dtype."""
    for a, b in zip(fused, eager, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        tolerance = {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[a.dtype]
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
