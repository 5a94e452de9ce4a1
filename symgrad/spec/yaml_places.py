"""Where the characters of a scalar stand in its file, which YAML folds, indents and escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ruamel.yaml.scanner import Scanner

__all__ = ["LINE_BREAK", "aligned"]

LINE_BREAK = re.compile("\r\n|\r|\n")
_BLANK = " \t\r\n"
_PIECES = {
    "'": re.compile("''|.", re.DOTALL),
    '"': re.compile(r"\\(?:x.{2}|u.{4}|U.{8}|\r\n|.)|.", re.DOTALL),
}
_ANY_CHARACTER = re.compile(".", re.DOTALL)


def aligned(value: str, raw: str, style: str) -> list[int]:
    """For each character of a scalar's ``value``, and for its end, its index in the ``raw`` text.

    YAML folds, indents and strips blanks only: the other characters stand in the raw text in the
    same order, each once. So these are paired one to one, and blanks fill the places between.
    """
    solid = _solid(raw, style)
    places: list[int] = []
    free = 0  # the first index that belongs to no character yet
    ahead = next(solid, None)
    if ahead:
        free = min(ahead[0], free + (style in "'\"" and style != ""))
    for char in value:
        if char in _BLANK:
            limit = ahead[0] - 1 if ahead else len(raw)
            places.append(min(free, limit))
            free = min(free + 1, limit)
        elif ahead:
            places.append(ahead[0])
            free = ahead[1]
            ahead = next(solid, None)
        else:
            places.append(free)
    return [*places, free]


def _solid(raw: str, style: str) -> Iterator[tuple[int, int]]:
    """Start and end, in the raw text, of everything that stands for one character that is not blank."""
    start, end = _content(raw, style)
    for piece in _PIECES.get(style, _ANY_CHARACTER).finditer(raw, start, end):
        if _meaning(piece.group()) not in _BLANK:
            yield piece.span()


def _content(raw: str, style: str) -> tuple[int, int]:
    """The part of the raw text between the quotes, or after the line of the block sign."""
    if style in ("'", '"'):
        return 1, len(raw) - 1
    header = LINE_BREAK.search(raw) if style else None
    return (header.end() if header else 0), len(raw)


def _meaning(piece: str) -> str:
    """The character that one piece of raw text stands for; empty for an escaped line break."""
    if len(piece) == 1 or piece == "''":
        return piece[0]
    if piece[1] in Scanner.ESCAPE_CODES:
        return chr(int(piece[2:], 16))
    return str(Scanner.ESCAPE_REPLACEMENTS.get(piece[1], ""))
