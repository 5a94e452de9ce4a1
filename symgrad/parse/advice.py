"""What users of torch and NumPy may write instead of names that the language does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher

BY_NAME = "dimensions meet by their names under 'shape'"

_FUNCTIONS = {
    **dict.fromkeys(("bmm", "dot", "inner", "mm", "mv"), "write a @ b"),
    **dict.fromkeys(("broadcast_to", "expand", "expand_as"), BY_NAME),
    "argsort": "write sort(x, dim=...).indices",
    "linear": "write x @ w.T + b",
    "normalize": "write x / norm(x, dim=..., keepdim=True)",
    "size": "the name of a dimension under 'shape' is its size",
    **dict.fromkeys(("linspace", "scan"), "formulas are of the tensors that are given"),
    "DiracDelta": "it has no value element by element; write its integral",
    "Integral": "write its closed form; SymPy's doit() finds it where there is one",
    "Derivative": "write the derivative itself; SymPy's doit() takes it",
    **dict.fromkeys(("airyai", "airy_ai"), "Airy functions are not in the language"),
    **dict.fromkeys(("re", "im", "conjugate"), "formulas are real"),
}
_KEYWORDS = {"axes": "dim", "axis": "dim", "ord": "p"}


def instead_of(function: str) -> str:
    """``"; write a @ b"`` for ``mm``, or an empty text."""
    return f"; {_FUNCTIONS[function]}" if function in _FUNCTIONS else ""


def keyword_for(word: str, parameters: Collection[str]) -> str:
    """``"; did you mean 'dim'?"`` for ``axis``, where there is that parameter, or an empty text."""
    known = _KEYWORDS.get(word)
    return f"; did you mean {known!r}?" if known in parameters else ""


def slip_of(word: str, names: Iterable[str]) -> str:
    """``"; did you mean 'sigmoid'?"`` for a slip of the pen: one or two letters of a longer word.

    Another word that only looks alike means something else, and is not suggested.
    """
    own = word.lower()
    for name in names:
        other = name.lower()
        matcher = SequenceMatcher(None, own, other)
        close = matcher.ratio() >= 0.8 or (len(own) == len(other) and sum(a != b for a, b in zip(own, other)) == 1)  # noqa: B905
        if own == other or (
            min(len(own), len(other)) > 2 and own[0] == other[0] and abs(len(own) - len(other)) <= 2 and close
        ):
            return f"; did you mean {name!r}?"
    return ""
