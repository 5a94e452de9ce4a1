"""Lines of a function as data: what they read decides which arguments are unpacked, and what is imported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

__all__ = ["Line", "nested", "reads", "unpacked"]


@dataclass(frozen=True)
class Line:
    """One line of source.

    Attributes:
        text: the source, without indentation.
        reads: the names that it reads: local ones, and modules.
        depth: how deep it is indented.
        fixed: whether it opens a block or ends the function, so that it keeps its place among conditions.
    """

    text: str
    reads: frozenset[str] = frozenset()
    depth: int = 0
    fixed: bool = False

    def __str__(self) -> str:
        return "    " * self.depth + self.text


def nested(lines: Iterable[Line]) -> list[Line]:
    """The lines as the body of a block."""
    return [replace(line, depth=line.depth + 1) for line in lines]


def reads(lines: Iterable[Line]) -> frozenset[str]:
    """All names that some lines read."""
    return frozenset[str]().union(*(line.reads for line in lines))


def unpacked(names: Sequence[str], source: str, lines: Iterable[Line]) -> Line | None:
    """The line that takes `names` from a sequence, `_` for those that nobody reads; none where nobody reads any."""
    wanted = reads(lines)
    used = [n if n in wanted else "_" for n in names]
    if all(n == "_" for n in used):
        return None
    left = ", ".join(used) if len(used) > 1 else f"({used[0]},)"
    return Line(f"{left} = {source}", frozenset([source]))
