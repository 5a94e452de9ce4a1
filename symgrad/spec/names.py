"""Which names a spec may use."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
import unicodedata

from symgrad.errors import shown

__all__ = ["CONSTANTS", "MAX_NAME", "NAME_PATTERN", "OP_PATTERN", "forbidden_names", "name_fault", "normal", "op_fault"]

CONSTANTS = frozenset({"pi", "E", "oo"})

# For editors; name_fault() is what decides.
NAME_PATTERN = "^[A-Za-z_\u0080-\U0010ffff][0-9A-Za-z_\u0080-\U0010ffff]*$"
OP_PATTERN = "^[a-z][a-z0-9]*(_[a-z0-9]+)*$"

MAX_NAME = 100  # characters
_MAX_OP = 60  # it is part of file names

# An op becomes a module, a function and (in capitals) classes; these are taken. A builtin that is
# the ordinary name of a mathematical function stays free, and the generated code goes without it.
_FREE_BUILTINS = frozenset({"abs", "divmod", "max", "min", "pow", "round", "sum"})
_TAKEN_BY: tuple[tuple[str, frozenset[str]], ...] = (
    ("a keyword of Python", frozenset(keyword.kwlist)),
    ("a constant of the language", CONSTANTS),
    ("a function or type of Python", frozenset(dir(builtins)) - _FREE_BUILTINS),
    ("a module of Python", frozenset(sys.stdlib_module_names)),
    (
        "a module that the files need",
        frozenset({"symgrad", "torch", "test", "numpy", "pytest", "conftest", "triton", "rt", "rtk"}),
    ),
    ("a class of torch, in capitals", frozenset({"tensor", "function", "module", "parameter"})),
    ("no file name on every system", frozenset({"con", "prn", "aux", "nul", "com1", "lpt1"})),
)


def normal(name: str) -> str:
    """The name as Python knows it: identifiers are compared in the normal form NFKC."""
    return unicodedata.normalize("NFKC", name) if len(name) <= MAX_NAME else name


def forbidden_names() -> list[str]:
    """Every identifier that is no name for a tensor, hyperparameter, intermediate or output."""
    return sorted({*keyword.kwlist, *CONSTANTS, "__debug__"})


def name_fault(name: str) -> str | None:
    """Why ``name`` cannot be declared, or None. ``name`` is in its normal form."""
    if len(name) > MAX_NAME:
        return f"a name has at most {MAX_NAME} characters"
    if not name.isidentifier():
        hint = "; inside of { } a formula with a comma takes quotes" if set(name) & set("()[]=") else ""
        return f"{shown(name)} is not a name (letters, digits and '_', no digit first){hint}"
    if keyword.iskeyword(name) or name == "__debug__":
        return f"{name!r} is a keyword of Python"
    if name in CONSTANTS:
        return f"{name!r} is a constant of the language"
    return None


def op_fault(op: str) -> str | None:
    """Why ``op`` cannot name an operation and its files, or None."""
    if len(op) > _MAX_OP:
        return f"the name of an operation has at most {_MAX_OP} characters"
    if not re.fullmatch(OP_PATTERN, op):
        return f"{shown(op)} is not snake_case (such as 'smooth_l1')"
    if op.startswith("test_"):
        return f"{op!r} looks like a test: generated tests are named so"
    return next((f"{op!r} is taken: it is {what}" for what, names in _TAKEN_BY if op in names), None)
