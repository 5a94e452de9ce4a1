"""The code that Triton's compiler and NVIDIA's assembler make of the benchmark set, examined without a device."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
import torch
from devices import on_cuda
from fused import all_written, imported
from fused_specs import LABELS, MEAN_LABELS

pytest.importorskip("triton")
import interpreted
import ptx

from benchmarks.kernels import SPECS
from benchmarks.without_device import Launch
from symgrad.bench.arguments import arguments, unfilled
from symgrad.spec import parse_spec

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in SPECS} | {"mean_labels": MEAN_LABELS}
ELEMENTS = 2**20  # of which a program that sums has several tiles


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machine")
    return {op: Path(m.__file__) for op, m in all_written([*TEXTS.values(), LABELS], folder).items()}


def faults(passes: list[Examined]) -> list[tuple[str, str, Examined]]:
    return [(own.name, name, own) for own in passes for name, holds in PROPERTIES.items() if not holds(own)]


@dataclass(frozen=True)
class Examined:
    """A pass: what it should read and write in vectors of 16 bytes, its PTX by instructions, and what became of it."""

    op: str
    name: str
    item: int  # bytes of an element
    read: float  # vectors of a thread, if every element is read once
    written: float
    columns: int  # tensors with one element for each row, or for all
    numbers: int  # hyperparameters, and what follows from them
    lines: Counter[str]
    registers: int
    stack: int
    spilled: int

    def count(self, pattern: str) -> int:
        """How many instructions there are of a kind."""
        return sum(times for name, times in self.lines.items() if re.fullmatch(pattern, name))

    def kinds(self, pattern: str) -> set[str]:
        """The instructions of a kind."""
        return {name for name in self.lines if re.fullmatch(pattern, name)}


_INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.:]+)", re.MULTILINE)


def examined(path: Path, op: str, dtype: torch.dtype, arch: int) -> list[Examined]:
    """The passes of forward and backward of an operation."""
    return of_arguments(path, op, unfilled(parse_spec(TEXTS[op]), ELEMENTS, dtype), arch)


def of_arguments(path: Path, op: str, given: list[object], arch: int) -> list[Examined]:
    """The passes for these tensors and settings."""
    tensors = [a for a in given if isinstance(a, torch.Tensor)]
    for whole in (t for t in tensors if not t.is_floating_point()):
        whole.zero_()
    settings = [a for a in given if not isinstance(a, torch.Tensor)]
    wanted = [k for k, t in enumerate(tensors) if t.requires_grad]

    def call(*args: object) -> object:
        return interpreted.results(*args, wanted=wanted)

    found = ptx.launches(path, [t.detach() for t in tensors], settings, None, call, arch)
    return [_examined(op, name, launch, tensors[0].element_size()) for name, launch in found.items()]


def _examined(op: str, name: str, launch: Launch, item: int) -> Examined:
    tensors = [a for a in launch.arguments if isinstance(a, tuple) and isinstance(a[0], torch.Tensor)]
    how = [a for a in launch.arguments if isinstance(a, str)]
    read, made = tensors[: -len(how)], zip(tensors[-len(how) :], how, strict=True)
    share = launch.constants["BLOCK"] * launch.constants["ROWS"] / (32 * launch.warps) / 16

    def vectors(own: list[tuple[torch.Tensor, ...]]) -> float:
        return sum(share * t.element_size() for t, _, step, *_ in own if step)

    columns = sum(not step for _, _, step, *_ in read) + launch.constants["debug"] * len(read)  # and what is picked
    lines = Counter(_INSTRUCTION.findall(launch.ptx))
    numbers = sum(isinstance(a, float) for a in launch.arguments)
    written = vectors([t for t, own in made if own in ("each", "run")])
    return Examined(op, name, item, vectors(read), written, columns, numbers, lines, *launch.assembled())


REGISTERS = {2: 96, 4: 96, 8: 168}  # by the bytes of an element: 20 warps for a multiprocessor, or 12
ANGLES = {"snake"}  # libdevice has a table and 64 bits for sines of angles beyond 1e5
PROPERTIES: dict[str, Callable[[Examined], bool]] = {
    "every element is read once, in whole vectors": lambda e: e.count(r"ld\.global\.v\d\..*") == e.read,
    "every element is written once, in whole vectors": lambda e: e.count(r"st\.global\.v\d\..*") == e.written,
    "what belongs to a row is read once": lambda e: e.count(r"ld\.global\.b\d+") <= e.columns,
    "nothing is spilled": lambda e: e.spilled == 0,
    "nothing is on the stack": lambda e: e.stack == 0 or e.op in ANGLES,
    "registers leave room for other warps": lambda e: e.registers <= REGISTERS[e.item],
    "hyperparameters alone are float64": lambda e: (
        e.item == 8
        or e.kinds(r".*\.f64.*") <= {"cvt.rn.f32.f64", *(("mul.f64", "cvt.rn.f64.s64") if e.op in ANGLES else ())}
    ),
    "hyperparameters are narrowed once": lambda e: e.count(r"cvt\.rn\.f32\.f64") <= e.numbers or e.op in ANGLES,
    "exponentials alone are approximated, in part": lambda e: (
        e.kinds(r".*\.(?:approx|full)\b.*") <= {"ex2.approx.ftz.f32", "rcp.approx.ftz.f64"}
    ),
    "subnormal numbers are kept": lambda e: e.kinds(r"(?!ex2|rcp).*\bftz\b.*") == set(),
    "nothing is added atomically": lambda e: e.kinds(r"(?:atom|red)\..*") == set(),
}
CASES = [
    *product(TEXTS, (torch.float32,), (80,)),
    *product(TEXTS, (torch.float32,), (89, 90, 120)),
    *product(TEXTS, (torch.bfloat16, torch.float16, torch.float64), (80, 90)),
]


@pytest.mark.parametrize(
    ("op", "dtype", "arch"),
    [pytest.param(*case, marks=[] if k < len(TEXTS) else pytest.mark.nightly) for k, case in enumerate(CASES)],
    ids=str,
)
def test_the_code_of_every_pass(without_device, paths, op, dtype, arch):
    passes = without_device(examined, paths[op], op, dtype, arch)
    assert len(passes) == 2
    assert not faults(passes)


@pytest.mark.parametrize("classes", [32_000, pytest.param(128_256, marks=pytest.mark.nightly)])
def test_a_cross_entropy_over_many_classes_reads_each_logit_once_and_once_again_for_its_gradient(
    without_device, paths, classes
):
    x, labels = torch.empty(8, classes, requires_grad=True), torch.zeros(8, dtype=torch.int64)
    passes = without_device(of_arguments, paths["labels"], "labels", [x, labels], 90)
    assert [own.name for own in passes] == ["forward", "backward"]
    assert not faults(passes)


@on_cuda
@pytest.mark.parametrize("op", TEXTS)
def test_the_benchmark_set_runs_on_a_device(paths, op):
    spec, module = parse_spec(TEXTS[op]), imported(paths[op])
    given = [a.cuda() if isinstance(a, torch.Tensor) else a for a in arguments(spec, ELEMENTS, torch.float32)]
    tensors = [a for a in given if isinstance(a, torch.Tensor)]
    settings = [a for a in given if not isinstance(a, torch.Tensor)]
    wanted = [k for k, t in enumerate(tensors) if t.requires_grad]
    found = []
    for on in (True, False):
        module._kernels.elsewhere.on = on
        found.append(interpreted.results(getattr(module, op), [t.detach() for t in tensors], settings, wanted))
    for fused, eager in zip(*found, strict=True):
        torch.testing.assert_close(fused, eager, rtol=2e-4, atol=2e-4)
    assert all(module._kernels.elsewhere.walks.values())
