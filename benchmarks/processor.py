"""Fused passes in time that a processor spends: parts of the last dimension, and a cross-entropy with labels.

    python benchmarks/processor.py parts       # rotary embedding and gated units on one tensor, over the memory limit
    python benchmarks/processor.py rows        # softmax, cross-entropy and layer norm along rows
    python benchmarks/processor.py labels      # the mean cross-entropy of 32,000 classes, user and system time

One thread, forward and backward, medians. For parts and rows all contenders take turns. With labels the gradient is as
large as the logits, and what the system takes to provide memory depends on who had it before: each contender runs some
times by itself, after calls that are not counted, and beside it stands the time in which the same memory is written and
nothing else done, in pages of the usual size and in large ones.
"""

from __future__ import annotations

import argparse
import ctypes
import resource
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symgrad.bench.limit import limit
from symgrad.cli import main

FIELD = Path(__file__).parents[1] / "specs" / "field"
LABELS = """
op: mean_label_cross_entropy
tensors: {logits: {shape: [N, C]}, labels: {shape: [N], dtype: int}}
outputs: {loss: "cross_entropy(logits, labels)"}
"""
CLASSES = 32_000
PAGE = 1 << 21
HUGE = 14  # MADV_HUGEPAGE


def halves(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary embedding of halves."""
    a, b = x.chunk(2, -1)
    return x * cosine + torch.cat([-b, a], -1) * sine


def pairs(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary embedding of neighbours."""
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cosine - b * sine, a * sine + b * cosine], -1).flatten(-2)


def gated(x: Tensor) -> Tensor:
    """SwiGLU of one tensor."""
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


def geglu(x: Tensor) -> Tensor:
    """GEGLU of one tensor."""
    a, b = x.chunk(2, -1)
    return F.gelu(a, approximate="tanh") * b


# Of each: the spec, the composite, the shapes, and the places of what backward reads beside the cotangent.
PARTS: Sequence[tuple[str, Callable[..., Tensor], Sequence[tuple[int, ...]], tuple[int, ...]]] = (
    ("rotary_halves", halves, [(2, 16, 1024, 128), (1024, 128), (1024, 128)], (1, 2)),
    ("rotary_halves", halves, [(2, 32, 1024, 64), (1024, 64), (1024, 64)], (1, 2)),
    ("rotary_pairs", pairs, [(32, 1024, 128), (1024, 64), (1024, 64)], (1, 2)),
    ("packed_swiglu", gated, [(2048, 2048)], (0,)),
    ("packed_swiglu", gated, [(512, 8192)], (0,)),
    ("packed_geglu", geglu, [(2048, 2048)], (0,)),
)


def spent() -> tuple[float, float]:
    """User and system time of this process, in milliseconds."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime * 1e3, own.ru_stime * 1e3


def timed(run: Callable[[], Any], repeat: int) -> tuple[float, float]:
    """The user and system time of a call."""
    before = spent()
    for _ in range(repeat):
        run()
    user, system = (b - a for a, b in zip(before, spent(), strict=True))
    return user / repeat, system / repeat


def soft_labels(logits: Tensor, target: Tensor) -> Tensor:
    """Mean cross-entropy of class probabilities, smoothed by a tenth."""
    return F.cross_entropy(logits, target, label_smoothing=0.1)


def normalised(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer norm."""
    return F.layer_norm(x, weight.shape, weight, bias)


# Of each: the spec, torch's own, the other arguments for so many rows and columns, and whether there is one result.
ALONG: Sequence[tuple[str, Callable[..., Tensor], Callable[[int, int], list[Tensor]], bool]] = (
    ("softmax_rows", lambda x: F.softmax(x, -1), lambda n, c: [], False),
    ("cross_entropy_smoothed", soft_labels, lambda n, c: [torch.rand(n, c).softmax(-1)], True),
    ("mean_label_cross_entropy", F.cross_entropy, lambda n, c: [torch.randint(0, c, (n,))], True),
    ("layer_norm", normalised, lambda n, c: [torch.rand(c) + 0.5, torch.randn(c)], False),
)
COLUMNS = (10, 20, 64, 100, 128, 200, 1024)


def both_ways(function: Callable[..., Tensor], args: Sequence[Tensor], cotangent: Tensor | None) -> Callable[[], None]:
    """Forward and backward in the first argument."""

    def run() -> None:
        torch.autograd.grad(function(*args), args[:1], cotangent)

    return run


def traffic(forward: Callable[[], object], backward: Callable[[], object]) -> Callable[[], object]:
    """What forward and backward move, one after the other: the output is kept until there is the gradient.

    Each by itself would find in the caches what the other has moved out of them.
    """

    def run() -> object:
        return forward(), backward()

    return run


