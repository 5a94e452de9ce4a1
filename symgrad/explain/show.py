"""Shows the derivation of an operation: what ``symgrad explain`` prints.

Rendering only: everything shown was decided, and measured, by the compiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from symgrad.text import harmless

if TYPE_CHECKING:
    from symgrad.explain.derivation import AccuracyRow, Candidate, Derivation, PlanEntry, Step

__all__ = ["render", "show"]

_UNLIMITED = 100_000  # columns: nothing is wrapped or cut where no terminal limits the width


def show(derivation: Derivation, *, op: str, path: str, summary: str = "") -> None:
    """Print a derivation on stdout; nothing is wrapped unless that is a terminal."""
    console = Console(highlight=False, markup=False, emoji=False)
    content = render(derivation, op=op, path=path, summary=summary)
    if console.is_terminal:
        console.print(content)
        return
    console.width = _UNLIMITED
    with console.capture() as captured:
        console.print(content)
    for line in captured.get().splitlines():  # tables and padding fill up their lines
        console.file.write(f"{line.rstrip()}\n")


def render(derivation: Derivation, *, op: str, path: str, summary: str = "") -> RenderableType:
    """A derivation for rich to print. The texts of the spec are never read as markup."""
    title = Text.assemble((op, "bold"), f"  ({harmless(path)})")
    sections = (
        ("Formula", _equations(derivation.formula)),
        ("Derivatives", _equations(derivation.derivatives)),
        ("Rewriting", _steps(derivation.steps)),
        ("Candidates", _candidates(derivation.candidates)),
        ("Kept for the backward pass", _plan(derivation.plan)),
        *((f"Kept for reverse mode in {name}", _plan(plan)) for name, plan in derivation.kept),
        ("Accuracy (worst error in ulp, beside the plain composite's)", _accuracy(derivation.accuracy)),
        ("Notes", _notes(derivation.notes)),
    )
    parts: list[RenderableType] = [title]
    if summary:
        parts.append(_plain(summary))
    for heading, content in sections:
        if content is not None:
            parts += [Text(), Text(heading, style="bold"), Padding(content, (0, 0, 0, 2), expand=False)]
    parts.append(Text())
    return Group(*parts)


def _equations(equations: Sequence[tuple[str, str]]) -> RenderableType | None:
    if not equations:
        return None
    table = _table(("name", "right"), ("", "left"), header=False)
    for name, text in equations:
        table.add_row(_plain(name), _plain(f"= {text}"))
    return table


def _steps(steps: Iterable[Step]) -> RenderableType | None:
    """Before and after stand one above the other: expressions are compared that way, and are long."""

    def lines() -> Iterator[Text]:
        for subject, group in groupby(steps, key=lambda step: step.subject):
            yield _plain(subject)
            for step in group:
                reason = f": {harmless(step.reason)}" if step.reason else ""
                yield Text.assemble("  ", (step.rule, "cyan"), reason)
                yield _plain(f"       {step.before}")
                yield _plain(f"    -> {step.after}")

    return _stack(lines())


def _candidates(candidates: Sequence[Candidate]) -> RenderableType | None:
    if not candidates:
        return None
    table = _table(
        ("", "left"), ("of", "left"), ("float32", "right"), ("float64", "right"), ("non-finite", "right"),
        ("cost", "right"), ("form", "left"),
    )  # fmt: skip
    for candidate in candidates:
        figures = (candidate.ulp32, candidate.ulp64, candidate.nonfinite, candidate.cost)
        table.add_row(
            Text("*" if candidate.chosen else ""),
            _plain(candidate.subject),
            *map(_figure, figures),
            _plain(candidate.text),
            style="bold" if candidate.chosen else "",
        )
    return Group(table, Text("* chosen"))


def _plan(plan: Sequence[PlanEntry]) -> RenderableType | None:
    if not plan:
        return None
    table = _table(("what", "left"), ("bytes per element", "right"), ("why", "left"))
    for entry in plan:
        table.add_row(_plain(entry.what), _figure(entry.bytes_per_element), _plain(entry.reason))
    return table


def _accuracy(rows: Sequence[AccuracyRow]) -> RenderableType | None:
    if not rows:
        return None
    table = _table(
        ("of", "left"), ("float32", "right"), ("composite", "right"), ("float64", "right"),
        ("composite", "right"), ("non-finite", "right"),
    )  # fmt: skip
    for row in rows:
        figures = (row.ulp32, row.composite_ulp32, row.ulp64, row.composite_ulp64, row.nonfinite)
        table.add_row(_plain(row.subject), *map(_figure, figures))
    return table


def _notes(notes: Iterable[str]) -> RenderableType | None:
    return _stack(_plain(f"- {note}") for note in notes)


def _plain(text: str) -> Text:
    """What may come from a spec: neither markup nor anything else that a terminal acts upon."""
    return Text(harmless(text, keep="\n"))


def _stack(lines: Iterable[Text]) -> RenderableType | None:
    content = list(lines)
    return Group(*content) if content else None


def _figure(number: float | None) -> Text:
    """Three digits are enough to compare; None is a figure that was not measured."""
    if number is None:
        return Text("-")
    if isinstance(number, int) or (number.is_integer() and abs(number) < 1e6):
        return Text(str(int(number)))
    return Text(f"{number:.3g}")


def _table(*columns: tuple[str, str], header: bool = True) -> Table:
    table = Table(box=None, show_header=header, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title, side in columns:
        table.add_column(title, justify="right" if side == "right" else "left", overflow="fold")
    return table
