"""Programs: statements as data, each of which knows the names that it reads and writes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeAlias

from symgrad.lower.code import Code, code, constant, name, names_in, starred, tuple_of

__all__ = [
    "Assign",
    "Augment",
    "Condition",
    "Declare",
    "Do",
    "For",
    "If",
    "Program",
    "Raise",
    "Return",
    "Statement",
    "Target",
    "With",
    "given",
    "missing",
    "reads",
    "returned",
    "unpacking",
    "wanted",
]


@dataclass(frozen=True)
class Condition:
    """What is asked of a local name: is its value true (`wanted`), is it not None (`given`), or None (`missing`)?"""

    name: str
    kind: str = "wanted"

    @property
    def code(self) -> Code:
        """The condition as an expression."""
        return code(_KINDS[self.kind], self.name)


_KINDS = {"wanted": "{0}", "given": "{0} is not None", "missing": "{0} is None"}


def wanted(name: str) -> Condition:
    """That a gradient is wanted."""
    return Condition(name)


def given(name: str) -> Condition:
    """That something is not None."""
    return Condition(name, "given")


def missing(name: str) -> Condition:
    """That something is None."""
    return Condition(name, "missing")


@dataclass(frozen=True, eq=False)
class Statement:
    """One statement; equal to another that is written alike."""

    @cached_property
    def reads(self) -> frozenset[str]:
        """The names that it reads, and those that the statements inside of it do."""
        return frozenset[str]().union(*map(_read, _parts(self)))

    @cached_property
    def writes(self) -> frozenset[str]:
        """The names that it gives values to."""
        inner = (s for part in _parts(self) if isinstance(part, tuple) for s in part if isinstance(s, Statement))
        return frozenset[str]().union(*(s.writes for s in inner))

    @property
    def leaves(self) -> bool:
        """Whether nothing after it is reached."""
        return False

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return (type(self).__name__, *map(_key, _parts(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statement) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


Program: TypeAlias = "tuple[Statement, ...]"
Target: TypeAlias = "str | tuple[str, ...] | Code"
"""What is assigned to: a local name, several that a value is unpacked to, or a place such as an attribute."""


@dataclass(frozen=True, eq=False)
class Assign(Statement):
    """`target = value`; several targets get one value each."""

    target: Target
    value: Code
    more: tuple[str, ...] = ()

    @cached_property
    def writes(self) -> frozenset[str]:
        own = (self.target,) if isinstance(self.target, str) else self.target
        return frozenset((*own, *self.more)) if isinstance(own, tuple) else frozenset(self.more)


@dataclass(frozen=True, eq=False)
class Declare(Statement):
    """Names of one kind with their values, in one statement of C++."""

    kind: str
    values: tuple[tuple[str, Code], ...]

    @cached_property
    def reads(self) -> frozenset[str]:
        return names_in(*(value for _, value in self.values))

    @cached_property
    def writes(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.values)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return ("Declare", self.kind, *((name, ast.dump(value)) for name, value in self.values))


@dataclass(frozen=True, eq=False)
class Augment(Statement):
    """`target += value`."""

    target: str
    value: Code

    @cached_property
    def reads(self) -> frozenset[str]:
        return names_in(self.value) | {self.target}

    @cached_property
    def writes(self) -> frozenset[str]:
        return frozenset({self.target})


@dataclass(frozen=True, eq=False)
class Do(Statement):
    """An expression for its effect."""

    value: Code


@dataclass(frozen=True, eq=False)
class Return(Statement):
    """`return value`; a tuple stands without brackets."""

    value: Code

    @property
    def leaves(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Raise(Statement):
    """`raise value`."""

    value: Code

    @property
    def leaves(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class If(Statement):
    """`if`, `elif` where only a condition is in `otherwise`, and `else`; `note` is said of it in a comment."""

    test: Code
    then: Program
    otherwise: Program = ()
    note: str = ""


@dataclass(frozen=True, eq=False)
class For(Statement):
    """`for name in values`."""

    name: str
    values: Code
    body: Program

    @cached_property
    def writes(self) -> frozenset[str]:
        return frozenset({self.name}).union(*(s.writes for s in self.body))


@dataclass(frozen=True, eq=False)
class With(Statement):
    """`with context as name`, where it has a name."""

    context: Code
    body: Program
    name: str = ""

    @cached_property
    def writes(self) -> frozenset[str]:
        return frozenset[str]({self.name} if self.name else ()).union(*(s.writes for s in self.body))


def _parts(statement: Statement) -> Iterator[Any]:
    return (getattr(statement, field.name) for field in fields(statement))


def _read(part: Any) -> frozenset[str]:
    if isinstance(part, ast.AST):
        return names_in(part)
    return reads(p for p in part if isinstance(p, Statement)) if isinstance(part, tuple) else frozenset()


def _key(part: Any) -> object:
    return ast.dump(part) if isinstance(part, ast.AST) else part


def reads(program: Iterable[Statement]) -> frozenset[str]:
    """The names that some statements read."""
    return frozenset[str]().union(*(statement.reads for statement in program))


def returned(items: Sequence[Code | str | None]) -> Return:
    """The return of one value, or of several; many None at the end stand as one list."""
    trailing = len(items) - next((k + 1 for k in reversed(range(len(items))) if items[k] is not None), 0)
    if _MOST_NONE < trailing < len(items):
        absent = starred(code("[None] * {0}", trailing))
        return Return(tuple_of([*map(_item, items[: len(items) - trailing]), absent]))
    values = list(map(_item, items))
    return Return(values[0] if len(values) == 1 else tuple_of(values))


_MOST_NONE = 4


def _item(item: Code | str | None) -> Code:
    return constant(None) if item is None else name(item) if isinstance(item, str) else item


def unpacking(names: Sequence[str], value: Code, read: frozenset[str]) -> Assign:
    """Unpack the names that are `read`; `_` stands for the others, and `*_` for several of them at the end."""
    used = [n if n in read else "_" for n in names]
    while len(used) > 2 and used[-1] == "_" and used[-2] == "_":
        used.pop()
    if len(used) < len(names):
        used[-1] = "*_"
    return Assign(tuple(used), value)
