"""Text that is shown: what comes from outside made fit for it, and numbers of things."""

from __future__ import annotations

__all__ = ["counted", "harmless"]


def counted(number: int, what: str) -> str:
    """How many there are of something: ``3 specs``, ``1 spec``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def harmless(text: str, keep: str = "") -> str:
    """``text`` with every character that is not printable (nor in ``keep``) replaced, one for one.

    What is left is a single line unless ``keep`` has line breaks, does nothing to a terminal, and
    can be encoded.
    """
    return "".join(char if char.isprintable() or char in keep else "\N{REPLACEMENT CHARACTER}" for char in text)
