"""Where a mistake is, how it is shown, and the exceptions that carry mistakes.

Imported by the command line before anything else: only light parts of the standard library here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Location", "Mistake", "SpecError", "SymgradError", "shown", "suggestion"]

_WINDOW = 120  # characters of a long source line that a message shows
_CLIP = 60  # characters of quoted user text in a message
_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
_COMPARED = 500  # names that a suggestion is chosen from
# Letters of other alphabets by the Latin ones that they look like.
_LATIN = str.maketrans("аеорсухіјѕԁАВЕКМНОРСТХΑΒΕΖΗΙΚΜΝΟΡΤΥΧο", "aeopcyxijsdABEKMHOPCTXABEZHIKMNOPTYXo")  # noqa: RUF001


class Location(NamedTuple):
    """A place in a file; line and column count from 1, columns in characters."""

    line: int
    column: int


class Mistake(NamedTuple):
    """One thing that is wrong with a spec.

    ``where`` is the dotted path of the key (``outputs.y``), empty for the file as a whole.
    ``source_line`` is the whole line at ``location``, empty where there is none.
    """

    path: str
    location: Location
    where: str
    message: str
    source_line: str = ""

    def render(self) -> str:
        """``path:line:column: where: message``, then the source line and a caret under the place."""
        place = f"{self.path}:{self.location.line}:{self.location.column}"
        head = ": ".join(part for part in (place, self.where, self.message) if part)
        if not self.source_line.strip():
            return head
        line, index = _window(self.source_line, self.location.column - 1)
        return f"{head}\n{_printable(line)}\n{_padding(line[:index])}^"


class SymgradError(Exception):
    """Base of all errors that symgrad raises on purpose."""


class SpecError(SymgradError):
    """A spec that cannot be used; ``mistakes`` holds everything that is wrong with it, by position."""

    mistakes: tuple[Mistake, ...]

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        """Sort ``mistakes`` by position and drop repeated ones."""
        self.mistakes = tuple(sorted(set(mistakes), key=lambda m: (m.path, m.location, m.where, m.message)))
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        return "\n".join(mistake.render() for mistake in self.mistakes)


def shown(text: str) -> str:
    """``text`` in quotes for a message: escaped where it is not printable, and never long."""
    return repr(text if len(text) <= _CLIP else text[: _CLIP - 1] + "…")


def suggestion(word: str, candidates: Iterable[str]) -> str:
    """``"; did you mean 'beta'?"`` for the candidate that ``word`` may be a slip of, or an empty text.

    A slip is a letter too many, too few, changed or exchanged with its neighbour; more of them in longer
    words, and none that changes the first letter: ``flip`` is another word than ``clip``.
    """
    from itertools import islice

    if len(word) > _CLIP:
        return ""
    known = list(islice(candidates, _COMPARED))
    twin = next((name for name in known if name.translate(_LATIN) == word.translate(_LATIN)), None)
    if twin is not None and not (twin.isascii() and word.isascii()):
        strange = next(char for char in twin + word if not char.isascii())
        return f"; {twin!r} looks like it, and one of them has {_character(strange)}"
    slips = 1 if len(word) < 6 else 2 if len(word) < 10 else 3
    near = [(_slips(word.lower(), name.lower(), slips), place) for place, name in enumerate(known)]
    fewest, place = min(near, default=(slips + 1, 0))
    return f"; did you mean {known[place]!r}?" if fewest <= slips else ""


def _slips(word: str, other: str, most: int) -> int:
    """The slips between two words, or more than ``most``."""
    if (word[:1] != other[:1] and word[:2] != other[1::-1]) or abs(len(word) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, char in enumerate(word, 1):
        before, last, row = row, before, [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (char != wanted)))
            if i > 1 and j > 1 and (char, word[i - 2]) == (other[j - 2], wanted):
                row[j] = min(row[j], last[j - 2] + 1)
        if min(row) > most:
            return most + 1
    return row[-1]


def _character(char: str) -> str:
    return f"U+{ord(char):04X} ({unicodedata.name(char, 'without a name').lower()})"


def _window(line: str, index: int) -> tuple[str, int]:
    """The part of a long line around ``index``, and where ``index`` lies in it."""
    index = min(index, len(line))
    if len(line) <= _WINDOW:
        return line, index
    start = max(0, min(index - _WINDOW // 2, len(line) - _WINDOW))
    end = start + _WINDOW
    before, after = "…" if start else "", "…" if end < len(line) else ""
    return before + line[start:end] + after, index - start + len(before)


def _printable(text: str) -> str:
    """``text`` with every character that a terminal would act upon replaced, one for one."""
    return "".join(char if char == "\t" or char.isprintable() else _UNPRINTABLE for char in text)


def _padding(text: str) -> str:
    """Blanks as wide as ``text`` on a terminal."""
    return "".join("\t" if char == "\t" else " " * _width(char) for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
