"""Nodes of Python's syntax as nodes of the tree that YAML becomes, each with its place in the file."""

from __future__ import annotations

import ast
import io
import operator
import tokenize
from collections.abc import Callable
from collections.abc import Mapping as Mapping_
from dataclasses import dataclass, field
from functools import cached_property

from symgrad.errors import Location, Mistake
from symgrad.spec.yaml_source import Entry, Mapping, Node, Scalar, SourceText
from symgrad.spec.yaml_source import Sequence as List

__all__ = ["Exact", "NotLiteral", "PythonNodes"]


class NotLiteral(Exception):
    """An annotation, a default or a key that reading alone cannot understand."""

    def __init__(self, node: ast.AST, message: str) -> None:
        super().__init__(message)
        self.node = node


@dataclass(frozen=True)
class Exact(Scalar):
    """A scalar whose text stands in the file as it is, but for comments and `renamed` names, from `first` on.

    Of each of those: where it starts in the file, its length there, and that of the name in the text.
    """

    first: int = field(default=0, compare=False)
    renamed: tuple[tuple[int, int, int], ...] = field(default=(), compare=False)

    @cached_property
    def _places(self) -> list[int]:
        places: list[int] = []
        place = self.first
        for start, length, own in self.renamed:
            places += range(place, start)
            places += [start] * own
            place = start + length
        places += range(place, place + len(self.text) + 1 - len(places))
        return [min(place, self.end) for place in places]


class PythonNodes:
    """Makes nodes of the tree, and notes mistakes at their places."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._mistakes: list[Mistake] = []
        self._starts = [0]
        for line in source.text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def _index(self, line: int, column: int) -> int:
        """The place in the text of what Python counts in bytes of a line."""
        start = self._starts[line - 1]
        text = self._source.text[start : self._starts[line] if line < len(self._starts) else None]
        return start + (column if text.isascii() else len(text.encode()[:column].decode("utf-8", "replace")))

    def _span(self, node: ast.AST) -> tuple[int, int]:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        start = self._index(line, column)
        last, end = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
        return start, start if last is None or end is None else self._index(last, end)

    def _location(self, node: ast.AST) -> Location:
        return self._source.location(self._span(node)[0])

    def _fault(self, node: ast.AST, where: str, message: str) -> None:
        self._mistakes.append(self._source.mistake(self._location(node), where, message))

    def _exact(self, text: str, node: ast.AST, style: str = "", skip: int = 0) -> Scalar:
        start, end = self._span(node)
        return Exact(text, style, self._source, start, end, start + skip)

    def _word(self, text: str, node: ast.AST) -> Scalar:
        """A text that the source does not spell, which stands for a node."""
        return self._exact(text, node)

    def _formula(self, node: ast.expr, part: int | None = None, function: str = "") -> Scalar:
        """The source of an expression, with blanks in place of comments and of what continues a line, and with the
        names that its nodes have by now.

        With ``part``, one of its results; with ``function``, what that makes of it.
        """
        start, end = self._span(node)
        source = _without_comments(self._source.text[start:end])
        names = sorted((*self._span(n), n.id) for n in ast.walk(node) if isinstance(n, ast.Name))
        renamed = [(a, b, name) for a, b, name in names if source[a - start : b - start] != name]
        pieces: list[str] = []
        place = start
        for first, last, name in renamed:
            pieces += [source[place - start : first - start], name]
            place = last
        text = "".join([*pieces, source[place - start :]]) + ("" if part is None else f"[{part}]")
        places = [(a, b - a, len(n)) for a, b, n in renamed]
        if function:
            text, places = f"{function}({text})", [(start, 0, len(function) + 1), *places]
        return Exact(text, "", self._source, start, end, start, tuple(places))

    def _entry(self, key: str, at: ast.AST, value: Node) -> dict[str, Entry]:
        return {key: Entry(self._word(key, at), value)}

    def _mapping(self, at: ast.AST, entries: dict[str, Entry]) -> Mapping:
        return Mapping(entries, self._location(at))

    def _nothing(self, at: ast.AST) -> Scalar:
        start, _ = self._span(at)
        return Exact("", "", self._source, start, start, start)

    def _literal(self, node: ast.expr) -> Node:
        """A literal of Python as a node of YAML. Raises NotLiteral."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self._exact(node.value, node, '"', 1)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return self._word("true" if node.value else "false", node)
        if isinstance(node, ast.Constant) and node.value is None:
            return self._nothing(node)
        if isinstance(node, ast.Constant) and node.value is Ellipsis:
            return self._word("...", node)
        number = _calculated(node)
        if number is not None:
            return self._word(repr(number), node)
        if isinstance(node, ast.List | ast.Tuple):
            return List(tuple(map(self._literal, node.elts)), self._location(node))
        if isinstance(node, ast.Dict):
            entries: dict[str, Entry] = {}
            for key, value in zip(node.keys, node.values, strict=True):
                if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                    raise NotLiteral(key or value, "a key is a text in quotes")
                entries[key.value] = Entry(self._exact(key.value, key, '"', 1), self._literal(value))
            return Mapping(entries, self._location(node))
        raise NotLiteral(node, "must be a literal, because nothing here is run: a number, a text, True, a list, {...}")

    def _literal_or_fault(self, node: ast.expr, where: str) -> Node | None:
        try:
            return self._literal(node)
        except NotLiteral as error:
            self._fault(error.node, where, str(error))
            return None


def _calculated(node: ast.expr) -> int | float | None:
    """What a number, or numbers with signs, ``+ - * /`` between them, are worth in Python; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int | float) and not isinstance(node.value, bool) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = _calculated(node.operand)
        return None if operand is None else -operand
    if not isinstance(node, ast.BinOp) or type(node.op) not in _ARITHMETIC:
        return None
    left, right = _calculated(node.left), _calculated(node.right)
    if left is None or right is None:
        return None
    try:
        return _ARITHMETIC[type(node.op)](left, right)
    except ArithmeticError:
        return None


_ARITHMETIC: Mapping_[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def _without_comments(text: str) -> str:
    """A piece of source of the same length, with blanks in place of comments and backslashes at ends of lines."""
    pieces = list(text)
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    try:
        for token in tokenize.generate_tokens(io.StringIO(f"({text}\n)").readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                start = starts[row - 1] + column - (row == 1)
                pieces[start : start + len(token.string)] = " " * len(token.string)
    except (tokenize.TokenError, SyntaxError):
        return text
    for end in starts[1:-1]:
        for place in (end - 2, end - 3):
            if place >= 0 and pieces[place] == "\\":
                pieces[place] = " "
    return "".join(pieces)
