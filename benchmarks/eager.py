"""Generated eager Functions against the composite under autograd: time of backward, call overhead, saved bytes.

    python benchmarks/eager.py specs/*.yaml                     backward at 4 million elements
    python benchmarks/eager.py --overhead specs/swish.yaml      forward and forward+backward at 8 elements

Both are timed in turn in one run; figures are medians, ratios are of generated to composite: below 1 is faster.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import symgrad
from symgrad.bench.arguments import arguments, sized
from symgrad.compiler.compile import compile_operation
from symgrad.parse import parse_formulas
from symgrad.spec import load_spec
from symgrad.targets.torch.composite import load_composite


def backward_of(function: Callable[..., Any], args: Sequence[Any]) -> Callable[[], float]:
    """One timed backward; forward runs before the clock starts."""
    wrt = [a for a in args if isinstance(a, Tensor) and a.requires_grad]

    def run() -> float:
        outputs = function(*args)
        outputs = [y for y in (outputs if isinstance(outputs, tuple) else (outputs,)) if y.requires_grad]
        cotangents = [torch.ones_like(y) for y in outputs]
        start = time.perf_counter()
        torch.autograd.grad(outputs, wrt, cotangents, allow_unused=True)
        return time.perf_counter() - start

    return run


def both_ways(function: Callable[..., Any], args: Sequence[Any], *, backward: bool) -> Callable[[], float]:
    """Many timed calls, with or without backward."""
    wrt = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
    repeat = 200

    def run() -> float:
        start = time.perf_counter()
        for _ in range(repeat):
            y = function(*args)
            if backward:
                first = y[0] if isinstance(y, tuple) else y
                torch.autograd.grad(first, wrt, torch.ones_like(first), allow_unused=True)
        return (time.perf_counter() - start) / repeat

    return run


def compare(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> tuple[float, float]:
    """Medians of interleaved runs, after two rounds that do not count."""
    pairs = [(ours(), theirs()) for _ in range(rounds + 2)][2:]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def main() -> None:
    """Print one row per spec and the median ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+", type=Path)
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--elements", type=int, default=1 << 22)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    ratios: list[list[float]] = []
    for path in options.specs:
        spec = load_spec(path)
        if spec.gradients or not any(o.grad for o in spec.outputs):
            continue  # the composite of an overridden gradient is another operation
        operation = compile_operation(parse_formulas(spec))
        ours, theirs = getattr(symgrad.load(path), spec.op), load_composite(operation)
        args = arguments(sized(spec, theirs), 8 if options.overhead else options.elements, torch.float32)
        if options.overhead:
            modes = [partial(both_ways, args=args, backward=b) for b in (False, True)]
        else:
            modes = [partial(backward_of, args=args)]
        row = []
        for mode in modes:
            mine, composite = compare(mode(ours), mode(theirs), options.rounds)
            row.append(mine / composite)
            print(
                f"{spec.op:28} {mine * 1e3:9.4f} ms  composite {composite * 1e3:9.4f} ms  ratio {row[-1]:5.2f}",
                flush=True,
            )
        ratios.append(row)
    for k in range(len(ratios[0])):
        print(f"median ratio {statistics.median(r[k] for r in ratios):.2f}")


if __name__ == "__main__":
    main()
