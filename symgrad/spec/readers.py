"""Small readers that describe the keys of a spec.

Each one both reads a YAML node into a plain value and gives the JSON schema of what it reads, so
that the two cannot disagree. A reader returns None for a node that is wrong, after reporting it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from symgrad.errors import Location, Mistake, shown, suggestion
from symgrad.spec import yaml_source as yaml
from symgrad.spec.names import NAME_PATTERN, forbidden_names, normal

__all__ = [
    "Either",
    "Key",
    "ListOf",
    "Named",
    "NamesTo",
    "OneOf",
    "Path",
    "Plain",
    "Record",
    "Report",
    "Shorthand",
]

Path: TypeAlias = tuple[str | int, ...]
Schema: TypeAlias = dict[str, Any]

_SUGGESTIONS = 100  # after so many mistakes no more names are compared, which takes its time


class Report:
    """Collects mistakes, and finds their places in the file by the path of keys and list indices."""

    def __init__(self, document: yaml.Document) -> None:
        self._document = document
        self.mistakes: list[Mistake] = list(document.mistakes)

    def at_value(self, path: Path, message: str) -> None:
        """Report what a key holds."""
        self._add(self._locate(path, key=False), path, message)

    def at_key(self, path: Path, message: str) -> None:
        """Report the key itself."""
        self._add(self._locate(path, key=True), path, message)

    def location(self, path: Path, *, key: bool = True) -> Location:
        """Where a key stands, or what it holds."""
        return self._locate(path, key)

    def suggestion(self, word: str, candidates: Iterable[str]) -> str:
        """``"; did you mean ...?"``, or an empty text; always that once a spec is beyond all help."""
        return suggestion(word, candidates) if len(self.mistakes) < _SUGGESTIONS else ""

    def missing(self, path: Path, message: str) -> None:
        """Report a key that is not there, at the mapping that should have it."""
        self._add(self._locate(path[:-1], key=False), path, message)

    def has(self, path: Path) -> bool:
        """Whether there is such a key."""
        node: yaml.Node = self._document.root
        for step in path:
            if not (isinstance(node, yaml.Mapping) and step in node.entries):
                return False
            node = node.entries[str(step)].value
        return True

    def _locate(self, path: Path, key: bool) -> Location:
        node: yaml.Node = self._document.root
        location = node.location
        for step in path:
            if isinstance(node, yaml.Mapping) and isinstance(step, str):
                entry = node.entries[step]
                node, location = entry.value, entry.key.location if key else entry.location
            elif isinstance(node, yaml.Sequence) and isinstance(step, int):
                node = node.items[step]
                location = node.location
        return location

    def _add(self, location: Location, path: Path, message: str) -> None:
        self.mistakes.append(self._document.source.mistake(location, spelled(path), message))


def spelled(path: Path) -> str:
    """``test.values.clip[0]``; a key that is not fit for print is escaped and clipped."""
    parts = (f"[{step}]" if isinstance(step, int) else f".{_plain(step)}" for step in path)
    return "".join(parts).removeprefix(".")


def _plain(key: str) -> str:
    return key if len(key) < 60 and key.isprintable() else shown(key)[1:-1]


class Reader(Protocol):
    """Reads a node, and describes what it reads."""

    def read(self, node: yaml.Node, path: Path, report: Report) -> Any:
        """The value of ``node``, or None if that has been reported as wrong."""

    def schema(self) -> Schema:
        """The JSON schema of what is read."""


@dataclass(frozen=True)
class Plain:
    """A scalar. ``accept`` gives its value, or None if it is of another type."""

    expected: str
    described: Mapping[str, Any]
    accept: Callable[[yaml.Scalar], Any]

    def read(self, node: yaml.Node, path: Path, report: Report) -> Any:
        value = self.accept(node) if isinstance(node, yaml.Scalar) else None
        if value is None:
            _wrong(self.expected, node, path, report)
        return value

    def schema(self) -> Schema:
        return dict(self.described)


@dataclass(frozen=True)
class OneOf:
    """One of a few words; `synonyms` are other ways to write some, which are no advice."""

    words: tuple[str, ...]
    synonyms: tuple[tuple[bool, str], ...] = ()

    def read(self, node: yaml.Node, path: Path, report: Report) -> str | None:
        if isinstance(node, yaml.Scalar):
            for value, word in self.synonyms:
                if node.text == str(value).lower():
                    return word
            if node.text in self.words:
                return node.text
        expected = " or ".join(", ".join(self.words).rsplit(", ", 1))
        near = report.suggestion(node.text, self.words) if isinstance(node, yaml.Scalar) else ""
        _wrong(expected, node, path, report, near)
        return None

    def schema(self) -> Schema:
        return {"enum": [*self.words, *(value for value, _ in self.synonyms)]}


@dataclass(frozen=True)
class ListOf:
    """A list of at least ``least`` items. Wrong items make the whole list None."""

    item: Reader
    expected: str
    least: int = 0

    def read(self, node: yaml.Node, path: Path, report: Report) -> tuple[Any, ...] | None:
        if not isinstance(node, yaml.Sequence):
            _wrong(self.expected, node, path, report)
            return None
        if len(node.items) < self.least:
            found = "an empty list" if not node.items else f"a list of {len(node.items)}"
            report.at_value(path, f"must be {self.expected}, not {found}")
            return None
        items = [self.item.read(item, (*path, index), report) for index, item in enumerate(node.items)]
        return None if any(item is None for item in items) else tuple(items)

    def schema(self) -> Schema:
        least = {"minItems": self.least} if self.least else {}
        return {"type": "array", "items": self.item.schema(), **least}


class Named(NamedTuple):
    """What stands under a name: the name in Python's normal form, its path as written, its value."""

    name: str
    path: Path
    value: Any


