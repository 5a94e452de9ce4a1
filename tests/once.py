"""What costs seconds to make is made once in a run of tests: by the first process that wants it, for all."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

FOLDER = "SYMGRAD_TEST_RUN"  # names the folder of a run; without it nothing is shared
T = TypeVar("T")


def once(make: Callable[[str], T], text: str) -> T:
    """`make(text)`, which depends on nothing else; from the folder of this run where it lies there."""
    if FOLDER not in os.environ:
        return make(text)
    name = sha256(f"{make.__module__}.{make.__qualname__}\n{text}".encode()).hexdigest()
    path = Path(os.environ[FOLDER], name)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            path.write_bytes(pickle.dumps(make(text)))
        found: T = pickle.loads(path.read_bytes())  # by who made it too: tests see the same, whoever came first
    return found
