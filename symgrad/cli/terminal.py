"""What the command line prints, and where: results on stdout, problems on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from symgrad.text import harmless

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Terminal"]

T = TypeVar("T")


class Terminal:
    """Prints for one run of a command. ``verbosity`` is -1 (``-q``), 0 or 1 (``-v``).

    The texts of specs are never read as markup and never wrapped, and control characters in them
    do not reach the terminal.
    """

    def __init__(self, verbosity: int) -> None:
        self._verbosity = verbosity
        self._bar: Progress | None = None

    @property
    def verbose(self) -> bool:
        """Whether ``-v`` was given."""
        return self._verbosity > 0

    def detail(self, text: str) -> None:
        """Something for ``-v`` only."""
        if self._verbosity > 0:
            self._print(text, err=False)

    def result(self, text: str) -> None:
        """What was done; not with ``-q``."""
        if self._verbosity >= 0:
            self._print(text, err=False)

    def finding(self, text: str) -> None:
        """What a user has to know, even with ``-q``, although it is no failure of the command."""
        self._print(text, err=False)

    def remark(self, text: str) -> None:
        """Something to know that is no failure; not with ``-q``."""
        if self._verbosity >= 0:
            self._print(text, err=True, fg="yellow")

    def problem(self, text: str, traceback: str = "") -> None:
        """Something that failed, as it is; ``traceback`` only with ``-v``."""
        if self._verbosity > 0 and traceback:
            text = f"{text}\n{traceback.rstrip()}"
        self._print(text, err=True, fg="red")

    @contextmanager
    def progress(self, items: Iterable[T], names: Sequence[str]) -> Iterator[Iterator[T]]:
        """``items``, with a bar that names the one waited for, if there are several and somebody is watching."""
        if len(names) < 2 or self._verbosity < 0 or not sys.stderr.isatty():
            yield iter(items)
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import Progress

        # No thread refreshes the bar: processes may be forked while it is shown.
        bar = Progress(
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        task = bar.add_task("compiling", total=len(names))

        def counted() -> Iterator[T]:
            iterator = iter(items)
            for name in names:
                bar.update(task, description=escape(f"compiling {harmless(name)}"))
                bar.refresh()
                item = next(iterator)
                bar.advance(task)
                yield item

        self._bar = bar
        try:
            with bar:
                yield counted()
        finally:
            self._bar = None

    def _print(self, text: str, *, err: bool, fg: str | None = None) -> None:
        """Print ``text`` with its first line in a colour: a spec's own lines stay as they are."""
        head, separator, rest = harmless(text, keep="\n\t").partition("\n")
        with self._bar_hidden():
            plain = False if os.environ.get("NO_COLOR") else None  # None: colours on a terminal only
            click.echo(click.style(head, fg=fg) + separator + rest, err=err, color=plain)

    @contextmanager
    def _bar_hidden(self) -> Iterator[None]:
        bar = self._bar
        if bar is None:
            yield
            return
        bar.stop()
        yield
        bar.start()
