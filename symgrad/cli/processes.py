"""Work on several things at once, in processes: imported where there are several."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

__all__ = ["in_processes"]

T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F")


def in_processes(
    items: Sequence[T], work: Callable[[T], R], jobs: int, died: Callable[[T], F]
) -> Generator[R | F, None, None]:
    """What ``work`` makes of each item, in order; ``died`` says what it is where the process ends before."""
    strangers = set(multiprocessing.active_children())
    with _pool(jobs) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for item, future in zip(items, futures, strict=True):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    yield _alone(work, item, died)
        except BaseException:  # interrupted, or nobody wants the rest: do not wait for it
            for child in set(multiprocessing.active_children()) - strangers:
                child.terminate()  # and the pool gives up what is left; it complains of futures that were cancelled
            raise


def _alone(work: Callable[[T], R], item: T, died: Callable[[T], F]) -> R | F:
    """A process died: with one of its own for each item that was left, the fault shows where it is."""
    with _pool(1) as pool:
        try:
            return pool.submit(work, item).result()
        except BrokenProcessPool:
            return died(item)


def _pool(jobs: int) -> ProcessPoolExecutor:
    # Forked processes have everything imported; elsewhere forking is not safe or does not exist.
    method = "fork" if sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(method)
    # Ctrl-C reaches every process: the workers end in silence, the command line reports it.
    return ProcessPoolExecutor(jobs, context, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL))
