"""Measures JAX and MLX modules against their composites: time of forward and backward, and what reverse mode keeps."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from symgrad.bench.arguments import drawn
from symgrad.compiler.operation import Operation
from symgrad.testing.arrays import Facts
from symgrad.testing.written import facts_of

__all__ = ["Row", "measure", "table"]

_TURN = 2e-3  # seconds that a turn takes at least, if a call is shorter


@dataclass(frozen=True)
class Row:
    """One operation in one framework, the module beside its composite.

    Attributes:
        seconds: of forward and backward in one compiled function (JAX) or evaluation (MLX); the least of all turns,
            since whatever else the machine does can only add to it.
        kept: bytes that reverse mode keeps under jit, those of the composite with the gradients that the spec gives;
            None for MLX, which evaluates lazily.
        scanned: the same for one step of a scan.
    """

    op: str
    target: str
    elements: int
    seconds: tuple[float, float]
    kept: tuple[int, int] | None
    scanned: tuple[int, int] | None

    @property
    def ratio(self) -> float:
        """The module's time over the composite's."""
        return self.seconds[0] / self.seconds[1]


def measure(operation: Operation, target: str, elements: int, rounds: int) -> Row | None:
    """Measure an operation in float32; None where nothing is differentiated.

    Raises SpecError where the target cannot have it, and ImportError where the framework is not installed.
    """
    facts = facts_of(operation, target)()
    spec = operation.program.spec
    arrays, values = drawn(spec, elements)
    settings = dict(zip((h.name for h in spec.hyperparameters), values, strict=True))
    given = [a.astype("int32") if a.dtype.kind == "i" else a for a in arrays]
    if not facts.wanted(given):
        return None
    both = (type(facts).call, type(facts).composite)
    largest = max(a.size for a in arrays)
    forms, kept, scanned = (_in_jax if target == "jax" else _in_mlx)(facts, both, settings, given)
    ours, theirs = _least(forms, rounds)
    return Row(spec.op, target, largest, (ours, theirs), kept, scanned)


_Measured = tuple[list[Callable[[], Any]], tuple[int, int] | None, tuple[int, int] | None]


def _in_jax(facts: Facts, both: Sequence[Any], settings: dict[str, Any], given: Sequence[Any]) -> _Measured:
    import jax
    import jax.numpy as jnp

    from symgrad.testing.residuals import beside_formula

    args = [jnp.asarray(a) for a in given]
    places = facts.wanted(args)

    def timed(function: Any) -> Callable[[], Any]:
        @jax.jit
        def step(*arguments: Any) -> Any:
            at = facts.at(function, settings, arguments)
            outputs, pull = jax.vjp(at, *(arguments[k] for k in places))
            return outputs, pull([jnp.ones_like(y) for y in outputs])

        ready: Any = jax.block_until_ready  # without types of its own
        return lambda: ready(step(*args))

    kept, scanned = beside_formula(facts, settings, args)
    return [timed(f) for f in both], kept, scanned


def _in_mlx(facts: Facts, both: Sequence[Any], settings: dict[str, Any], given: Sequence[Any]) -> _Measured:
    import mlx.core as mx

    args = [mx.array(a) for a in given]
    own = [args[k] for k in facts.wanted(args)]

    def timed(function: Any) -> Callable[[], Any]:
        def step() -> None:
            outputs = function(*own)
            mx.eval(*mx.vjp(function, own, [mx.ones_like(y) for y in outputs]))

        return step

    return [timed(facts.at(f, settings, args)) for f in both], None, None


def _least(forms: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """The least seconds of each form, all of them in turn."""
    calls = []
    for form in forms:
        form()
        calls.append(max(1, round(_TURN / max(_seconds(form, 1), 1e-6))))
    found: list[list[float]] = [[] for _ in forms]
    order = Random(0)
    for _ in range(rounds):
        for k in order.sample(range(len(forms)), len(forms)):
            found[k].append(_seconds(forms[k], calls[k]))
    return [min(own) for own in found]


def _seconds(form: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        form()
    return (time.perf_counter() - start) / calls


def table(rows: Sequence[Row]) -> list[str]:
    """A line for each row, and the median ratio of each framework."""
    lines = [f"{'op':28} {'in':4} {'elements':>9} {'ms':>9} {'composite':>9} {'ratio':>6}  bytes kept (of composite)"]
    for row in rows:
        bytes_ = "" if row.kept is None else f"{row.kept[0]} ({row.kept[1]})"
        bytes_ += "" if row.scanned is None else f", in a scan {row.scanned[0]} ({row.scanned[1]})"
        times = " ".join(f"{s * 1e3:9.3f}" for s in row.seconds)
        lines.append(f"{row.op:28} {row.target:4} {row.elements:9} {times} {row.ratio:6.2f}  {bytes_}".rstrip())
    for target in dict.fromkeys(row.target for row in rows):
        own = [row.ratio for row in rows if row.target == target]
        lines.append(f"{target}: {statistics.median(own):.2f} times the composite's time in the median of {len(own)}")
    return lines
