"""A driver of Triton without a device: launches compile kernels down to machine code, and end there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import triton
from interpreted import module_of, results, second, tangents, tiles
from torch import Tensor
from triton.backends.compiler import GPUTarget

_SHARED = 99 * 1024  # bytes of shared memory that every device since sm_80 has


class CompilingDriver:
    """What Triton asks a driver for."""

    def __init__(self) -> None:
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: {"max_shared_mem": _SHARED},
            load_binary=lambda name, kernel, shared, device: (name, name, 0, 0, 1024),
        )

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        """What launches a kernel that was compiled: nothing."""
        return lambda *args: None

    def get_current_target(self) -> GPUTarget:
        """What is compiled for."""
        return GPUTarget("cuda", 80, 32)

    def get_current_device(self) -> int:
        """The only one."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The only one."""
        return 0


class Recorder:
    """A kernel that remembers what it was compiled to."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.ptx = ""

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **options: self.run(*args, grid=grid, warmup=False, **options)

    def run(self, *args: Any, **options: Any) -> None:
        """Launch it."""
        self.ptx = self.kernel.run(*args, **options).asm["ptx"]


def start() -> None:
    """Make this process one that compiles for a device that it has not."""
    triton.runtime.driver.set_active(CompilingDriver())


def of_passes(
    path: Path, tensors: list[Tensor], settings: Any = (), sizes: Any = None, call: Callable[..., Any] = results
) -> dict[str, str]:
    """The PTX of the passes of a module, as they are launched; the assembler has accepted it.

    `call` launches them: by default it calls the operation and computes its gradients.
    """
    module = module_of(path)
    kernels = vars(module)["_kernels"]
    kernels.forget()
    library = kernels.library(torch.float32)
    usual = dict(library.PASSES)
    for name, chosen in usual.items():
        library.PASSES[name] = chosen._replace(kernel=Recorder(chosen.kernel))
    try:
        with tiles(library, sizes or {}):
            call(getattr(module, path.stem), tensors, settings)
        return {name: chosen.kernel.ptx for name, chosen in library.PASSES.items() if chosen.kernel.ptx}
    finally:
        library.PASSES.update(usual)


def derivatives(function: Any, tensors: list[Tensor], settings: Any) -> None:
    """Launch the passes of forward mode and of second derivatives, for all tensors."""
    tangents(function, tensors, settings, range(len(tensors)))
    second(function, tensors, settings, range(len(tensors)))


def of_kernel(path: Path, name: str, dtype: torch.dtype, tensors: int) -> str:
    """The PTX of a kernel of one block over tensors."""
    from fused import imported

    recorder = Recorder(getattr(imported(path), name))
    recorder[(1,)](*(torch.empty(16, dtype=dtype) for _ in range(tensors)), BLOCK=16, enable_reflect_ftz=False)
    return str(recorder.ptx)
