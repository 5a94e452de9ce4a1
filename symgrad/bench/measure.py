"""Measuring: all forms in turn in one run, so that what else the machine does meets all of them.

Every round has another order: what a form leaves in the caches and to the allocator meets all others, too. A call that
is short is repeated when it is its turn, as in a loop of training, so that a turn is long for a clock.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from symgrad.bench.contenders import Contender
from symgrad.bench.limit import limit
from symgrad.testing.conduct import called, size

__all__ = ["Row", "measure"]

# Seconds that a turn takes at least, if a call is shorter; where a device works on its own, what it waits for at the
# start of a turn is to be little of it.
_TURN = {"cpu": 1e-3, "cuda": 2e-2}


@dataclass(frozen=True)
class Row:
    """What was measured of one form at one size. Times are medians in seconds; `spread` the quartiles of the total.

    `ratio` is that of the total to the memory limit.
    """

    op: str
    form: str
    elements: int
    dtype: str
    cold: float
    forward: float
    total: float
    spread: tuple[float, float]
    ratio: float
    saved: int
    peak: int
    device: str = "cpu"


class _Timed:
    """An action that is timed when it is its turn, and the seconds that it has taken, one figure for each turn."""

    def __init__(self, action: Callable[[], object], device: torch.device) -> None:
        self.action, self.now = action, partial(_now, device)
        self.calls = 1
        self.calls = max(1, round(_TURN[device.type] / max(self.seconds(), 1e-6)))
        self.figures: list[float] = []

    def seconds(self) -> float:
        """What one call takes. The clock is read around all calls of a turn: to read it takes time, too."""
        start = self.now()
        for _ in range(self.calls):
            self.action()
        return (self.now() - start) / self.calls

    def turn(self) -> None:
        self.figures.append(self.seconds())

    @property
    def median(self) -> float:
        return statistics.median(self.figures)

    @property
    def quartiles(self) -> tuple[float, float]:
        low, _, high = statistics.quantiles(self.figures, n=4, method="inclusive")
        return low, high


@dataclass(frozen=True)
class _Measured:
    """What one form takes: of its first call seconds, of a later one times and bytes."""

    form: str
    cold: float
    forward: _Timed
    total: _Timed
    saved: int
    peak: int


def measure(op: str, forms: Sequence[Contender], arguments: list[Any], rounds: int) -> list[Row]:
    """Measure forward and forward with backward, of every form and of the memory limit, at least twice."""
    leaves = [a for a in arguments if isinstance(a, Tensor) and a.requires_grad]
    first = max((a for a in arguments if isinstance(a, Tensor)), key=Tensor.numel)
    now = partial(_now, first.device)
    dtype = str(first.dtype).removeprefix("torch.")
    found: list[_Measured] = []
    cotangents: list[Tensor] = []
    for form in forms:
        start = now()
        outputs = _outputs(form.call(*arguments))
        if not cotangents:
            cotangents = [torch.randn_like(y) for y in outputs if y.requires_grad]
        _backward(outputs, leaves, cotangents)
        cold = now() - start
        del outputs
        step = partial(_step, form, arguments, leaves, cotangents)
        saved, peak = size(called(form.call, arguments)[0]), _peak(step, first.device)
        forward, total = _Timed(partial(form.call, *arguments), first.device), _Timed(step, first.device)
        found.append(_Measured(form.name, cold, forward, total, saved, peak))
    limits = _Timed(_moved(forms[0], arguments, leaves, cotangents), first.device)
    order = Random(0)
    for _ in range(rounds):
        limits.turn()
        for own in order.sample(found, len(found)):
            own.forward.turn()
            own.total.turn()
    return [
        *(
            Row(
                op,
                own.form,
                first.numel(),
                dtype,
                own.cold,
                own.forward.median,
                own.total.median,
                own.total.quartiles,
                own.total.median / limits.median,
                own.saved,
                own.peak,
                first.device.type,
            )
            for own in found
        ),
        Row(op, "limit", first.numel(), dtype, 0, 0, limits.median, limits.quartiles, 1, 0, 0, first.device.type),
    ]


def _outputs(value: Any) -> list[Tensor]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _backward(outputs: Sequence[Tensor], leaves: Sequence[Tensor], cotangents: Sequence[Tensor]) -> None:
    if leaves:  # an operation need not have gradients
        torch.autograd.grad([y for y in outputs if y.requires_grad], leaves, cotangents, allow_unused=True)


def _step(form: Contender, arguments: list[Any], leaves: Sequence[Tensor], cotangents: Sequence[Tensor]) -> None:
    _backward(_outputs(form.call(*arguments)), leaves, cotangents)


def _now(device: torch.device) -> float:
    """The time, when the device has done what was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _moved(
    form: Contender, arguments: list[Any], leaves: Sequence[Tensor], cotangents: Sequence[Tensor]
) -> Callable[[], None]:
    """The traffic of a perfect form: arguments in, outputs out; then arguments and cotangents in, gradients out."""
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    outputs = _outputs(form.call(*arguments))
    forward, backward = limit(tensors, outputs), limit([*tensors, *cotangents], leaves)

    def both() -> None:
        forward()
        backward()

    return both


def _peak(action: Callable[[], None], device: torch.device) -> int:
    """The most bytes that an action has allocated at once."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        action()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        action()
    assert seen.profiler is not None and seen.profiler.kineto_results is not None
    now = most = 0
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most
