"""What costs seconds to make is made once in a run of tests: by the first process that wants it, for all."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

FOLDER = "SYMGRAD_TEST_RUN"  # names the folder of a run; without it nothing is shared
T = TypeVar("T")


def once(make: Callable[[str], T], text: str) -> T:
    """`make(text)`, which depends on nothing else; from the folder of this run where it lies there."""
    if FOLDER not in os.environ:
        return make(text)
    path = _path(make, text)
    with FileLock(f"{path}.lock"):
        _keep(make, text, path)
        found: T = pickle.loads(path.read_bytes())  # by who made it too: tests see the same, whoever came first
    return found


def prepare(make: Callable[[str], T], texts: Iterable[str]) -> None:
    """Make what `once` will be asked for, but for those that another process is about: it waits for none."""
    for text in texts if FOLDER in os.environ else ():
        path = _path(make, text)
        with suppress(Timeout), FileLock(f"{path}.lock", blocking=False):
            _keep(make, text, path)


def _path(make: Callable[[str], T], text: str) -> Path:
    name = sha256(f"{make.__module__}.{make.__qualname__}\n{text}".encode()).hexdigest()
    return Path(os.environ[FOLDER], name)


def _keep(make: Callable[[str], T], text: str, path: Path) -> None:
    if not path.exists():
        path.write_bytes(pickle.dumps(make(text)))
