"""Text that comes from outside, made fit to be shown."""

from __future__ import annotations

__all__ = ["harmless"]


def harmless(text: str, keep: str = "") -> str:
    """``text`` with every character that is not printable (nor in ``keep``) replaced, one for one.

    What is left is a single line unless ``keep`` has line breaks, does nothing to a terminal, and
    can be encoded.
    """
    return "".join(char if char.isprintable() or char in keep else "\N{REPLACEMENT CHARACTER}" for char in text)
