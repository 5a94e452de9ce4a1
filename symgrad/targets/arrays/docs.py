"""Docstrings of modules over arrays: formula, derivatives, what reverse mode keeps, and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.spec.model import Hyperparameter, Tensor
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.torch import docs
from symgrad.targets.torch.layout import Layout as TorchLayout

__all__ = ["function_docstring", "module_docstring", "notes"]


def module_docstring(layout: Layout, kept: str) -> str:
    """What the module computes, the derivatives, and `kept`, a sentence on residuals."""
    own, spec = TorchLayout(layout.operation), layout.spec
    parts = [docs.summary(own), docs.equations(own), docs.derivatives_text(own), docs.wrapped(kept)]
    parts += [docs.wrapped(spec.doc)] if spec.doc else []
    parts += [docs.wrapped(f"Reference: {spec.reference}")] if spec.reference else []
    return docs.escaped("\n\n".join(p for p in parts if p))


def function_docstring(layout: Layout, notes: Sequence[str]) -> str:
    """The summary, the arguments as far as the spec says something of them, and notes."""
    spec = layout.spec
    said = []
    arguments: tuple[Tensor | Hyperparameter, ...] = (*spec.tensors, *spec.hyperparameters)
    for argument in arguments:
        domain = "" if argument.domain is None else f" in {argument.domain}"
        meaning = f": {argument.doc}" if argument.doc else ""
        said += [f"{argument.name}{domain}{meaning}"] if domain or meaning else []
    said += [f"{o.name}: {o.doc}" for o in spec.outputs if o.doc]
    lines = [docs.wrapped(text, 90).replace("\n", "\n    ") for text in said]
    parts = [docs.summary(TorchLayout(layout.operation)), "\n".join(lines), docs.wrapped(" ".join(notes), 92)]
    return docs.escaped("\n\n".join(p for p in parts if p))


def notes(layout: Layout, fixed: str) -> list[str]:
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
