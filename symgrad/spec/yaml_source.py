"""YAML 1.2 text as a tree of nodes that know where they stand in the file.

Only the events of ruamel.yaml's scanner and parser are used. No tag is ever constructed: the
few scalar types of the YAML 1.2 core schema are resolved by the table below. What a spec has no
need for (anchors, aliases, tags, directives, several documents) is refused, and so is everything
that is large or deep beyond reason, so that no file takes long or exhausts the stack.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NoReturn, TypeAlias

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scanner import Scanner, ScannerError

from symgrad.errors import Location, Mistake, SpecError, shown
from symgrad.spec.yaml_places import LINE_BREAK, aligned

__all__ = [
    "MAX_BYTES", "Document", "Entry", "Mapping", "Node", "Refused", "Scalar", "Sequence", "SourceText",
    "decode", "read_yaml",
]  # fmt: skip

MAX_BYTES = 256 * 1024
_ADVICE = {  # what to do, by a part of what the scanner says
    "'\\t' that cannot start": "indent with spaces",
    "cannot start any token": "put the text in quotes",
    "mapping values are not allowed": "indent alike what belongs together, and put a text with ': ' in quotes",
}
MAX_LINE = 10_000  # characters; the scanner's time grows with the square of some tokens
MAX_DEPTH = 50
MAX_NODES = 3_000
_MAX_DIGITS = 400  # a number with more is beyond every float
_MAX_STRAY_CHARACTERS = 20  # reported, at most

# Control characters, lone surrogates, line separators, noncharacters, and the marks that reverse
# the direction of text on the screen. Tab and line breaks remain.
_STRAY = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


def _integer(text: str, base: int) -> int | float:
    return int(text, base) if len(text) <= _MAX_DIGITS else math.copysign(math.inf, -(text[0] == "-"))


# The YAML 1.2 core schema: what a plain scalar stands for; every other one is a text.
_CORE_SCHEMA: tuple[tuple[re.Pattern[str], Callable[[str], bool | int | float | None]], ...] = (
    (re.compile(r"null|Null|NULL|~|"), lambda text: None),
    (re.compile(r"true|True|TRUE"), lambda text: True),
    (re.compile(r"false|False|FALSE"), lambda text: False),
    (re.compile(r"[-+]?[0-9]+"), lambda text: _integer(text, 10)),
    (re.compile(r"0o[0-7]+"), lambda text: _integer(text, 8)),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda text: _integer(text, 16)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)"), lambda text: float(text.replace(".", ""))),
    (re.compile(r"\.(nan|NaN|NAN)"), lambda text: math.nan),
)


class SourceText:
    """The text of a file, by line and column."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self._starts = [0, *(match.end() for match in LINE_BREAK.finditer(text))]

    def location(self, index: int) -> Location:
        """Line and column of the character at ``index``."""
        line = bisect_right(self._starts, index)
        return Location(line, index - self._starts[line - 1] + 1)

    def lines(self) -> Iterator[str]:
        """All lines, without their line breaks."""
        return (self.line(number) for number in range(1, len(self._starts) + 1))

    def line(self, number: int) -> str:
        """The line with this number, without its line break; empty where there is none."""
        if not 1 <= number <= len(self._starts):
            return ""
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end].rstrip("\r\n")

    def mistake(self, location: Location, where: str, message: str) -> Mistake:
        """A mistake in this file, with its source line."""
        return Mistake(self.path, location, where, message, self.line(location.line))

    def __repr__(self) -> str:
        return f"SourceText({self.path!r})"


@dataclass(frozen=True)
class Scalar:
    """A text, number, true, false or nothing; ``text`` is how YAML reads it, before it has a type."""

    text: str
    style: str  # "", "'", '"', "|" or ">"
    source: SourceText = field(repr=False, compare=False)
    start: int = field(compare=False)
    end: int = field(compare=False)

    @property
    def location(self) -> Location:
        """Where the scalar starts: at its quote or block sign if it has one."""
        return self.source.location(self.start)

    @cached_property
    def value(self) -> bool | int | float | str | None:
        """The value in the YAML 1.2 core schema; an integer beyond every float is an infinity."""
        if self.style:
            return self.text
        return next((make(self.text) for form, make in _CORE_SCHEMA if form.fullmatch(self.text)), self.text)

    def locate(self, offset: int) -> Location:
        """Line and column in the file of ``text[offset]``; of the end for an offset behind the text."""
        return self.source.location(self._places[max(0, min(offset, len(self.text)))])

    @cached_property
    def _places(self) -> list[int]:
        raw = self.source.text[self.start : self.end]
        return [self.start + place for place in aligned(self.text, raw, self.style)]


