"""Default modules against the composite under autograd: time of large calls, and of calls on few elements.

    python benchmarks/eager.py specs/*.yaml                     backward, and all, at 4 million elements
    python benchmarks/eager.py --overhead specs/swish.yaml      forward, and all, at 8 elements

Both are timed in turn in one run; figures are medians, ratios are of generated to composite: below 1 is faster. After a
ratio stands whether the module has passes, and what `gen` says where it is estimated slower.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

import symgrad
from symgrad.bench.arguments import arguments, sized
from symgrad.compiler.compile import compile_operation
from symgrad.parse import parse_formulas
from symgrad.pipeline import compile_spec
from symgrad.spec import load_spec
from symgrad.targets.torch.composite import load_composite

Timed: TypeAlias = "Callable[[], tuple[float, float]]"


def large(function: Callable[..., Any], args: Sequence[Any]) -> Timed:
    """One timed call: of backward, and of forward and backward."""
    wrt = [a for a in args if isinstance(a, Tensor) and a.requires_grad]

    def run() -> tuple[float, float]:
        start = time.perf_counter()
        outputs = function(*args)
        forward = time.perf_counter() - start
        outputs = [y for y in (outputs if isinstance(outputs, tuple) else (outputs,)) if y.requires_grad]
        cotangents = [torch.ones_like(y) for y in outputs]
        start = time.perf_counter()
        torch.autograd.grad(outputs, wrt, cotangents, allow_unused=True)
        backward = time.perf_counter() - start
        return backward, forward + backward

    return run


def small(function: Callable[..., Any], args: Sequence[Any]) -> Timed:
    """Many timed calls, without and with backward."""
    wrt = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
    repeat = 200

    def once(*, backward: bool) -> float:
        start = time.perf_counter()
        for _ in range(repeat):
            y = function(*args)
            if backward:
                first = y[0] if isinstance(y, tuple) else y
                torch.autograd.grad(first, wrt, torch.ones_like(first), allow_unused=True)
        return (time.perf_counter() - start) / repeat

    return lambda: (once(backward=False), once(backward=True))


def compare(ours: Timed, theirs: Timed, rounds: int) -> list[tuple[float, float]]:
    """Medians of interleaved runs, after two rounds that do not count: of both figures, each beside the composite's."""
    pairs = [(ours(), theirs()) for _ in range(rounds + 2)][2:]
    return [(statistics.median(a[k] for a, _ in pairs), statistics.median(b[k] for _, b in pairs)) for k in (0, 1)]


def main() -> None:
    """Print one row per spec, and medians and geometric means of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+", type=Path)
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--elements", type=int, default=1 << 22)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    mode, elements = (small, 8) if options.overhead else (large, options.elements)
    rows: list[list[float]] = []
    for path in options.specs:
        spec = load_spec(path)
        if spec.gradients or not any(o.grad for o in spec.outputs):
            continue  # the composite of an overridden gradient is another operation
        compiled = compile_spec(spec)
        ours = getattr(symgrad.load(path), spec.op)
        theirs = load_composite(compile_operation(parse_formulas(spec.without_kernels())))
        try:
            args = arguments(sized(spec, theirs), elements, torch.float32)
            found = compare(mode(ours, args), mode(theirs, args), options.rounds)
        except (RuntimeError, IndexError, ValueError) as error:  # shapes that depend on values, indices that do
            print(f"{spec.op:28} {error}", flush=True)
            continue
        rows.append([mine / composite for mine, composite in found])
        times = "   ".join(f"{a * 1e3:8.3f} ms, composite {b * 1e3:8.3f}, ratio {a / b:5.2f}" for a, b in found)
        told = "estimated slower" if any("is estimated" in note for note in compiled.derivation.notes) else ""
        print(f"{spec.op:28} {times}   {'passes' if compiled.passes else ''}{told}", flush=True)
    for k, what in enumerate(("forward", "forward and backward") if options.overhead else ("backward", "all")):
        ratios = [row[k] for row in rows]
        mean = statistics.geometric_mean(ratios)
        print(f"{what}: median ratio {statistics.median(ratios):.2f}, geometric mean {mean:.2f}")


if __name__ == "__main__":
    main()
