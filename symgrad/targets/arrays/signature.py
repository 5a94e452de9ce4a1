"""The function that users call: its signature, its docstring and the checks of its arguments."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.spec.model import Tensor
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.literals import literal
from symgrad.targets.torch.public import domain_check, may_be_left_out

__all__ = ["checks", "signature", "tensor_arguments"]


def signature(layout: Layout, array: str) -> str:
    """Tensors, then hyperparameters, which are keywords where one before has a default."""
    parts = tensor_arguments(layout.spec.tensors, array)
    optional, star = any(part.endswith("= None") for part in parts), False
    for h in layout.spec.hyperparameters:
        if optional and h.default is None and not star:
            parts.append("*")
            star = True
        optional = optional or h.default is not None
        parts.append(f"{h.name}: {h.type}{'' if h.default is None else f' = {literal(h.default)}'}")
    return ", ".join(parts)


def tensor_arguments(tensors: Sequence[Tensor], array: str) -> list[str]:
    """Tensors with their annotations; the last of the optional ones may be left out."""
    return [
        f"{t.name}: {array}{'' if t.default is None else ' | None'}{' = None' if may_be_left_out(t, tensors) else ''}"
        for t in tensors
    ]


def checks(layout: Layout, runtime: str) -> list[str]:
    """The statements that bring every argument into the form that the operation takes."""
    spec = layout.spec
    op = literal(spec.op)
    lines = []
    plain = [t.name for t in spec.tensors if t.dtype == "float" and t.default is None]
    if len(plain) > 1:
        named = ", ".join(f"{t}={t}" for t in plain)
        lines.append(f"{', '.join(plain)} = {runtime}.arrays({op}, {named})")
    for t in spec.tensors:
        if len(plain) > 1 and t.name in plain:
            continue
        kind = "" if t.dtype == "float" else f", {literal(t.dtype)}"
        optional = "" if t.default is None else ", optional=True"
        lines.append(f"{t.name} = {runtime}.array({op}, {literal(t.name)}, {t.name}{kind}{optional})")
    declared = [t for t in spec.tensors if t.shape is not None]
    if declared:
        shapes = ", ".join(f"{t.name}=({t.name}, {literal(t.shape)})" for t in declared)
        lines.append(f"{runtime}.check_shapes({op}, {shapes})")
    for h in spec.hyperparameters:
        choices = f", {literal(h.choices)}" if h.choices else ""
        call = f"{runtime}.hyperparameter({op}, {literal(h.name)}, {h.name}, {literal(h.type)}{choices})"
        lines.append(f"{h.name} = {call}")
        lines += domain_check(h, spec.op, h.name)
    return lines