@dataclass(frozen=True)
class Sequence:
    """A list of nodes."""

    items: tuple[Node, ...]
    location: Location


@dataclass(frozen=True)
class Entry:
    """A key of a mapping and its value."""

    key: Scalar
    value: Node

    @property
    def location(self) -> Location:
        """Where the value stands; at the key if the value is nothing at all."""
        empty = isinstance(self.value, Scalar) and self.value.start == self.value.end
        return self.key.location if empty else self.value.location


@dataclass(frozen=True)
class Mapping:
    """Entries by the text of their key, in the order of the file."""

    entries: dict[str, Entry]
    location: Location


@dataclass(frozen=True)
class Refused:
    """Stands where something was that has been reported already: no more is to be said about it."""

    location: Location


Node: TypeAlias = Scalar | Sequence | Mapping | Refused


@dataclass(frozen=True)
class Document:
    """One file: its text, its root, and what is wrong with it as YAML although it could be read."""

    source: SourceText
    root: Mapping
    mistakes: tuple[Mistake, ...]


def decode(data: bytes, path: str) -> str:
    """The text of a UTF-8 file. Raises SpecError for one that is too large or not UTF-8."""
    if len(data) > MAX_BYTES:
        raise SpecError([Mistake(path, Location(1, 1), "", f"larger than {MAX_BYTES // 1024} KiB")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        source = SourceText(data.decode("utf-8", "replace"), path)
        location = source.location(len(data[: error.start].decode("utf-8")))
        raise SpecError([source.mistake(location, "", "not UTF-8 text")]) from None


def read_yaml(text: str, path: str) -> Document:
    """Read YAML 1.2 whose root is a mapping. ``path`` is for the messages.

    Raises SpecError where the text is no YAML, or has or is something that no spec needs.
    """
    source = SourceText(text.removeprefix("\ufeff"), path)
    unreadable = tuple(islice(_unreadable(source), _MAX_STRAY_CHARACTERS))
    if unreadable:
        raise SpecError(unreadable)
    return _Composer(source).document()


def _unreadable(source: SourceText) -> Iterator[Mistake]:
    """What is wrong with the text before it is looked at as YAML."""
    if len(source.text) > MAX_BYTES:
        yield source.mistake(Location(1, 1), "", f"larger than {MAX_BYTES // 1024} KiB")
        return
    for number, line in enumerate(source.lines(), 1):
        if len(line) > MAX_LINE:
            yield source.mistake(Location(number, MAX_LINE), "", f"a line of more than {MAX_LINE} characters")
    for stray in _STRAY.finditer(source.text):
        message = f"the character U+{ord(stray.group()):04X} has no place in a spec"
        yield source.mistake(source.location(stray.start()), "", message)


class _BoundedScanner(Scanner):
    """ruamel's scanner, which stops at deep flow collections (it reads far ahead) and directives."""

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: Any) -> None:
        if self.flow_level >= MAX_DEPTH:
            self._refuse(f"nested deeper than {MAX_DEPTH} levels")
        super().fetch_flow_collection_start(TokenClass, to_push)

    def fetch_directive(self) -> None:
        self._refuse("directives ('%') are not allowed")

    def _refuse(self, problem: str) -> NoReturn:
        raise ScannerError(None, None, problem, self.reader.get_mark())


def _opened(text: str) -> int:
    """How many parentheses a text leaves open."""
    return text.count("(") - text.count(")")


class _Composer:
    """Builds the tree from the parser's events."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._mistakes: list[Mistake] = []
        self._nodes = 0
        self._last = 0  # index in the text of the last event
        yaml = YAML(typ="safe", pure=True)
        yaml.Scanner = _BoundedScanner
        self._events: Iterator[Any] = iter(yaml.parse(source.text))

    def document(self) -> Document:
        """The one document of the stream. Raises SpecError."""
        try:
            root = self._root()
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = error.problem or error.context or ""
            if error.context_mark and "end of stream" in problem:
                mark, problem = error.context_mark, "the quote that is opened here is never closed"
            advice = next((f"; {text}" for part, text in _ADVICE.items() if part in problem), "")
            self._stop(mark.index if mark else self._last, f"not valid YAML: {problem}{advice}")
        except YAMLError as error:
            self._stop(self._last, f"not valid YAML: {error}")
        except (ValueError, OverflowError):  # chr() of an escape such as "\UFFFFFFFF"
            self._stop(self._last, "not valid YAML: the text after this holds an escape that is no character")
        return Document(self._source, root, tuple(self._mistakes))

    def _root(self) -> Mapping:
        self._next()  # start of the stream
        if isinstance(self._next(), events.StreamEndEvent):
            self._stop(0, "the file is empty")
        root = self._node(self._next(), depth=1)
        self._next()  # end of the document
        after = self._next()
        if isinstance(after, events.DocumentStartEvent):
            self._report(after, "a second document; a spec is one document")
        if isinstance(root, Mapping):
            return root
        if not self._mistakes:
            message = "a spec is a mapping that starts with a line such as 'op: my_operation'"
            self._mistakes.append(self._source.mistake(root.location, "", message))
        raise SpecError(self._mistakes)

    def _next(self) -> Any:
        event = next(self._events)
        self._last = event.start_mark.index
        return event

    def _node(self, event: Any, depth: int) -> Node:
        self._nodes += 1
        if depth > MAX_DEPTH:
            self._stop(event.start_mark.index, f"nested deeper than {MAX_DEPTH} levels")
        if self._nodes > MAX_NODES:
            self._stop(event.start_mark.index, f"more than {MAX_NODES} keys and values")
        if event.anchor is not None:
            self._report(event, "anchors ('&') and aliases ('*') are not allowed")
        if isinstance(event, events.AliasEvent):
            return Refused(self._location(event))
        if event.ctag is not None:
            self._report(event, "tags ('!') are not allowed")
        if isinstance(event, events.SequenceStartEvent):
            return Sequence(tuple(self._items(depth)), self._location(event))
        if isinstance(event, events.MappingStartEvent):
            return Mapping(self._entries(depth, event.flow_style), self._location(event))
        return self._scalar(event)

    def _scalar(self, event: Any) -> Scalar | Refused:
        stray = _STRAY.search(event.value)  # an escape in double quotes can stand for one
        if stray:
            self._report(event, f"an escape for U+{ord(stray.group()):04X} has no place in a spec")
            return Refused(self._location(event))
        start, end = event.start_mark.index, event.end_mark.index
        return Scalar(event.value, event.style or "", self._source, start, end)

    def _items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := self._next(), events.SequenceEndEvent):
            yield self._node(event, depth + 1)

    def _entries(self, depth: int, flow: bool) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        last, opened = "", 0  # the key before, and the parentheses that its value leaves open
        while not isinstance(event := self._next(), events.MappingEndEvent):
            key = self._node(event, depth + 1)
            value = self._node(self._next(), depth + 1)
            text = value.text if isinstance(value, Scalar) and not value.style else None
            if not isinstance(key, Scalar):
                if not isinstance(key, Refused):
                    self._report(event, "a key is a text")
            elif flow and opened > 0 and text == "":
                self._torn(entries, last)
                opened += _opened(key.text)
            elif key.text in entries:
                first = entries[key.text].key.location.line
                self._report(event, f"the key {shown(key.text)} stands on line {first} already")
            else:
                entries[key.text] = Entry(key, value)
                last, opened = key.text, _opened(text or "")
        return entries

    def _torn(self, entries: dict[str, Entry], name: str) -> None:
        """Report, once, a formula without quotes that ends at its first comma."""
        entry = entries[name]
        if not isinstance(entry.value, Refused):
            entries[name] = Entry(entry.key, Refused(entry.location))
            message = "inside of { } a formula with a comma takes quotes"
            self._mistakes.append(self._source.mistake(entry.location, "", message))

    def _location(self, event: Any) -> Location:
        return self._source.location(event.start_mark.index)

    def _report(self, event: Any, message: str) -> None:
        self._mistakes.append(self._source.mistake(self._location(event), "", message))

    def _stop(self, index: int, message: str) -> NoReturn:
        location = self._source.location(min(index, len(self._source.text)))
        raise SpecError([*self._mistakes, self._source.mistake(location, "", message.partition("\n")[0])])
