"""symgrad compiles a formula into a complete ``torch.autograd.Function`` module and its test.

``op`` makes an operation of a SymPy expression, a text, a file or a decorated Python function; ``generate(spec)`` gives
the texts of its files, ``load(spec)`` the module itself, generated in memory. All raise ``SpecError``, whose message
shows every mistake of the spec at its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from symgrad.errors import SpecError, SymgradError
    from symgrad.notebook import Generated, generate, load
    from symgrad.operation import Operation, log_prob, op
    from symgrad.ways.annotations import boolean, constant, hyperparameter, integer, tensor

__version__ = "0.1.0"

__all__ = [
    "Generated",
    "Operation",
    "SpecError",
    "SymgradError",
    "__version__",
    "boolean",
    "constant",
    "generate",
    "hyperparameter",
    "integer",
    "load",
    "log_prob",
    "op",
    "tensor",
]

# Imported at first use: `import symgrad` and `symgrad --help` cost nothing.
_HOMES = {
    "Generated": "symgrad.notebook",
    "SpecError": "symgrad.errors",
    "SymgradError": "symgrad.errors",
    "generate": "symgrad.notebook",
    "load": "symgrad.notebook",
    **dict.fromkeys(("Operation", "log_prob", "op"), "symgrad.operation"),
    **dict.fromkeys(("boolean", "constant", "hyperparameter", "integer", "tensor"), "symgrad.ways.annotations"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
