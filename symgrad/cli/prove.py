"""What the commands `prove` and `report` do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.cli.terminal import Terminal
from symgrad.cli.work import Failed, load_all, succeeded, work_all
from symgrad.errors import Mistake, SpecError
from symgrad.spec import Spec
from symgrad.text import counted

if TYPE_CHECKING:
    from symgrad.compiler.operation import Operation
    from symgrad.symbolic.prove import Verdict

__all__ = ["prove", "report"]

_WORDS = {
    "proven": "proven",
    "partly": "proven in some regimes",
    "agrees": "agree to 50 digits",
    "approximates": "approximate",
    "refuted": "refuted",
    "unjudged": "not judged",
}


@dataclass(frozen=True)
class _Done:
    path: str
    result: Any


def prove(terminal: Terminal, specs: Sequence[str | Failed], *, targets: tuple[str, ...] = (), jobs: int | None) -> int:
    """Print what SymPy finds of each value, gradient and tangent that is written for the ``targets``."""
    import symgrad.symbolic.certify  # noqa: F401  (once, before processes are forked)

    counts: Counter[str] = Counter()
    failed: list[str] = []
    for found in succeeded(terminal, work_all(load_all(specs, targets=targets), _verdicts, jobs), failed):
        for verdict in found.result:
            counts[verdict.outcome] += 1
            line = f"{found.path}: {verdict.subject}: {verdict.text}"
            (terminal.problem if verdict.outcome == "refuted" else terminal.finding)(line)
    told = ", ".join(f"{number} {_WORDS[outcome]}" for outcome, number in counts.items())
    terminal.result(f"{counted(counts.total(), 'claim')}: {told}" if told else "nothing to prove")
    return 1 if failed or counts["refuted"] else 0


def _verdicts(spec: Spec) -> _Done:
    from symgrad.compiler.compile import compile_operation
    from symgrad.parse import parse_formulas
    from symgrad.symbolic.certify import certificate

    operation = compile_operation(parse_formulas(spec))
    if mistakes := _mistakes(operation, [name for name in spec.options.targets if name != "torch"]):
        raise SpecError(mistakes)
    verdicts: tuple[Verdict, ...] = certificate(operation, gradients="torch" in spec.options.targets).verdicts
    return _Done(spec.place, verdicts)


def _mistakes(operation: Operation, targets: Sequence[str]) -> list[Mistake]:
    """What targets beside torch cannot have of an operation."""
    if not targets:
        return []
    from symgrad.targets.target import TARGETS, refusals

    return [mistake for name in targets for mistake in refusals(operation, TARGETS[name])]


def report(
    terminal: Terminal,
    specs: Sequence[str | Failed],
    out: Path,
    *,
    bench: Sequence[Mapping[str, Any]],
    proven: bool,
    jobs: int | None,
) -> int:
    """Write a page about each spec into a folder."""
    import symgrad.report  # noqa: F401  (once, before processes are forked)
    from symgrad import files

    failed: list[str] = []
    pages = work_all(load_all(specs), partial(_page, bench=bench, proven=proven), jobs)
    for found in succeeded(terminal, pages, failed):
        path = out / f"{found.path}.html"
        try:
            files.write({path: found.result})
        except files.FileError as error:
            terminal.problem(str(error))
            failed.append(found.path)
            continue
        terminal.result(f"wrote {path.as_posix()}")
    return 1 if failed else 0


def _page(spec: Spec, bench: Sequence[Mapping[str, Any]], proven: bool) -> _Done:
    from symgrad.report import html

    return _Done(spec.op, html(spec, prove=proven, bench=bench))
