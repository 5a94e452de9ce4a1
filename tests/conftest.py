"""One option: `pytest --update` rewrites the golden files. Random examples are the same in every run."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from tempfile import TemporaryDirectory

# Before torch is imported: tests run side by side, and threads that wait for work would take it from each other. The
# process that hands out the tests never imports it, nor the compiler: both stand in fixtures.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import once
import pytest
from hypothesis import settings

# Expressions and modules live as long as the process: looking through them for garbage takes a tenth of the run.
gc.set_threshold(100_000, 50, 100)

settings.register_profile("same", derandomize=True, database=None, deadline=None)  # a busy machine is no failure
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the golden files of tests/golden")


def pytest_configure(config: pytest.Config) -> None:
    """Give the processes of this run a folder to share; those that are started find it in their environment."""
    # Else each process that a test starts compiles the package anew: a quarter of the time of such tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if once.FOLDER not in os.environ:
        folder = TemporaryDirectory(prefix="symgrad-tests-", ignore_cleanup_errors=True)
        os.environ[once.FOLDER] = folder.name
        for cache in ("SYMGRAD_CACHE", "TRITON_CACHE_DIR"):  # a pass is built once, and none for the user
            os.environ[cache] = os.path.join(folder.name, cache.lower())
        config.add_cleanup(folder.cleanup)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Random tensors are the same in every run, whatever ran before in this process."""
    from symgrad.testing.suite import seed

    seed(0)


@pytest.fixture(autouse=True, scope="session")
def _verified() -> Iterator[None]:
    """What the compiler makes of formulas is verified after every stage."""
    from symgrad.compiler.verify import verifying

    with verifying():
        yield


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten."""
    return bool(request.config.getoption("--update"))
