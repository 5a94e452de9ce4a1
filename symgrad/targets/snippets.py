"""Which helpers a generated file needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

__all__ = ["needed"]


def needed(helpers: Mapping[str, str], body: str, words: Callable[[str], Iterable[str]]) -> list[str]:
    """The texts of the helpers, by name, that a body names directly or through others, in the order of the table.

    `words` finds in a text whatever may be the name of a helper.
    """
    used: set[str] = set()
    pending = [body]
    while pending:
        for word in helpers.keys() & set(words(pending.pop())):
            if word not in used:
                used.add(word)
                pending.append(helpers[word])
    return [text for name, text in helpers.items() if name in used]
