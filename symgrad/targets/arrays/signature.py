"""The function that users call: its signature, its docstring and the checks of its arguments."""

from __future__ import annotations

from symgrad.spec.model import Tensor
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.literals import literal

__all__ = ["checks", "signature"]


def signature(layout: Layout, array: str) -> str:
    """Tensors, then hyperparameters, which are keywords where one before has a default."""
    parts, optional, star = [], False, False
    for t in layout.spec.tensors:
        may_be_left_out = _may_be_left_out(t, layout)
        optional = optional or may_be_left_out
        kind = f"{array} | None" if t.default is not None else array
        parts.append(f"{t.name}: {kind}{' = None' if may_be_left_out else ''}")
    for h in layout.spec.hyperparameters:
        if optional and h.default is None and not star:
            parts.append("*")
            star = True
        optional = optional or h.default is not None
        parts.append(f"{h.name}: {h.type}{'' if h.default is None else f' = {literal(h.default)}'}")
    return ", ".join(parts)


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
        if test := h.inside(h.name):
            text = f"{spec.op}: {h.name} must be in {h.domain}, not {{{h.name}}}"
            lines += [f"if not {test}:", f'    raise ValueError(f"{text}")']
    return lines


def _may_be_left_out(tensor: Tensor, layout: Layout) -> bool:
    """An optional tensor has the default None if no required tensor follows it."""
    tensors = layout.spec.tensors
    return all(t.default is not None for t in tensors[tensors.index(tensor) :])
