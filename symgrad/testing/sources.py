"""What an audit is about: the function that a target names, and the spec of a formula in its arguments."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

__all__ = ["is_of_jax", "load_target", "must_accept", "source_of"]


def source_of(
    function: Any,
    spec: str | PathLike[str] | None,
    formula: str | None,
    reference: Any,
    settings: Mapping[str, Any],
) -> str | PathLike[str] | None:
    """The spec that an audit holds a function against: as it is given, or made of a formula; None with a reference.

    Raises ValueError unless one of the three is given.
    """
    if (spec is None) + (formula is None) + (reference is None) != 2:
        raise ValueError("an audit takes one of spec, formula and reference")
    return spec if formula is None else _spec_text(function, formula, settings)


def _spec_text(function: Any, formula: str, settings: Mapping[str, Any]) -> str:
    """A spec for a formula: its names are tensors unless they have values, in the order of the arguments."""
    try:
        nodes = list(ast.walk(ast.parse(formula, mode="eval")))
    except SyntaxError as error:
        raise ValueError(f"{formula!r} is no formula: {error.msg}") from None
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    found = dict.fromkeys(n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called)
    names = set(found) - {"pi", "E", "oo"}
    try:
        order = [p for p in inspect.signature(getattr(function, "forward", function)).parameters if p in names]
    except ValueError:  # a builtin has no signature: its arguments are taken as the formula names them
        order = [name for name in found if name in names]
    if set(order) < names:
        missing = ", ".join(sorted(names - set(order)))
        raise ValueError(f"{missing} of the formula is no argument of {getattr(function, '__name__', function)}")
    tensors = [n for n in order if n not in settings]
    lines = ["op: audited", "tensors:", *(f"  {n}:" for n in tensors)]
    if settings:
        lines += ["hyperparameters:", *(f"  {n}: {settings[n]!r}" for n in order if n in settings)]
    return "\n".join([*lines, "outputs:", f"  y: {formula}", ""])


def must_accept(function: Any, tensors: Sequence[str], settings: Iterable[str]) -> None:
    """Raise ValueError where a function cannot be called with the tensors and hyperparameters of what it is held to.

    An autograd Function takes both by position, after a context where it has no `setup_context` of its own.
    """
    given, named = list(tensors), dict.fromkeys(settings)
    called = function
    if isinstance(function, type):
        from torch.autograd import Function

        own: Any = function
        context = ["ctx"] if own.setup_context is Function.setup_context else []
        called, given, named = own.forward, [*context, *given, *named], {}
    try:
        inspect.signature(called).bind(*given, **named)
    except TypeError as error:
        what = ", ".join([*tensors, *settings]) or "nothing"
        raise ValueError(f"{getattr(function, '__name__', function)} cannot be called with {what}: {error}") from None
    except ValueError:  # a builtin has no signature
        return


def load_target(target: str) -> Any:
    """What ``PATH.py::NAME`` or ``package.module:NAME`` names; the file is imported, in its package if it has one.

    Raises ValueError that says what is wrong with the target.
    """
    path, separator, name = target.rpartition("::" if "::" in target else ":")
    if not separator or not path or not name:
        raise ValueError(f"{target!r} is neither PATH.py::NAME nor package.module:NAME")
    if "::" in target or path.endswith(".py"):
        file = Path(path).resolve()
        if not file.is_file():
            raise ValueError(f"there is no file {path}")
        root, parts = file.parent, [file.stem]
        while (root / "__init__.py").exists():
            parts.insert(0, root.name)
            root = root.parent
        sys.path.insert(0, str(root))
        path = ".".join(parts)
    try:
        module = importlib.import_module(path)
    except Exception as error:  # whatever the module raises
        raise ValueError(f"{path} cannot be imported: {str(error) or type(error).__name__}") from error
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{path} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{name} of {path} is no function but {found!r:.60}")
    return found


def is_of_jax(function: Any) -> bool:
    """Whether a function is one that JAX made: with a rule of its own, or compiled."""
    return type(function).__module__.partition(".")[0] in ("jax", "jaxlib")
