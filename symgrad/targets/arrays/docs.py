"""Docstrings of modules over arrays: formula, derivatives, what reverse mode keeps, and where it comes from."""

from __future__ import annotations

from symgrad.targets.arrays.layout import Layout
from symgrad.targets.torch import docs
from symgrad.targets.torch.layout import Layout as TorchLayout

__all__ = ["function_docstring", "module_docstring"]


def module_docstring(layout: Layout, kept: str) -> str:
    """What the module computes, the derivatives, and `kept`, a sentence on residuals."""
    return docs.page(TorchLayout(layout.operation), docs.wrapped(kept))


def function_docstring(layout: Layout, fixed: str) -> str:
    """The summary, the arguments as far as the spec says something of them, and notes."""
    return docs.function_docstring(TorchLayout(layout.operation), _notes(layout, fixed))


def _notes(layout: Layout, fixed: str) -> list[str]:
    """What to know of the arguments: hyperparameters are `fixed`, whatever that is called."""
    spec = layout.spec
    parts = []
    if len(spec.tensors) > 1 and not any(t.shape for t in spec.tensors):
        parts.append("The arrays broadcast; any of them may be a number.")
    if spec.hyperparameters:
        parts.append(f"Hyperparameters are {fixed}.")
    value = "out of range" if any(h.domain is not None or h.choices for h in spec.hyperparameters) else ""
    shapes = "of a shape that does not fit" if any(t.shape for t in spec.tensors) else ""
    refused = " or ".join(p for p in (value, shapes) if p)
    parts.append("Raises TypeError where an argument is of another type")
    parts[-1] += f", ValueError where one is {refused}." if refused else "."
    return parts
