"""A pytest plugin: the fixture ``symgrad_audit`` fails a test where a Function is not what its formula says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from symgrad.testing.review import Audit


@pytest.fixture
def symgrad_audit() -> Callable[..., Audit]:
    """A function that takes what symgrad.testing.audit does, and raises AssertionError with the report where there are
    errors."""

    def review(function: Any, **given: Any) -> Audit:
        from symgrad.testing.review import audit

        found = audit(function, **{"timed": False, **given})
        if not found.ok:
            raise AssertionError(str(found))
        return found

    return review
