"""symgrad compiles a formula into a complete ``torch.autograd.Function`` module and its test.

``generate(spec)`` gives the texts, ``load(spec)`` the module itself, generated in memory. Both raise
``SpecError``, whose message shows every mistake of the spec at its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from symgrad.errors import SpecError, SymgradError
    from symgrad.notebook import Generated, generate, load

__version__ = "0.1.0"

__all__ = ["Generated", "SpecError", "SymgradError", "__version__", "generate", "load"]

# Imported at first use: `import symgrad` and `symgrad --help` cost nothing.
_HOMES = {
    "Generated": "symgrad.notebook",
    "SpecError": "symgrad.errors",
    "SymgradError": "symgrad.errors",
    "generate": "symgrad.notebook",
    "load": "symgrad.notebook",
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
