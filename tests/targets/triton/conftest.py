"""The two processes that passes in Triton need, one of each for all modules: starting one takes seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from processes import process


@pytest.fixture(scope="session")
def interpret() -> Iterator[Callable[..., Any]]:
    """Calls a function in the process that interprets passes over CPU tensors."""
    import interpreted  # needs Triton, and modules are skipped without it

    with process(interpreted.start, TRITON_INTERPRET="1") as call:
        yield call


@pytest.fixture(scope="session")
def without_device() -> Iterator[Callable[..., Any]]:
    """Calls a function in the process that compiles passes for devices that are not there."""
    import ptx

    with process(ptx.start) as call:
        yield call
