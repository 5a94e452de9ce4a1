"""The Spec of whatever a user hands over: a path, a text, a mapping, a SymPy expression, a function."""

from __future__ import annotations

import inspect
import linecache
import os
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from symgrad.errors import SymgradError
from symgrad.spec import Spec, load_spec, parse_spec
from symgrad.ways.mapping import is_sympy, spec_of_formula, spec_of_mapping

__all__ = ["Source", "spec_of", "spec_of_function"]

Source: TypeAlias = "str | PathLike[str] | Mapping[str, Any] | Spec | Any"
"""A path, the text of a spec or of a formula, a mapping, a Spec, or a SymPy expression."""

_PATHS = (".yaml", ".yml", ".py")


def spec_of(source: Source) -> Spec:
    """The spec of `source`. Raises SpecError; TypeError for what is none of these."""
    if isinstance(source, Spec):
        return source
    if hasattr(source, "spec") and isinstance(source.spec, Spec):  # an operation
        return source.spec
    if isinstance(source, str):
        return _of_text(source)
    if isinstance(source, PathLike):
        return load_spec(source)
    if isinstance(source, Mapping):
        return spec_of_mapping(source if {"op", "tensors", "outputs"} & set(source) else {"outputs": source})
    if is_sympy(source):
        return spec_of_formula(source)
    told = "a spec is a path, a YAML text, a formula, a mapping, a SymPy expression or a Spec"
    raise TypeError(f"{told}, not {type(source).__name__}")


def _of_text(text: str) -> Spec:
    """A path, a formula or YAML: a path has the suffix of one, is there, or is a single word; a formula is one line."""
    if "\n" in text or text.startswith("{"):
        return parse_spec(text)
    is_path = text.endswith(_PATHS) or text.isidentifier() or os.path.exists(text)
    return load_spec(text) if is_path else spec_of_formula(text)


def spec_of_function(function: Callable[..., Any]) -> Spec:
    """The spec that the source of a Python function writes. Raises SpecError, and SymgradError without a source."""
    from symgrad.spec.python_source import read_function

    code = function.__code__
    if function.__name__ == "<lambda>":
        raise SymgradError("a lambda is no operation; write its formula as a text, or a function under @symgrad.op")
    if hasattr(function, "__wrapped__"):
        raise SymgradError(f"a decorator of {function.__qualname__} below @symgrad.op is not run; leave it out")
    if code.co_flags & inspect.CO_COROUTINE:
        raise SymgradError(f"{function.__qualname__} is asynchronous; an operation is a plain function")
    name = code.co_filename
    text = "".join(linecache.getlines(name, function.__globals__))
    if not text:
        try:
            text = Path(inspect.getsourcefile(function) or name).read_text(encoding="utf-8")
        except OSError:
            raise SymgradError(
                f"the source of {function.__qualname__} is not known, and an operation is read from it: "
                "define it in a file or in a notebook"
            ) from None
    path = name if os.path.exists(name) else f"<{Path(name).name.strip('<>')}>"
    read = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    outside = {name: origin for name, value in read.items() if (origin := _origin(value)) is not None}
    return read_function(text, path, function.__name__, code.co_firstlineno, outside)


def _origin(value: object) -> str | None:
    """The dotted name of a module or function, an empty text for an object of the user's own, None for a number."""
    if isinstance(value, ModuleType):
        return value.__name__
    if not callable(value):
        return None
    module: str = getattr(value, "__module__", None) or "torch"
    name: str = getattr(value, "__name__", "")
    if module.startswith("torch"):  # or a part of it that has no name: torch._C._special.special_erfcx
        return f"torch.{name.removeprefix('special_').removeprefix('linalg_')}"
    return "" if module == "__main__" else f"{module}.{name}"
