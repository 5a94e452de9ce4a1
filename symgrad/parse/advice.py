"""What users of torch and NumPy may write instead of names that the language does not have."""

from __future__ import annotations

from collections.abc import Collection

BY_NAME = "dimensions meet by their names under 'shape'"

_FUNCTIONS = {
    **dict.fromkeys(("bmm", "dot", "inner", "mm", "mv"), "write a @ b"),
    **dict.fromkeys(("broadcast_to", "expand", "expand_as"), BY_NAME),
    "argsort": "write sort(x, dim=...).indices",
    "linear": "write x @ w.T + b",
    "normalize": "write x / norm(x, dim=..., keepdim=True)",
    "size": "the name of a dimension under 'shape' is its size",
}
_KEYWORDS = {"axes": "dim", "axis": "dim", "ord": "p"}


def instead_of(function: str) -> str:
    """``"; write a @ b"`` for ``mm``, or an empty text."""
    return f"; {_FUNCTIONS[function]}" if function in _FUNCTIONS else ""


def keyword_for(word: str, parameters: Collection[str]) -> str:
    """``"; did you mean 'dim'?"`` for ``axis``, where there is that parameter, or an empty text."""
    known = _KEYWORDS.get(word)
    return f"; did you mean {known!r}?" if known in parameters else ""
