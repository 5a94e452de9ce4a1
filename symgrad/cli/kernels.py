"""What `symgrad build` and `symgrad bench` do. Each returns the exit status."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from symgrad.cli.terminal import Terminal
from symgrad.cli.work import Failed
from symgrad.errors import SpecError, SymgradError
from symgrad.importing import import_generated
from symgrad.resources import lacking
from symgrad.spec import Spec, load_specs

__all__ = ["bench", "bench_arrays", "build"]


def _lacks(terminal: Terminal, target: str, command: str) -> bool:
    """Whether a framework is not there; if so, says what to install."""
    told = lacking(target)
    if told:
        terminal.problem(f"{command} {told}")
    return bool(told)


def build(terminal: Terminal, modules: Sequence[Path], dtypes: Sequence[str]) -> int:
    """Compile the fused passes of generated modules into the cache."""
    if _lacks(terminal, "torch", "build"):
        return 1
    import torch

    failed = 0
    for path in modules:
        try:
            module = import_generated(path)
        except (ImportError, SyntaxError) as error:
            failed += 1
            terminal.problem(f"{path.as_posix()}: cannot be imported: {error}")
            continue
        kernels = getattr(module, "_kernels", None)
        if kernels is None:
            terminal.detail(f"{path.as_posix()}: no fused passes")
            continue
        if not kernels.on:
            failed += 1
            terminal.problem(f"{path.as_posix()}: kernels are turned off")
            continue
        widths = (False, True) if kernels.has_wide_vectors() else (False,)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            wanted = product(dtypes, range(kernels.parts), widths)
            jobs = [pool.submit(kernels.load, getattr(torch, dtype), part, narrow) for dtype, part, narrow in wanted]
        try:
            for job in jobs:
                job.result()
        except (OSError, RuntimeError) as error:
            failed += 1
            terminal.problem(f"{path.as_posix()}: {error}")
        else:
            terminal.result(f"{path.as_posix()}: {', '.join(dtypes)}")
    return 1 if failed else 0


def _prepare(terminal: Terminal, json: Path | None, plot: Path | None = None) -> None:
    """Note that the machine is busy. Raises SymgradError where a report cannot be written, before all is measured."""
    from symgrad.bench import report

    if busy := report.busy():
        terminal.remark(f"note: {busy}")
    if json is not None:
        report.check_target(json)
    if plot is not None:
        report.check_target(plot, plotted=True)


def _measured(terminal: Terminal, specs: Sequence[str | Failed]) -> Iterator[Spec]:
    """The specs in the files, each of which is said to be measured after it was used. Raises SymgradError for none."""
    for path in specs:
        if isinstance(path, Failed):
            raise SymgradError(path.message)
        for spec in load_specs(path):
            yield spec
            terminal.remark(f"{path}: {spec.op} measured")


def bench(
    terminal: Terminal,
    specs: Sequence[str | Failed],
    *,
    sizes: Sequence[int],
    dtypes: Sequence[str],
    devices: Sequence[str],
    threads: int | None,
    rounds: int,
    natives: Path | None,
    compiled: bool,
    json: Path | None,
    plot: Path | None,
) -> int:
    """Measure the forms of specs."""
    if _lacks(terminal, "torch", "bench"):
        return 1
    import torch

    from symgrad.bench import report
    from symgrad.bench.arguments import arguments, sized
    from symgrad.bench.contenders import contenders, own_of_torch
    from symgrad.bench.contenders import natives as read_natives
    from symgrad.bench.measure import Row, measure

    if threads:
        torch.set_num_threads(threads)
    rows: list[Row] = []
    try:
        _prepare(terminal, json, plot)
        if "cuda" in devices and not torch.cuda.is_available():
            raise SymgradError("there is no CUDA device")
        known = read_natives(natives)
        for spec in _measured(terminal, specs):
            with tempfile.TemporaryDirectory() as folder:
                own = known.get(spec.op) or own_of_torch(spec)
                forms = contenders(spec, Path(folder), own, compiled=compiled)
                taken = sized(spec, next(f.call for f in forms if f.name == "composite"))
                for device, dtype, size in product(devices, dtypes, sizes):
                    values = arguments(taken, size, getattr(torch, dtype), device)
                    rows += measure(spec.op, forms, values, rounds)
        terminal.finding(report.table(rows))
        for line in report.summary(rows):
            terminal.finding(line)
        for line in report.doubts(rows):
            terminal.remark(f"note: {line}")
        if json is not None:
            report.write_json(rows, json)
        if plot is not None:
            report.plot(rows, plot)
    except SymgradError as error:
        terminal.problem(str(error))
        return 1
    return 0


def bench_arrays(
    terminal: Terminal,
    specs: Sequence[str | Failed],
    targets: Sequence[str],
    *,
    sizes: Sequence[int],
    rounds: int,
    json: Path | None,
) -> int:
    """Measure the modules of specs for frameworks beside PyTorch."""
    if any(_lacks(terminal, name, f"bench --target {name}") for name in targets):
        return 1
    from symgrad.bench import arrays, report
    from symgrad.compiler.compile import compile_operation
    from symgrad.parse import parse_formulas

    rows: list[arrays.Row] = []
    refused = 0
    try:
        _prepare(terminal, json)
        for spec in _measured(terminal, specs):
            operation = compile_operation(parse_formulas(spec.without_kernels()))
            for target, size in product(targets, sizes):
                try:
                    row = arrays.measure(operation, target, size, rounds)
                except SpecError as error:
                    terminal.problem(str(error))
                    refused += 1
                    continue
                rows += [] if row is None else [row]
        for line in arrays.table(rows):
            terminal.finding(line)
        if json is not None:
            report.write_json(rows, json)
    except SymgradError as error:
        terminal.problem(str(error))
        return 1
    return 1 if refused else 0
