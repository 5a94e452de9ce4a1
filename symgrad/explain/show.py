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

from symgrad.explain.gain import gain
from symgrad.text import harmless

if TYPE_CHECKING:
    from symgrad.explain.derivation import AccuracyRow, Candidate, Derivation, PlanEntry, Step

__all__ = ["render", "show"]

_TELLING = 3  # candidates of a subject that are shown
_UNLIMITED = 100_000  # columns: nothing is wrapped or cut where no terminal limits the width


def show(derivation: Derivation, *, op: str, path: str, summary: str = "", whole: bool = False) -> None:
    """Print a derivation on stdout, with all candidates if `whole`; nothing is wrapped unless that is a terminal."""
    console = Console(highlight=False, markup=False, emoji=False)
    content = render(derivation, op=op, path=path, summary=summary, whole=whole)
    if console.is_terminal:
        console.print(content)
        return
    console.width = _UNLIMITED
    with console.capture() as captured:
        console.print(content)
    for line in captured.get().splitlines():  # tables and padding fill up their lines
        console.file.write(f"{line.rstrip()}\n")


def render(derivation: Derivation, *, op: str, path: str, summary: str = "", whole: bool = False) -> RenderableType:
    """A derivation for rich to print. The texts of the spec are never read as markup."""
    gained = gain(derivation)
    title = Text.assemble((op, "bold"), (f": {gained}" if gained else "", "green"))
    sections = (
        ("Formula", _equations(derivation.formula)),
        ("Derivatives", _equations(derivation.derivatives)),
        ("Rewriting", _steps(derivation.steps)),
        ("Candidates", _candidates(derivation.candidates, whole)),
        ("Kept for the backward pass", _plan(derivation.plan)),
        *((f"Kept for reverse mode in {name}", _plan(plan)) for name, plan in derivation.kept),
        ("Accuracy (worst error in ulp, beside autograd of the formula as written)", _accuracy(derivation.accuracy)),
        ("Proof", _proofs(derivation)),
        ("Notes", _notes(derivation.notes)),
    )
    parts: list[RenderableType] = [title, Text(f"from {harmless(path)}", style="dim")]
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


def _candidates(candidates: Sequence[Candidate], whole: bool) -> RenderableType | None:
    """The forms that were measured; unless `whole` the first, which is as written, the chosen one and the next."""
    if not candidates:
        return None
    table = _table(
        ("", "left"), ("of", "left"), ("float32", "right"), ("float64", "right"), ("non-finite", "right"),
        ("cost", "right"), ("form", "left"),
    )  # fmt: skip
    left = 0
    for _, group in groupby(candidates, key=lambda candidate: candidate.subject):
        own = list(group)
        kept = own if whole else _telling(own)
        left += len(own) - len(kept)
        for candidate in kept:
            figures = (candidate.ulp32, candidate.ulp64, candidate.nonfinite, candidate.cost)
            table.add_row(
                Text("*" if candidate.chosen else ""),
                _plain(candidate.subject),
                *map(_figure, figures),
                _plain(candidate.text),
                style="bold" if candidate.chosen else "",
            )
    return Group(table, Text("* chosen" + (f"; {left} more with -v" if left else "")))


def _telling(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Three at most."""
    telling = [candidates[0], *(c for c in candidates[1:] if c.chosen)]
    others = [c for c in candidates[1:] if not c.chosen][: _TELLING - len(telling)]
    return [c for c in candidates if c in telling or c in others]


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
        ("of", "left"), ("float32", "right"), ("autograd", "right"), ("float64", "right"),
        ("autograd", "right"), ("non-finite", "right"),
    )  # fmt: skip
    for row in rows:
        composite = Text("not finite") if row.composite_nonfinite else _figure(row.composite_ulp32)
        others = (row.ulp64, row.composite_ulp64, row.nonfinite)
        subject = f"{row.subject} (a local factor)" if row.local else row.subject
        table.add_row(_plain(subject), _figure(row.ulp32), composite, *map(_figure, others))
    return table


def _proofs(derivation: Derivation) -> RenderableType | None:
    """What was not proven, one by one; what was, as a number."""
    if not derivation.proofs:
        return None
    table = _table(("of", "left"), ("", "left"), header=False)
    for proof in derivation.proofs:
        table.add_row(_plain(proof.subject), _plain(proof.text))
    return Group(table, Text(f"by {derivation.prover}"))


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
