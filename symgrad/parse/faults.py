"""What is wrong with the text of a formula, by offset; the caller knows which file and line that is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from symgrad.errors import SymgradError

__all__ = ["MAX_FAULTS", "Fault", "FormulaError"]

MAX_FAULTS = 20  # reported for one formula


class Fault(NamedTuple):
    """A mistake at the character ``offset`` of a formula's text."""

    offset: int
    message: str


class FormulaError(SymgradError):
    """A text that is no formula; ``faults`` holds everything that is wrong with it, in order."""

    faults: tuple[Fault, ...]

    def __init__(self, faults: Iterable[Fault]) -> None:
        """Sort ``faults`` by offset, and drop repeated ones."""
        self.faults = tuple(sorted(set(faults)))
        super().__init__(self.faults)

    def __str__(self) -> str:
        return "\n".join(f"{fault.offset}: {fault.message}" for fault in self.faults)
