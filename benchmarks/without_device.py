"""Triton passes of modules compiled down to machine code, as they are launched, on a machine without a device.

Nothing runs: what a launch would start is there to be examined. Needs Triton, which has its own assembler.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import triton
from torch import Tensor
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas, sm_arch_from_capability

__all__ = ["CompilingDriver", "Launch", "Recorder", "recorded", "serving_cpu_tensors", "start"]

_SHARED = 99 * 1024  # bytes of shared memory that every device since sm_80 has


class CompilingDriver:
    """What Triton asks a driver for: launches compile kernels for an architecture, and end there."""

    def __init__(self, arch: int) -> None:
        self.arch = arch
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: {"max_shared_mem": _SHARED},
            load_binary=lambda name, kernel, shared, device: (name, name, 0, 0, 1024),
        )

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        """What launches a kernel that was compiled: nothing."""
        return lambda *args: None

    def get_current_target(self) -> GPUTarget:
        """What is compiled for."""
        return GPUTarget("cuda", self.arch, 32)

    def get_current_device(self) -> int:
        """The only one of its architecture: what was compiled for another does not serve."""
        return self.arch

    def get_current_stream(self, device: int) -> int:
        """The only one."""
        return 0


def start(arch: int = 80) -> None:
    """Make this process one that compiles for a device that it has not."""
    triton.runtime.driver.set_active(CompilingDriver(arch))


def serving_cpu_tensors(module: ModuleType) -> Any:
    """Have the passes for CUDA tensors of a generated module serve CPU tensors, and return them."""
    kernels = vars(module)["_kernels"]
    kernels = kernels.elsewhere or kernels
    kernels.kind = "cpu"
    vars(module)["_kernels"] = vars(module)["_passes"].library = kernels
    return kernels


@dataclass(frozen=True)
class Launch:
    """One launch of a pass: its arguments, the number of its programs, and what it was compiled to."""

    arguments: tuple[Any, ...]
    constants: dict[str, Any]
    programs: int
    warps: int
    arch: int
    ptx: str
    cubin: bytes

    @property
    def tensors(self) -> dict[int, Tensor]:
        """The tensors that it reads and writes, each once, by their addresses."""
        found = [a[0] for a in self.arguments if isinstance(a, tuple) and isinstance(a[0], Tensor)]
        return {t.data_ptr(): t for t in found}

    def assembled(self) -> tuple[int, int, int]:
        """The registers of a thread, the bytes of its stack, and those that are spilled to it."""
        assembler = get_ptxas(self.arch).path
        contracted = [] if self.constants["enable_fp_fusion"] else ["--fmad=false"]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "a.ptx"
            source.write_text(self.ptx)
            command = [assembler, "-v", *contracted, f"--gpu-name={sm_arch_from_capability(self.arch)}", str(source)]
            done = subprocess.run([*command, "-o", f"{source}.o"], capture_output=True, text=True, check=True)
        patterns = (r"(\d+) registers", r"(\d+) bytes stack", r"(\d+) bytes spill (?:stores|loads)")
        registers, stack, spilled = (list(map(int, re.findall(p, done.stderr))) for p in patterns)
        return max(registers), max(stack), sum(spilled)  # of the kernel, and of functions that it calls

    def counted(self) -> Counter[str]:
        """The instructions of the shortest way through the machine code: no rare case occurs, no loop turns twice."""
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(self.cubin)
            file.flush()
            command = [knobs.nvidia.nvdisasm.path, "-c", file.name]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return _shortest(_blocks(text))


class Recorder:
    """A kernel that remembers how it was launched last."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.launch: Launch | None = None

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def run(*args: Any, **options: Any) -> None:
            made = self.kernel.run(*args, grid=grid, warmup=False, **options)
            arch, warps = triton.runtime.driver.active.get_current_device(), made.metadata.num_warps
            options = {"enable_fp_fusion": True, **options}
            self.launch = Launch(args, options, grid[0], warps, arch, made.asm["ptx"], made.asm["cubin"])

        return run


@contextmanager
def recorded(library: Any) -> Iterator[dict[str, Launch]]:
    """The launches of the passes of a generated file, by their names; they are there at the end."""
    usual = dict(library.PASSES)
    recorders = {name: Recorder(chosen.kernel) for name, chosen in usual.items()}
    found: dict[str, Launch] = {}
    library.PASSES.update((name, chosen._replace(kernel=recorders[name])) for name, chosen in usual.items())
    try:
        yield found
    finally:
        library.PASSES.update(usual)
        found |= {name: own.launch for name, own in recorders.items() if own.launch is not None}


# ---------------------------------------------------------------------------------------------- machine code
@dataclass
class _Block:
    """Instructions without a jump between them: their names, and the labels where it may go on."""

    names: list[str]
    jumps: list[str]
    follows: bool = True


_LINE = re.compile(r"^(\.L\w+):|/\*[0-9a-f]+\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)([^;]*);", re.MULTILINE)


def _blocks(text: str) -> dict[str, _Block]:
    """The blocks of the kernel, by label; what stands after the first are made-up ones, in order."""
    found = {"": _Block([], [])}
    last = found[""]
    for label, condition, name, rest in _LINE.findall(text):
        if label:
            last = found[label] = _Block([], [])
            continue
        last.names.append(name)
        target = re.search(r"`\((\.L\w+)\)", rest)
        ends = name.split(".")[0] in ("BRA", "EXIT", "RET")
        if name.startswith("BRA") and target:
            last.jumps.append(target[1])
        if ends:
            last.follows = bool(condition) or ("P" in rest.split("`")[0] and name.startswith("BRA"))
            last = found[f"{len(found)} follows"] = _Block([], [])
    return found


def _shortest(blocks: dict[str, _Block]) -> Counter[str]:
    """What is counted on the way from the first block to an end with the fewest instructions."""
    order = list(blocks)
    after = dict(pairwise(order))
    waiting: list[tuple[int, str, tuple[str, ...]]] = [(0, "", ())]
    seen = set()
    while waiting:
        length, label, way = heappop(waiting)
        if label in seen:
            continue
        seen.add(label)
        block = blocks[label]
        way = (*way, label)
        if block.names[-1:] == ["EXIT"]:
            return Counter(name for own in way for name in blocks[own].names)
        onward = [*block.jumps, *([after[label]] if block.follows and label in after else [])]
        for target in onward:
            heappush(waiting, (length + len(block.names), target, way))
    raise ValueError("a kernel without an end")