def in_turn(contenders: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median time of each, by its name; the first call of a turn finds what memory the last contender left."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            timed(run, 2)
            found[name].append(sum(timed(run, 10)))
    return {name: statistics.median(times) for name, times in found.items()}


def parts(load: Callable[[str], Callable[..., Tensor]], rounds: int) -> None:
    """Print times over the memory limit."""
    print("| operation | shape | limit, ms | time over the limit | torch.compile | composite |")
    print("| --- | --- | --- | --- | --- | --- |")
    for op, composite, shapes, read in PARTS:
        args = [torch.randn(shape) for shape in shapes]
        args[0].requires_grad_()
        cotangent = torch.randn_like(composite(*args))
        function = load(op)
        found = in_turn(
            {
                "limit": traffic(limit(args, [cotangent]), limit([cotangent, *(args[k] for k in read)], args[:1])),
                "ours": both_ways(function, args, cotangent),
                "compiled": both_ways(torch.compile(composite), args, cotangent),
                "composite": both_ways(composite, args, cotangent),
            },
            rounds,
        )
        ratios = (f"{found[name] / found['limit']:.2f}" for name in ("ours", "compiled", "composite"))
        print(f"| {op} | {list(shapes[0])} | {found['limit']:.2f} | {' | '.join(ratios)} |", flush=True)


def along(load: Callable[[str], Callable[..., Tensor]], rounds: int) -> None:
    """Print the time of rows of few elements, about two million in all, beside torch's own and compiled ones."""
    print("| operation | shape | ours, ms | torch.compile | torch |\n| --- | --- | --- | --- | --- |")
    for op, native, others, reduced in ALONG:
        function = load(op)
        for columns in COLUMNS:
            rows = (1 << 21) // columns
            args = [torch.randn(rows, columns, requires_grad=True), *others(rows, columns)]
            cotangent = None if reduced else torch.randn(rows, columns)
            contenders = {"ours": function, "compiled": torch.compile(native, dynamic=False), "native": native}
            found = in_turn({name: both_ways(f, args, cotangent) for name, f in contenders.items()}, rounds)
            ratios = (f"{found[name] / found['ours']:.2f}" for name in ("compiled", "native"))
            print(f"| {op} | {[rows, columns]} | {found['ours']:.2f} | {' | '.join(ratios)} |", flush=True)


def filled(count: int, *, large: bool) -> Callable[[], None]:
    """New memory that is written once."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def run() -> None:
        made = torch.empty(count)
        if large:
            first = -(-made.data_ptr() // PAGE) * PAGE
            advise(first, (made.data_ptr() + 4 * count - first) // PAGE * PAGE, HUGE)
        made.fill_(1)

    return run


def labels(load: Callable[[str], Callable[..., Tensor]], rounds: int) -> None:
    """Print user and system times of each contender by itself."""
    ours, compiled = load("mean_label_cross_entropy"), torch.compile(F.cross_entropy)
    print("| rows | contender | user, ms | system, ms | over ours |\n| --- | --- | --- | --- | --- |")
    for count in (1024, 2048, 4096):
        args = [torch.randn(count, CLASSES, requires_grad=True), torch.randint(0, CLASSES, (count,))]
        contenders = {
            "symgrad": both_ways(ours, args, None),
            "F.cross_entropy": both_ways(F.cross_entropy, args, None),
            "torch.compile": both_ways(compiled, args, None),
            "memory alone": filled(count * CLASSES, large=False),
            "memory alone, large pages": filled(count * CLASSES, large=True),
        }
        found: dict[str, tuple[float, float]] = {}
        for name, run in contenders.items():
            timed(run, 3)
            each = [timed(run, 1) for _ in range(rounds)]
            found[name] = statistics.median(u for u, _ in each), statistics.median(s for _, s in each)
        for name, (user, system) in found.items():
            ratio = (user + system) / sum(found["symgrad"])
            print(f"| {count} | {name} | {user:.0f} | {system:.0f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("parts", "rows", "labels"))
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        (Path(temporary) / "labels.yaml").write_text(LABELS, encoding="utf-8")
        nightly = [str(FIELD / "nightly" / f"{op}.yaml") for op in ("packed_swiglu", "packed_geglu", "rotary_pairs")]
        rows = [str(FIELD.parent / f"{op}.yaml") for op in ("softmax_rows", "cross_entropy_smoothed", "layer_norm")]
        specs = [str(FIELD / "rotary_halves.yaml"), *nightly, *rows, f"{temporary}/labels.yaml"]
        main(["gen", *specs, "-o", f"{temporary}/made", "--quiet"], standalone_mode=False)
        sys.path.insert(0, temporary)
        {"parts": parts, "rows": along, "labels": labels}[given.what](
            lambda op: getattr(import_module(f"made.{op}"), op), given.rounds
        )
