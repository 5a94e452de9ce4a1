"""Which checks of generated tests every run makes, and which only the nightly one or one on a GPU.

Those that compile cost as much as all others together. Every run makes them for one operation of each kind, the first
by name: a kind is a combination of features that modules are written differently for. Tests of the other operations
have the marker ``nightly``: ``pytest -m nightly`` makes them. A run of a few files has the first of those files. What
runs on a GPU has the marker ``cuda``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from symgrad.testing import Subject


def _kind(subject: Subject, check: str) -> tuple[Any, ...]:
    """What decides how the module of an operation is written, and for passes how many tensors they read."""
    return (
        len(subject.inputs) if check == "passes" else None,
        subject.pointwise,
        subject.broadcasts,
        len(subject.outputs) > 1,
        bool(subject.fixed),
        bool(subject.places),
        bool(subject.overridden),
        subject.linear,
        subject.double_backward,
        subject.inplace is not None,
        subject.module is not None,
        bool(subject.settings[0]),
        any(t.optional for t in subject.inputs),
        frozenset(t.dtype for t in subject.inputs),
        len(subject.residuals) if isinstance(subject.residuals, tuple) else 1,
    )


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the checks that compile, of all operations but the first of each kind, and those on a GPU."""
    first: dict[tuple[Any, ...], str] = {}
    for item in items:
        if getattr(getattr(item, "callspec", None), "params", {}).get("device") == "cuda":
            item.add_marker("cuda")
        holder = getattr(item, "cls", None)
        if holder is None or not hasattr(holder, "subject") or "generated" not in item.path.parts:
            continue
        from symgrad.testing import CHECKS

        check = CHECKS.get(getattr(item, "originalname", item.name).removeprefix("test_"))
        if check is None or not check.slow:
            continue
        if first.setdefault(_kind(holder.subject(), check.name), holder.__name__) != holder.__name__:
            item.add_marker("nightly")
