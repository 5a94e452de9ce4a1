"""How a generated file stands on disk."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

__all__ = ["FileState", "Status"]


class Status(Enum):
    """What a file on disk is, compared with what would be written now."""

    FRESH = "up to date"
    STALE = "stale"
    EDITED = "hand-edited"
    MISSING = "missing"
    LEFT = "left over"


@dataclass(frozen=True)
class FileState:
    """One generated file, as it stands on disk. ``reason`` explains a status that is not obvious."""

    path: Path
    status: Status
    reason: str = ""

    def __str__(self) -> str:
        parts = (self.path.as_posix(), self.status.value, self.reason)
        return ": ".join(part for part in parts if part)
