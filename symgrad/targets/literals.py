"""Literals and tuples as Python source."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

__all__ = ["literal", "quoted", "tuple_of"]


def quoted(text: str) -> str:
    """A text in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def literal(value: Any) -> str:
    """A value; lists become tuples."""
    if isinstance(value, str):
        return quoted(value)
    return tuple_of([literal(v) for v in value]) if isinstance(value, list | tuple) else repr(value)


def tuple_of(items: Sequence[str]) -> str:
    """The tuple of some expressions: `(a, b)`, or `(a,)` for one."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
