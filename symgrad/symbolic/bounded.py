"""SymPy's work with a bound: an integral may be searched for as long as one likes.

The bound is the number of calls of Python functions, not time: the same formula has the same fate everywhere. It has
the same fate at any time, since what SymPy keeps for reuse is cleared before, what it imports is not counted, and the
generator by which it shuffles questions about signs starts from a seed.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["bounded"]

T = TypeVar("T")

_MOST_CALLS = 4_000_000  # some ten seconds


class _Spent(BaseException):
    """Not an Exception, of which SymPy catches many."""


def bounded(work: Callable[[], T], otherwise: T, most: int = _MOST_CALLS) -> T:
    """What `work` gives, or `otherwise` where it takes too many calls."""
    before, calls, imports = sys.gettrace(), 0, 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += not imports
        if calls > most:
            raise _Spent

    def importing(*arguments: Any, **named: Any) -> Any:
        nonlocal imports
        imports += 1
        try:
            return imported(*arguments, **named)
        finally:
            imports -= 1

    def unraisable(event: sys.UnraisableHookArgs) -> None:
        if event.exc_type is not _Spent:
            reported(event)
        else:  # raised in a destructor, after which Python goes on, and has forgotten who counts
            sys.settrace(count)

    with _afresh():
        reported, sys.unraisablehook = sys.unraisablehook, unraisable
        imported, builtins.__import__ = builtins.__import__, importing
        sys.settrace(count)
        try:
            return work()
        except _Spent:
            return otherwise
        finally:
            sys.settrace(before)
            sys.unraisablehook, builtins.__import__ = reported, imported


@contextmanager
def _afresh() -> Iterator[None]:
    """SymPy as in a new process, its generator of random numbers afterwards as before."""
    from sympy.core.cache import clear_cache
    from sympy.core.random import rng

    state = rng.getstate()
    clear_cache()
    rng.seed(0)
    try:
        yield
    finally:
        rng.setstate(state)
