"""SymPy's work with a bound: an integral may be searched for as long as one likes.

The bound is the number of calls of Python functions, not time: the same formula has the same fate everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["bounded"]

T = TypeVar("T")

_MOST_CALLS = 4_000_000  # some ten seconds


class _Spent(BaseException):
    """Not an Exception, of which SymPy catches many."""


def bounded(work: Callable[[], T], otherwise: T, most: int = _MOST_CALLS) -> T:
    """What `work` gives, or `otherwise` where it takes too many calls."""
    before, calls = sys.gettrace(), 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > most:
            raise _Spent

    def unraisable(event: sys.UnraisableHookArgs) -> None:
        if event.exc_type is not _Spent:
            reported(event)
        else:  # raised in a destructor, after which Python goes on, and has forgotten who counts
            sys.settrace(count)

    reported, sys.unraisablehook = sys.unraisablehook, unraisable
    sys.settrace(count)
    try:
        return work()
    except _Spent:
        return otherwise
    finally:
        sys.settrace(before)
        sys.unraisablehook = reported
