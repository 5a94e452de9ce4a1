"""Comparing results with the reference, and saying in a sentence where they differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from symgrad.testing.facts import Subject
from symgrad.testing.samples import present

__all__ = ["differences", "gradient_names", "number", "result_names"]

_TOLERANCES = {  # the relative and absolute difference that rounding explains
    torch.float16: (2e-3, 1e-4),
    torch.bfloat16: (1.6e-2, 1e-3),
    torch.float32: (2e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
}


def number(value: Any) -> str:
    """A number for people."""
    return f"{float(value):.9g}" if isinstance(value, float) or torch.is_floating_point(value) else str(value.item())


def gradient_names(subject: Subject, places: Sequence[int]) -> list[str]:
    """What the gradients in some tensors are called."""
    return [f"the gradient of {subject.inputs[i].name}" for i in places]


def result_names(subject: Subject, tensors: Sequence[Any], wanted: Sequence[int] | None = None) -> list[str]:
    """What the outputs, and the gradients in the tensors that are wanted and present, are called."""
    places = present(tensors, subject.places if wanted is None else wanted)
    return [*subject.outputs, *gradient_names(subject, places)]


def differences(
    names: Sequence[str],
    got: Sequence[Any],
    want: Sequence[Any],
    *,
    case: str = "",
    subject: Subject | None = None,
    tensors: Sequence[Any] = (),
    tolerance: tuple[float, float] | None = None,
    values: bool = True,
    against: str = "the composite",
) -> Iterator[str]:
    """A sentence for each result that differs from the reference in shape, dtype, device or value.

    Values are not compared unless ``values``. NaN equals NaN; a derivative may be finite where the reference has NaN,
    by autograd and by difference quotients (``reference.expected``).
    """
    if len(got) != len(want):
        yield f"{case}: there are {len(got)} results where {against} has {len(want)}"
        return
    for name, one, other in zip(names, got, want, strict=False):
        if one is None or other is None:
            if one is not other:
                yield f"{name} {case} is {'None' if one is None else 'a tensor'}, that of {against} is not"
            continue
        for attribute in ("shape", "dtype", "device"):
            mine, theirs = getattr(one, attribute), getattr(other, attribute)
            if mine != theirs:
                shown = (tuple(mine), tuple(theirs)) if attribute == "shape" else (mine, theirs)
                yield f"{name} {case} has {attribute} {shown[0]}, that of {against} {shown[1]}"
                break
        else:
            if values and not one.is_meta:
                limits = tolerance or _limits(subject, one.dtype)
                sentence = _worst(name, one.detach(), other.detach(), case, subject, tensors, limits, against)
                if sentence:
                    yield sentence


def _limits(subject: Subject | None, dtype: torch.dtype) -> tuple[float, float]:
    relative, absolute = _TOLERANCES.get(dtype, (0.0, 0.0))
    least = (subject.tolerance if subject else None) or 0.0
    return max(relative, least), max(absolute, least)


def _worst(
    name: str,
    one: Tensor,
    other: Tensor,
    case: str,
    subject: Subject | None,
    tensors: Sequence[Any],
    limits: tuple[float, float],
    against: str,
) -> str | None:
    """The sentence about the element that differs most."""
    if not one.numel():
        return None
    relative, absolute = limits
    if one.is_floating_point() or one.is_complex():
        wide = torch.complex128 if one.is_complex() else torch.float64
        a, b = one.to(wide), other.to(wide)
        same = (a == b) | (a.isnan() & b.isnan())
        if subject is not None and name not in subject.outputs:
            same |= a.isfinite() & b.isnan()
        error = torch.where(same, 0.0, (a - b).abs().nan_to_num(math.inf, math.inf))
        bad = ~same & ~(error <= absolute + relative * b.abs())
    else:
        error = (one != other).double()
        bad = one != other
    if not bad.any():
        return None
    flat = int(torch.where(bad, error, -1.0).flatten().argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), one.shape)) if one.dim() else ()
    point = _point(subject, tensors, one.shape, index)
    at = f" at {point}" if point else f" at index {index}" if index else ""
    found = f"{name} {case}{at} is {number(one[index])}, by {against} {number(other[index])}"
    count = int(bad.sum())
    return f"{found} ({count} of {one.numel()} elements differ)" if one.numel() > 1 else found


def _point(subject: Subject | None, tensors: Sequence[Any], shape: torch.Size, index: tuple[int, ...]) -> str:
    """The inputs at an element of a result, where they are of its shape or broadcast to it."""
    if subject is None or not tensors:
        return ""
    parts = []
    for own, t in zip(subject.inputs, tensors, strict=False):
        if t is None:
            continue
        try:
            parts.append(f"{own.name}={number(t.detach().expand(shape)[index])}")
        except RuntimeError:
            return ""
    return ", ".join(parts)
