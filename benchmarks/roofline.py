"""What the fused passes of the benchmark set can reach on a GPU: estimated from their machine code, without one.

    python -m benchmarks.roofline [OPERATION ...] [--elements N] [--dtype bfloat16]     # the table of docs/kernels.md
    python benchmarks/kernels.py --device cuda --size 67108864                          # measures it

Each pass is compiled as it would be launched, for the architecture of each device. It takes as long as the slowest of:
its bytes at the published bandwidth; the instructions of a thread, counted in the machine code, at four for a
multiprocessor and cycle, for warps of 32; those among them that are float32 and float64 arithmetic at half of the
published rates (which count a multiplication with an addition twice); and those of the special function units, of
which a multiprocessor does 16 in a cycle. Launches, and what waits for something else, are not in it.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.kernels import SPECS
from benchmarks.without_device import Launch, recorded, serving_cpu_tensors, start
from symgrad.bench.arguments import unfilled
from symgrad.files import render, spec_hash
from symgrad.importing import import_generated
from symgrad.pipeline import compile_spec
from symgrad.spec import Spec, load_specs


@dataclass(frozen=True)
class Device:
    """What its maker publishes: bytes, float32 and float64 operations a second; the lanes of a multiprocessor."""

    name: str
    arch: int
    bandwidth: float
    float32: float
    float64: float
    lanes: int

    @property
    def cycles(self) -> float:
        """Cycles a second of all multiprocessors together, at which the float32 rate holds."""
        return self.float32 / 2 / self.lanes


# NVIDIA's data sheets of A100 (80 GB SXM), H100 (SXM) and H200 (SXM), and its white paper on the Ada architecture.
DEVICES = (
    Device("A100", 80, 2039e9, 19.5e12, 9.7e12, 64),
    Device("H100", 90, 3350e9, 67e12, 34e12, 128),
    Device("H200", 90, 4800e9, 67e12, 34e12, 128),
    Device("RTX 4090", 89, 1008e9, 82.6e12, 1.29e12, 128),
)
_ISSUED = 128  # threads of which a multiprocessor begins an instruction in a cycle
_SPECIAL = 16  # results of its special function units in a cycle
_ARITHMETIC = {"FADD", "FMUL", "FFMA", "FMNMX", "FSETP", "FSEL", "FSET"}
_WIDE = {"DADD", "DMUL", "DFMA", "DSETP", "DMNMX"}


def _is_special(name: str) -> bool:
    """Whether the special function units compute it: conversions are as slow."""
    return name.partition(".")[0] in {"MUFU", "I2F", "F2I", "F2F", "FRND", "I2FP"} and "64" not in name


@dataclass(frozen=True)
class Cost:
    """What a pass costs: the bytes that it moves, and the instructions of all its threads, by name."""

    moved: int
    threads: int
    counted: Counter[str]

    def count(self) -> int:
        """How many instructions all threads execute."""
        return self.threads * sum(self.counted.values())

    def seconds(self, device: Device) -> dict[str, float]:
        """How long each part of a device is busy."""
        first, special, wide = Counter[str](), 0, 0
        for name, times in self.counted.items():
            kind = name.partition(".")[0]
            first[kind] += times
            special += times * _is_special(name)
            wide += times * (kind in _WIDE or (kind == "F2F" and "64" in name))
        return {
            "memory": self.moved / device.bandwidth,
            "instructions": self.count() / (_ISSUED * device.cycles),
            "float32": self.threads * sum(first[n] for n in _ARITHMETIC) / (device.float32 / 2),
            "float64": self.threads * wide / (device.float64 / 2),
            "special": self.threads * special / (_SPECIAL * device.cycles),
        }


def costs(module: Any, given: Sequence[Any], arch: int) -> list[Cost]:
    """What the passes cost. Instructions are those of programs that have one tile each, and no loop over several."""
    usual, single = launched(module, given, arch), launched(module, given, arch, math.inf)
    return [
        Cost(
            sum(t.numel() * t.element_size() for t in launch.tensors.values()),
            single[name].programs * launch.warps * 32,
            single[name].counted(),
        )
        for name, launch in usual.items()
    ]


def specs() -> Iterator[Spec]:
    """The benchmark set."""
    for path in SPECS:
        for spec in load_specs(str(path)):
            yield spec.with_kernels()


def written(spec: Spec, folder: Path) -> Any:
    """The module of a spec, whose passes for CUDA serve CPU tensors."""
    made = compile_spec(spec)
    for name, text in render({**made.files, **made.shared}, spec_path=spec.op, source=spec_hash(spec)).items():
        (folder / name).write_text(text, encoding="utf-8")
    module = import_generated(folder / f"{spec.op}.py")
    serving_cpu_tensors(module)
    return module


def launched(module: Any, given: Sequence[Any], arch: int, programs: float = 512) -> dict[str, Launch]:
    """The passes of forward and backward as they are launched on a device of an architecture."""
    start(arch)
    kernels = vars(module)["_kernels"]
    kernels.forget()
    library = kernels.library(torch.float32)
    vars(sys.modules[library.Plan.__module__])["PROGRAMS"] = programs
    with recorded(library) as found:
        outputs = getattr(module, kernels.source.stem.removesuffix("_triton"))(*given)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        leaves = [t for t in given if isinstance(t, Tensor) and t.requires_grad]
        torch.autograd.grad(outputs, leaves, [torch.empty_like(y) for y in outputs])
    return found


def rows(elements: int, dtype: torch.dtype, operations: Sequence[str]) -> Iterator[list[str]]:
    """A row of the table for each operation, or for these alone."""
    for spec in specs():
        if operations and spec.op not in operations:
            continue
        with tempfile.TemporaryDirectory() as folder:
            module = written(spec, Path(folder))
            given = unfilled(spec, elements, dtype)
            count = max(t.numel() for t in given if isinstance(t, Tensor))
            by_arch = {arch: costs(module, given, arch) for arch in sorted({d.arch for d in DEVICES})}
        usual = by_arch[DEVICES[0].arch]
        cells = [f"{sum(c.moved for c in usual) / count:.0f}", f"{sum(c.count() for c in usual) / count:.0f}"]
        for device in DEVICES:
            seconds = [c.seconds(device) for c in by_arch[device.arch]]
            total = sum(max(s.values()) for s in seconds)
            limit = sum(s["memory"] for s in seconds)
            slowest = {max(s, key=s.__getitem__) for s in seconds} - {"memory"}
            why = f" ({total / limit:.2f}: {', '.join(sorted(slowest))})" if slowest else ""
            cells.append(f"{total * 1e6:.0f}{why}")
        yield [spec.op, *cells]


def table(elements: int, dtype: torch.dtype, operations: Sequence[str]) -> str:
    """The table, in Markdown."""
    names = ["operation", "bytes", "instructions", *(d.name for d in DEVICES)]
    lines = [names, ["---"] * len(names), *rows(elements, dtype, operations)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("operations", nargs="*", help="by default all")
    parser.add_argument("--elements", type=int, default=2**26)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16", "float64"))
    chosen = parser.parse_args()
    print(table(chosen.elements, getattr(torch, chosen.dtype), chosen.operations))
