"""The command `prove`: what SymPy finds of the derivatives of specs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from symgrad.cli.commands import _jobs_option, _specs_argument, _terminal, _verbosity

if TYPE_CHECKING:
    from symgrad.cli.work import Failed
    from symgrad.symbolic.certify import Certificate

__all__ = ["prove"]


@click.command()
@_specs_argument
@_jobs_option
@_verbosity
def prove(specs: Sequence[Path], jobs: int | None) -> int:
    """Prove the values and derivatives of every SPEC.

    SymPy differentiates each formula as written; that the emitted form is equal is proven in a field of
    rational functions, else compared to 50 digits at many points. One line for each value, gradient and
    tangent; the exit status is 1 if one is refuted.
    """
    from symgrad.cli.work import Failed as Failure
    from symgrad.cli.work import find_specs

    terminal = _terminal()
    counts: Counter[str] = Counter()
    failed = 0
    for path, found in _certificates(find_specs(specs), jobs):
        if isinstance(found, Failure):
            terminal.problem(found.message, found.traceback)
            failed += 1
            continue
        for verdict in found.verdicts:
            counts[verdict.outcome] += 1
            line = f"{path}: {verdict.subject}: {verdict.text}"
            (terminal.problem if verdict.outcome == "refuted" else terminal.finding)(line)
    told = ", ".join(f"{number} {_WORDS[outcome]}" for outcome, number in counts.items())
    terminal.result(f"{counts.total()} claims: {told}" if told else "nothing to prove")
    return 1 if failed or counts["refuted"] else 0


_WORDS = {
    "proven": "proven",
    "partly": "proven in some regimes",
    "agrees": "agree to 50 digits",
    "approximates": "approximate",
    "refuted": "refuted",
    "unjudged": "not judged",
}


def _certificates(specs: Sequence[str | Failed], jobs: int | None) -> Iterator[tuple[str, Certificate | Failed]]:
    """The certificate of each spec, or why there is none, in order."""
    from symgrad.cli.work import _cores, _pool

    paths = [spec for spec in specs if isinstance(spec, str)]
    workers = min(jobs or _cores(), len(paths))
    if workers < 2:
        found: Iterator[Certificate | Failed] = map(_certify, paths)
        yield from _in_order(specs, found)
        return
    import symgrad.symbolic.certify  # noqa: F401  (once, before the processes are forked)

    with _pool(workers) as pool:
        yield from _in_order(specs, pool.map(_certify, paths))


def _in_order(
    specs: Sequence[str | Failed], found: Iterator[Certificate | Failed]
) -> Iterator[tuple[str, Certificate | Failed]]:
    for spec in specs:
        yield (spec, next(found)) if isinstance(spec, str) else (spec.path, spec)


def _certify(path: str) -> Certificate | Failed:
    from symgrad.cli.work import Failed as Failure
    from symgrad.cli.work import _crash
    from symgrad.errors import SpecError, SymgradError

    try:
        from symgrad.compiler.compile import compile_operation
        from symgrad.parse import parse_formulas
        from symgrad.spec import load_spec
        from symgrad.symbolic.certify import certificate

        return certificate(compile_operation(parse_formulas(load_spec(path))))
    except SpecError as error:
        return Failure(path, str(error))
    except SymgradError as error:
        return Failure(path, f"{path}: {error}")
    except Exception as error:
        return _crash(path, error)
