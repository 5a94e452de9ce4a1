"""What users of torch and NumPy may write instead of names that the language does not have."""

from __future__ import annotations

from collections.abc import Collection

_FUNCTIONS = {
    **dict.fromkeys(("bmm", "dot", "inner", "mm", "mv"), "a @ b"),
    "argmax": "max(x, dim=...).indices",
    "argmin": "min(x, dim=...).indices",
    "argsort": "sort(x, dim=...).indices",
    "leaky_relu": "where(x > 0, x, slope * x)",
    "linear": "x @ w.T + b",
    "normalize": "x / norm(x, dim=..., keepdim=True)",
    "outer": 'einsum("i,j->ij", a, b)',
    "std": "sqrt(var(x, dim=...))",
}
_KEYWORDS = {"axes": "dim", "axis": "dim", "ord": "p"}


def instead_of(function: str) -> str:
    """``"; write a @ b"`` for ``mm``, or an empty text."""
    return f"; write {_FUNCTIONS[function]}" if function in _FUNCTIONS else ""


def keyword_for(word: str, parameters: Collection[str]) -> str:
    """``"; did you mean 'dim'?"`` for ``axis``, where there is that parameter, or an empty text."""
    known = _KEYWORDS.get(word)
    return f"; did you mean {known!r}?" if known in parameters else ""