@dataclass(frozen=True)
class NamesTo:
    """A mapping of names, which the user chooses, to values of one kind; read as a tuple of Named."""

    value: Reader
    expected: str

    def read(self, node: yaml.Node, path: Path, report: Report) -> tuple[Named, ...] | None:
        if _is_nothing(node):
            return ()
        if not isinstance(node, yaml.Mapping):
            _wrong(self.expected, node, path, report)
            return None
        return tuple(
            Named(normal(key), (*path, key), self.value.read(entry.value, (*path, key), report))
            for key, entry in node.entries.items()
        )

    def schema(self) -> Schema:
        return {
            "type": ["object", "null"],
            "propertyNames": {"not": {"enum": forbidden_names()}},
            "patternProperties": {NAME_PATTERN: self.value.schema()},
            "additionalProperties": False,
        }


class Key(NamedTuple):
    """One key of a record: what it holds, and what it means, for editors and documentation."""

    reader: Reader
    meaning: str
    required: bool = False


@dataclass(frozen=True)
class Record:
    """A mapping with given keys, read as a dict of those that are there and right.

    ``model`` is the dataclass whose defaults hold for absent keys; ``or_nothing``: the whole
    mapping may be left out.
    """

    keys: Mapping[str, Key]
    expected: str
    model: type | None = None
    or_nothing: bool = False

    def read(self, node: yaml.Node, path: Path, report: Report) -> dict[str, Any] | None:
        if self.or_nothing and _is_nothing(node):
            return {}
        if not isinstance(node, yaml.Mapping):
            _wrong(self.expected, node, path, report)
            return None
        for name, key in self.keys.items():
            if key.required and name not in node.entries:
                report.missing((*path, name), "is missing")
        values = {}
        for name, entry in node.entries.items():
            if name in self.keys:
                values[name] = self.keys[name].reader.read(entry.value, (*path, name), report)
            else:
                report.at_key((*path, name), f"unknown key {shown(name)}{report.suggestion(name, self.keys)}")
        return {name: value for name, value in values.items() if value is not None}

    def schema(self) -> Schema:
        defaults = _defaults(self.model)
        return {
            "type": ["object", "null"] if self.or_nothing else "object",
            "properties": {
                name: {**key.reader.schema(), "description": key.meaning, **defaults.get(name, {})}
                for name, key in self.keys.items()
            },
            "required": [name for name, key in self.keys.items() if key.required],
            "additionalProperties": False,
        }


@dataclass(frozen=True)
class Shorthand:
    """A record, or just the value of its most important key."""

    key: str
    record: Record

    def read(self, node: yaml.Node, path: Path, report: Report) -> dict[str, Any] | None:
        if isinstance(node, yaml.Mapping):
            return self.record.read(node, path, report)
        value = self.record.keys[self.key].reader.read(node, path, report)
        return None if value is None else {self.key: value}

    def schema(self) -> Schema:
        return {"anyOf": [self.record.keys[self.key].reader.schema(), self.record.schema()]}


@dataclass(frozen=True)
class Either:
    """A mapping, or anything else."""

    plain: Reader
    mapping: Reader

    def read(self, node: yaml.Node, path: Path, report: Report) -> Any:
        reader = self.mapping if isinstance(node, yaml.Mapping) else self.plain
        return reader.read(node, path, report)

    def schema(self) -> Schema:
        return {"anyOf": [self.plain.schema(), self.mapping.schema()]}


def _wrong(expected: str, node: yaml.Node, path: Path, report: Report, near: str = "") -> None:
    if not isinstance(node, yaml.Refused):
        report.at_value(path, f"must be {expected}, not {_described(node)}{near}")


def _described(node: yaml.Node) -> str:
    if not isinstance(node, yaml.Scalar):
        return "a list" if isinstance(node, yaml.Sequence) else "a mapping"
    if node.value is None:
        return "nothing"
    kind = "the text " if isinstance(node.value, str) else ""
    return f"{kind}{shown(node.text)}" if kind else shown(node.text)[1:-1]


def _is_nothing(node: yaml.Node) -> bool:
    return isinstance(node, yaml.Scalar) and node.value is None


def _defaults(model: type | None) -> Mapping[str, Schema]:
    """The ``default`` of each key whose dataclass field has a plain one."""
    fields: Iterable[Any] = dataclasses.fields(model) if model else ()
    plain = ((field.name, field.default) for field in fields if isinstance(field.default, (bool, str)))
    return {name: {"default": default} for name, default in plain if default != ""}
