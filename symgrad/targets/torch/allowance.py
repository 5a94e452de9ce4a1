"""By how much a result may miss what a generated test promises: the test asks it, and points are chosen by it."""

from __future__ import annotations

__all__ = ["allowed"]

_FEW = 4  # ulp, for the elementary functions of torch, which are not correctly rounded
_LARGE = 16  # ulp, from which a formula amplifies the errors of these functions


def allowed(promised: float) -> float:
    """The error in ulp that is allowed where one is promised that correctly rounded functions have."""
    return (2 if promised < _LARGE else 6) * promised + _FEW
