"""Checks of what is promised of accuracy: errors at points where the truth is known, by every way to a quantity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from symgrad.targets.torch.allowance import allowed
from symgrad.testing.checks import check
from symgrad.testing.facts import Accuracy, Settings, Subject
from symgrad.testing.samples import bound, forward_ad, leaves, listed

BACKWARD, RECORDED, FORWARD = "backward", "backward that is recorded", "forward mode"


@check(applies=lambda subject: bool(subject.accuracy))
def accuracy(subject: Subject, device: str) -> Iterator[str]:
    """Values and derivatives are as near to the truth as is promised, by every way to them."""
    for promise in subject.accuracy:
        for dtype in (torch.float32, torch.float64):
            for point in promise.points:
                for way in (BACKWARD, RECORDED, FORWARD):
                    yield from at_point(subject, promise, dtype, point, way, device)


def at_point(
    subject: Subject, promise: Accuracy, dtype: torch.dtype, point: tuple[Any, ...], way: str, device: str
) -> Iterator[str]:
    """A sentence where the quantity at a point is further off than is promised."""
    error = error_at(subject, promise, dtype, point, way, device)
    promised = promise.ulp if dtype == torch.float32 else promise.ulp64
    if error is not None and error > allowed(promised):
        n = len(subject.inputs)
        names = [t.name for t in subject.inputs] + list(subject.settings[0])
        at = ", ".join(f"{name}={value!r}" for name, value in zip(names, point[: n + len(names)], strict=False))
        name = str(dtype).removeprefix("torch.")
        by = f" by {way}" if "/" in promise.quantity else ""
        yield f"{promise.quantity}{by} in {name} at {at} is {error:.3g} ulp off {point[-2]!r}, {promised:g} promised"


def error_at(
    subject: Subject, promise: Accuracy, dtype: torch.dtype, point: tuple[Any, ...], way: str, device: str
) -> float | None:
    """The error at a point in ulp, beyond what the inputs explain; None where a way does not lead there."""
    *_, true, credit = point
    got = _quantity(subject, promise, dtype, point, way, device)
    if got is None:
        return None
    info = torch.finfo(dtype)
    spacing = math.ldexp(info.eps, max(math.frexp(true)[1], math.frexp(info.tiny)[1]) - 1)
    explained = credit * (1.0 if dtype == torch.float32 else 2.0**-29)
    if abs(true) < info.tiny:
        explained += info.tiny  # results may flush to zero there
    error: float = (got.double() - true).abs().nan_to_num(math.inf, math.inf).max().item()
    beyond: float = max(0.0, error - explained) / spacing
    return beyond


def value_at(subject: Subject, promise: Accuracy, dtype: torch.dtype, point: tuple[Any, ...]) -> float:
    """The quantity at a point, by backward where it is a derivative; NaN where the call raises."""
    try:
        found = _quantity(subject, promise, dtype, point, BACKWARD, "cpu")
    except Exception:
        return math.nan
    return math.nan if found is None else float(found.flatten()[0])


def _quantity(
    subject: Subject, promise: Accuracy, dtype: torch.dtype, point: tuple[Any, ...], way: str, device: str
) -> Tensor | None:
    """The output or derivative at a point, by some way; None where it does not lead there."""
    values = point[:-2]
    n = len(subject.inputs)
    quantity, _, tensor = promise.quantity.partition("/d")
    output = quantity.removeprefix("d") if tensor else quantity
    settings = dict(zip(subject.settings[0], values[n:], strict=True))
    tensors = []
    for own, shape, value in zip(subject.inputs, subject.ones, values, strict=False):
        kind = {"float": dtype, "int": torch.int64, "bool": torch.bool}[own.dtype]
        tensors.append(torch.full(shape or (), value, dtype=torch.float32, device=device).to(kind))
    return _measured(subject, settings, tensors, subject.outputs.index(output), tensor, way)


def _measured(
    subject: Subject, settings: Settings, tensors: list[Any], output: int, tensor: str, way: str
) -> Tensor | None:
    """The output, or its derivative in a tensor by some way; None where it cannot be had so. Tensors of one element are
    broadcast to all others, so that a derivative is a mean over equal elements."""
    function = bound(subject.call, settings)
    if not tensor:
        return listed(subject, function(*tensors))[output].detach() if way == BACKWARD else None
    place = next(i for i, t in enumerate(subject.inputs) if t.name == tensor)
    if way == FORWARD:
        if not subject.linear:
            return None
        with forward_ad.dual_level():
            given = [forward_ad.make_dual(t, torch.ones_like(t)) if i == place else t for i, t in enumerate(tensors)]
            found = forward_ad.unpack_dual(listed(subject, function(*given))[output]).tangent
            return torch.zeros_like(tensors[place]) if found is None else found.detach()
    arguments = leaves(subject, tensors)
    y = listed(subject, function(*arguments))[output]
    if not y.requires_grad:
        return torch.zeros_like(tensors[place]) if way == BACKWARD else None
    recorded = way == RECORDED
    if recorded and not subject.double_backward:
        return None
    wrt = arguments[place]
    (found,) = torch.autograd.grad(y.sum(), wrt, materialize_grads=True, create_graph=recorded)
    mean: Tensor = found.detach() / max(1, y.numel() // max(1, wrt.numel()))
    return mean
