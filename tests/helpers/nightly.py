"""What every run tests of many cases of a kind, and what only the nightly one does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int, first: int = 0) -> list[Any]:
    """The cases as parameters: one in `every` from `first` on for every run, all for ``pytest -m nightly``."""

    def param(case: Any, marks: Any) -> Any:
        return pytest.param(*case, marks=marks) if isinstance(case, tuple) else pytest.param(case, marks=marks)

    return [param(case, () if k % every == first else pytest.mark.nightly) for k, case in enumerate(cases)]
