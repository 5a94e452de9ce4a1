"""Processes for tests that need a state of their own; what runs in them are functions of modules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any


@contextmanager
def process(start: Callable[[], None], **environment: str) -> Iterator[Callable[..., Any]]:
    """A function that calls others in one more process, which has these variables and began with `start`."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=start) as pool:
            pool.submit(os.getpid).result()
            os.environ.clear()
            os.environ.update(before)
            yield lambda function, *args, **options: pool.submit(function, *args, **options).result()
    finally:
        os.environ.clear()
        os.environ.update(before)
