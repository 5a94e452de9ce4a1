"""JAX and MLX modules of specs against the torch modules, and against what the frameworks make of the formulas.

    python benchmarks/frameworks.py specs            # all, in both frameworks
    python benchmarks/frameworks.py --target jax --no-time specs/swish.yaml

For each spec and framework one line: lines of the module; the largest relative difference to the torch module in
float64 (MLX: float32) of value, gradient, tangent, and both nestings of second order; bytes that reverse mode keeps
beside those of the composite's, under jit and in a scan (JAX); time of forward and backward over the composite's. A
line ends with what misses a target of docs/jax.md or docs/mlx.md. The exit status is 1 if there is such a line.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.func import grad, jvp

from symgrad.bench.arrays import Row, measure
from symgrad.cli.work import find_specs
from symgrad.compiler.compile import compile_operation
from symgrad.compiler.operation import Operation
from symgrad.errors import SymgradError
from symgrad.parse import parse_formulas
from symgrad.spec import load_specs
from symgrad.targets.target import TARGETS
from symgrad.targets.torch import runtime
from symgrad.targets.torch.module import render_module
from symgrad.testing.arrays import Facts
from symgrad.testing.written import facts_of

CLOSE = {"jax": 1e-9, "mlx": 1e-3}
SLOW = 1.15
QUANTITIES = ("value", "gradient", "tangent", "forward over reverse", "reverse over forward")


@dataclass
class Line:
    """What was found of one spec in one framework."""

    op: str
    target: str
    lines: int = 0
    differences: Mapping[str, float] = field(default_factory=dict)
    row: Row | None = None
    refused: str = ""
    error: str = ""

    def faults(self) -> Iterator[str]:
        """What misses a target."""
        if self.error:
            yield self.error
        for name, value in self.differences.items():
            if not value <= CLOSE[self.target]:
                yield f"{name} differs by {value:.1e}"
        for where, kept in (("", self.row and self.row.kept), (" in a scan", self.row and self.row.scanned)):
            if kept and kept[0] > kept[1]:
                yield f"keeps {kept[0]} bytes{where}, the composite {kept[1]}"
        if self.row and self.target == "jax" and self.row.ratio > SLOW:
            yield f"takes {self.row.ratio:.2f} times as long"

    def __str__(self) -> str:
        if self.refused:
            return f"{self.op:28} {self.target}  refused: {self.refused}"
        worst = max(self.differences.values(), default=0.0)
        text = f"{self.op:28} {self.target} {self.lines:4} lines, {worst:.0e}"
        if self.row:
            text += f", {self.row.ratio:.2f} of the time"
            text += "".join(f", {a}/{b} bytes" for a, b in filter(None, (self.row.kept, self.row.scanned)))
        return "; ".join([text, *self.faults()])


def torch_module(operation: Operation) -> Callable[..., Any]:
    """The function of the torch module."""
    module = ModuleType(operation.program.spec.op)
    module.__package__ = runtime.__name__  # the runtime stands beside it
    exec(compile(render_module(operation).text, f"<{module.__name__}>", "exec"), module.__dict__)
    found: Callable[..., Any] = getattr(module, module.__name__)
    return found


def weights(shapes: Sequence[Any], seed: int) -> list[Any]:
    """Numbers of about 1 in these shapes."""
    generator = np.random.default_rng(seed)
    return [generator.uniform(0.5, 1.5, shape) for shape in shapes]


def dot(left: Sequence[Any], right: Sequence[Any]) -> Any:
    return sum((a * b).sum() for a, b in zip(left, right, strict=True))


def all_of(
    f: Any, own: Sequence[Any], tangents: Sequence[Any], cotangents: Sequence[Any], linear: bool, how: Any
) -> Any:
    """The quantities by name; `how` are the gradient and the tangent of a function, in the words of a framework."""
    gradient_of, tangent_of = how

    def loss(*values: Any) -> Any:
        return dot(f(*values), cotangents)

    found = {"value": f(*own), "gradient": gradient_of(loss)(*own)}
    if linear:
        found["tangent"] = [tangent_of(loss, own, tangents)]
        found["forward over reverse"] = tangent_of(gradient_of(loss), own, tangents)
        found["reverse over forward"] = gradient_of(lambda *v: tangent_of(loss, v, tangents))(*own)
    return found


def in_torch(facts: Facts, call: Any, settings: Any, given: Sequence[Any]) -> dict[str, list[Any]]:
    args = [None if a is None else torch.as_tensor(a) for a in given]
    own = tuple(args[k] for k in facts.wanted(args))
    f = facts.at(call, settings, args)
    cotangents = [torch.from_numpy(w) for w in weights([y.shape for y in f(*own)], 1)]
    tangents = tuple(torch.from_numpy(w) for w in weights([a.shape for a in own], 2))
    every = tuple(range(len(own)))
    how = (lambda g: grad(g, every), lambda g, at, t: jvp(g, tuple(at), tuple(t))[1])
    found = all_of(f, own, tangents, cotangents, facts.linear, how)
    return {name: [v.numpy(force=True) for v in values] for name, values in found.items()}


def in_jax(facts: Facts, call: Any, settings: Any, given: Sequence[Any]) -> dict[str, list[Any]]:
    import jax
    import jax.numpy as jnp

    from symgrad.testing.jax import _compiled

    with jax.enable_x64(True):
        args = [None if a is None else jnp.asarray(a) for a in given]
        own = [args[k] for k in facts.wanted(args)]
        f = facts.at(call, settings, args)
        cotangents = [jnp.asarray(w) for w in weights([y.shape for y in jax.eval_shape(f, *own)], 1)]
        tangents = [jnp.asarray(w) for w in weights([a.shape for a in own], 2)]
        every = tuple(range(len(own)))
        how = (lambda g: jax.grad(g, every), lambda g, at, t: jax.jvp(g, tuple(at), tuple(t))[1])
        found = _compiled(lambda *v: all_of(f, v, tangents, cotangents, facts.linear, how))(*own)
        return {name: [np.asarray(v) for v in values] for name, values in found.items()}


def in_mlx(facts: Facts, call: Any, settings: Any, given: Sequence[Any]) -> dict[str, list[Any]]:
    import mlx.core as mx

    def array(a: Any) -> Any:
        return mx.array(a.astype("float32") if a.dtype.kind == "f" else a)

    args = [None if a is None else array(a) for a in given]
    own = [args[k] for k in facts.wanted(args)]
    f = facts.at(call, settings, args)
    cotangents = [array(w) for w in weights([y.shape for y in f(*own)], 1)]
    tangents = [array(w) for w in weights([a.shape for a in own], 2)]
    every = tuple(range(len(own)))

    def gradient_of(g: Any) -> Any:
        def of(*values: Any) -> Any:
            found = mx.grad(g, every)(*values)
            return list(found) if isinstance(found, (tuple, list)) else [found]

        return of

    def tangent_of(g: Any, at: Any, t: Any) -> Any:
        found = mx.jvp(g, list(at), list(t))[1]
        return found if len(found) > 1 or (isinstance(g, type(of_several)) and g.__name__ == "of") else found[0]

    def of_several() -> None: ...

    both_modes = facts.linear and not getattr(facts, "only_reverse", False)
    found = all_of(f, own, tangents, cotangents, both_modes, (gradient_of, tangent_of))
    return {name: [np.array(v) for v in values] for name, values in found.items()}


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, float]:
    """The largest difference of each quantity, relative to its largest element."""
    found = {}
    for name in ours:
        worst = 0.0
        for a, b in zip(ours[name], theirs[name], strict=True):
            if a.shape != b.shape:
                worst = np.inf
            elif b.size:
                size = max(float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0)), 1e-3)
                same = (a == b) | (np.isnan(a) & np.isnan(b))
                worst = max(worst, float(np.max(np.where(same, 0.0, np.abs(a - b))) / size))
        found[name] = worst
    return found


def examine(line: Line, operation: Operation, elements: int, rounds: int) -> None:
    """Fill in the line of one operation in one framework."""
    target = line.target
    try:
        facts = facts_of(operation, target)()
    except SymgradError as error:
        line.refused = str(error).splitlines()[0].partition(": ")[2]
        return
    text = TARGETS[target].module(operation)
    line.lines = len(text.splitlines())
    settings, shapes = facts.cases[0]
    given = facts.sample(shapes)
    if facts.wanted(given) and any(facts.smooth):
        run = in_jax if target == "jax" else in_mlx
        own = run(facts, type(facts).call, settings, given)
        theirs = in_torch(facts, torch_module(operation), settings, given)
        line.differences = differences({n: v for n, v in own.items() if n in theirs}, theirs | {})
    if rounds:
        try:
            line.row = measure(operation, target, elements, rounds)
        except (TypeError, ValueError) as error:
            print(f"{line.op} has other shapes than it was measured with: {str(error).splitlines()[0]}")


def operations(paths: Sequence[Path], cache: Path | None) -> Iterator[Operation]:
    """The compiled operations of specs; from a folder where they are kept, if one is named."""
    for path in find_specs(paths):
        assert isinstance(path, str), path.message
        for spec in load_specs(path):
            kept = cache / f"{spec.op}.pkl" if cache else None
            if kept and kept.exists():
                yield pickle.loads(kept.read_bytes())
                continue
            operation = compile_operation(parse_formulas(spec.without_kernels()))
            if kept:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(pickle.dumps(operation))
            yield operation


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+", type=Path)
    parser.add_argument("--target", action="append", choices=list(TARGETS))
    parser.add_argument("--elements", type=int, default=1 << 16)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--no-time", action="store_true", help="neither time nor bytes")
    parser.add_argument("--cache", type=Path, help="folder in which compiled operations are kept between runs")
    asked = parser.parse_args()
    found: list[Line] = []
    for operation in operations(asked.specs, asked.cache):
        for target in asked.target or TARGETS:
            line = Line(operation.program.spec.op, target)
            try:
                examine(line, operation, asked.elements, 0 if asked.no_time else asked.rounds)
            except Exception as error:  # one of a hundred: the others go on
                line.error = f"{type(error).__name__}: {error}".splitlines()[0]
            found.append(line)
            print(line, flush=True)
    for target in asked.target or TARGETS:
        own = [line for line in found if line.target == target]
        made = [line for line in own if not line.refused]
        print(f"{target}: {len(made)} of {len(own)} specs, modules of {statistics.median(m.lines for m in made)} lines")
        ratios = [line.row.ratio for line in made if line.row]
        if ratios:
            print(f"{target}: {statistics.median(ratios):.2f} times the composite's time in the median")
        print(f"{target}: {sum(any(line.faults()) for line in made)} miss a target")
    return 1 if any(any(line.faults()) for line in found) else 0


if __name__ == "__main__":
    sys.exit(main())
