"""Triton passes of modules as CUDA's compiler and assembler take them, in a process that has no device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
from interpreted import module_of, results, second, tangents, tiles
from torch import Tensor

from benchmarks.without_device import CompilingDriver, Launch, Recorder, recorded, start

__all__ = ["derivatives", "launches", "of_kernel", "of_passes", "relaunched", "start"]


def launches(
    path: Path,
    tensors: list[Tensor],
    settings: Any = (),
    sizes: Any = None,
    call: Callable[..., Any] = results,
    arch: int = 80,
) -> dict[str, Launch]:
    """The passes of a module as they are launched; the assembler has accepted them.

    `call` launches them: by default it calls the operation and computes its gradients.
    """
    triton.runtime.driver.set_active(CompilingDriver(arch))
    module = module_of(path)
    kernels = vars(module)["_kernels"]
    kernels.forget()
    library = kernels.library(torch.float32)
    with tiles(library, sizes or {}), recorded(library) as found:
        call(getattr(module, path.stem), tensors, settings)
    return found


def of_passes(path: Path, *args: Any, **options: Any) -> dict[str, str]:
    """The PTX of the passes of a module."""
    return {name: launch.ptx for name, launch in launches(path, *args, **options).items()}


def derivatives(function: Any, tensors: list[Tensor], settings: Any) -> None:
    """Launch the passes of forward mode and of second derivatives, for all tensors."""
    tangents(function, tensors, settings, range(len(tensors)))
    second(function, tensors, settings, range(len(tensors)))


def of_kernel(path: Path, name: str, dtype: torch.dtype, tensors: int) -> str:
    """The PTX of a kernel of one block over tensors."""
    from fused import imported

    recorder = Recorder(getattr(imported(path), name))
    recorder[(1,)](*(torch.empty(16, dtype=dtype) for _ in range(tensors)), BLOCK=16, enable_reflect_ftz=False)
    assert recorder.launch is not None
    return recorder.launch.ptx


def relaunched(path: Path, calls: list[list[Tensor]]) -> list[tuple[str, bool]]:
    """For each call of an operation without gradients: what its launch is given, addresses left out, and whether Triton
    had to look for a kernel."""
    seen: list[str] = []

    class Driver(CompilingDriver):
        def launcher_cls(self, source: Any, metadata: Any) -> Any:
            return lambda *args: seen.append(repr((*args[:4], *map(_without_addresses, args[9:]))))

    triton.runtime.driver.set_active(Driver(75))  # of no other test, whose launchers would serve
    module = module_of(path)
    kernels = vars(module)["_kernels"]
    kernels.forget()
    kernel = kernels.library(torch.float32).PASSES["forward"].kernel
    usual, searches = kernel.run, []
    kernel.run = lambda *args, **options: searches.append(len(seen)) or usual(*args, **options)
    try:
        for tensors in calls:
            vars(module)[path.stem](*tensors)
    finally:
        del kernel.run
    return [(given, k in searches) for k, given in enumerate(seen)]


def _without_addresses(argument: Any) -> Any:
    tensor = isinstance(argument, tuple) and isinstance(argument[0], Tensor)
    return (argument[0].shape, *argument[1:]) if tensor else argument
