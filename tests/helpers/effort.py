"""How much work a test may make, counted in calls of Python functions: the same number on any machine, however busy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Fail as soon as the block has called Python functions more often than `calls` times.

    What grows with the square or the power of its input is stopped there, instead of being waited for.
    """
    made = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal made
        if event == "call":
            made += 1
            if made > calls:
                sys.setprofile(None)
                raise AssertionError(f"more than {calls:,} calls of Python functions")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)


def calls(action: Callable[[], object]) -> int:
    """How often an action calls Python functions."""
    made = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal made
        made += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return made
