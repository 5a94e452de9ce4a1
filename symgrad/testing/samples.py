"""Arguments to call an operation with, and ways to call it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from symgrad.testing.facts import Settings, Shapes, Subject

__all__ = [
    "applied",
    "bound",
    "cast",
    "closed",
    "composite",
    "differentiated",
    "draw",
    "every",
    "forward_ad",
    "gradients",
    "leaves",
    "listed",
    "present",
    "scalar",
    "stacked",
    "total",
]

forward_ad: Any = torch.autograd.forward_ad  # has no annotations
_DTYPES = {"float": torch.float64, "int": torch.int64, "bool": torch.bool}


def draw(
    subject: Subject,
    shapes: Shapes | None = None,
    dtype: torch.dtype = torch.float64,
    device: str = "cpu",
    seed: int = 0,
) -> list[Any]:
    """Tensors inside their domains, floats in ``dtype``; None where the shape is None."""
    shapes = subject.first if shapes is None else shapes
    drawn = [[_drawn(subject, i, shape, seed) for i, shape in enumerate(shapes)]]
    masks = [i for i, t in enumerate(subject.inputs) if t.dtype == "bool"]
    if masks and not _is_finite(subject, drawn[0]):  # a mask may leave nothing: fuller ones, then emptier ones
        more = [[_drawn(subject, i, shape, s) for i, shape in enumerate(shapes)] for s in range(10, 18)]
        for join in (torch.logical_or, torch.logical_and):
            drawn += itertools.accumulate([drawn[0], *more], functools.partial(_joined, join, masks))
    made = next((d for d in drawn if _is_finite(subject, d)), drawn[0]) if masks else drawn[0]
    return [t if t is None else t.to(device, dtype if t.is_floating_point() else t.dtype) for t in made]


def _drawn(subject: Subject, index: int, shape: Any, seed: int) -> Any:
    if shape is None:
        return None
    generator = torch.Generator().manual_seed(100 * seed + index)
    own = subject.inputs[index]
    low, high = (0.0, 2.0) if own.dtype == "bool" else (own.low, own.high)
    uniform = low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)
    return (uniform if own.dtype == "float" else uniform.floor()).to(_DTYPES[own.dtype])


def _is_finite(subject: Subject, tensors: Sequence[Any]) -> bool:
    try:
        outputs = listed(subject, subject.composite(*tensors, **subject.settings[0]))
    except (IndexError, RuntimeError, TypeError, ValueError):  # of shapes that do not fit: a check says so
        return True
    return all(bool(y.isfinite().all()) for y in outputs)


def _joined(join: Callable[..., Tensor], masks: Sequence[int], tensors: Any, others: Any) -> list[Any]:
    pairs = enumerate(zip(tensors, others, strict=True))
    return [join(t, o) if i in masks and t is not None else t for i, (t, o) in pairs]


def leaves(subject: Subject, tensors: Sequence[Any], wanted: Sequence[int] | None = None) -> list[Any]:
    """Copies of the tensors, those whose gradients are wanted with requires_grad."""
    wanted = subject.places if wanted is None else wanted
    return [t if t is None else t.detach().clone().requires_grad_(i in wanted) for i, t in enumerate(tensors)]


def cast(tensors: Sequence[Any], dtype: torch.dtype) -> list[Any]:
    """The tensors with the floats among them in a dtype."""
    return [t.to(dtype) if isinstance(t, Tensor) and t.is_floating_point() else t for t in tensors]


def differentiated(arguments: Sequence[Any]) -> list[Any]:
    """The arguments whose gradients are wanted."""
    return [t for t in arguments if t is not None and t.requires_grad]


def present(tensors: Sequence[Any], wanted: Sequence[int]) -> list[int]:
    """The places among those wanted at which there is a tensor."""
    return [i for i in wanted if tensors[i] is not None]


def listed(subject: Subject, outputs: Any) -> list[Tensor]:
    """The outputs as a list, without what ``Function.apply`` returns after them."""
    found = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    return found[: len(subject.outputs)]


def bound(function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """A function of the tensors alone."""
    return functools.partial(function, **settings) if settings else function


def applied(subject: Subject, settings: Settings) -> Callable[..., Any]:
    """``Function.apply`` as a function of the tensors alone, which returns the outputs."""

    def apply(*tensors: Any) -> Any:
        outputs = tuple(listed(subject, subject.function.apply(*tensors, *settings.values())))
        return outputs if len(subject.outputs) > 1 else outputs[0]

    return apply


def composite(subject: Subject, settings: Settings) -> Callable[..., Any]:
    """The formula as a function of the tensors alone."""
    return bound(subject.composite, settings)


def closed(
    subject: Subject, function: Callable[..., Any], tensors: Sequence[Any], wanted: Sequence[int] | None = None
) -> tuple[Callable[..., Any], tuple[Tensor, ...]]:
    """A function of the tensors that are wanted alone, and these tensors."""
    places = present(tensors, subject.places if wanted is None else wanted)

    def alone(*given: Any) -> Any:
        arguments = [*tensors]
        for place, t in zip(places, given, strict=True):
            arguments[place] = t
        return function(*arguments)

    return alone, tuple(tensors[i] for i in places)


def smooth(subject: Subject, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without the outputs that have no derivative."""
    if not subject.fixed:
        return function
    return lambda *x: tuple(listed(subject, function(*x))[i] for i in subject.live)


def total(subject: Subject, outputs: Any) -> Tensor:
    """The weighted sum of all elements of the outputs that are differentiated. Weights grow from 1 within each output,
    so that errors of its elements do not cancel."""
    found = listed(subject, outputs)
    terms = []
    for i in subject.live:
        y = found[i]
        weights = torch.linspace(1, 2 + i, y.numel(), dtype=torch.float64, device=y.device).to(y.dtype)
        terms.append((y * weights.view(y.shape)).sum())
    return torch.stack(terms).sum()


def scalar(subject: Subject, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """The ``total`` of a function's outputs."""
    return lambda *tensors: total(subject, function(*tensors))


def gradients(
    subject: Subject, function: Callable[..., Any], tensors: Sequence[Any], wanted: Sequence[int] | None = None
) -> tuple[list[Tensor], list[Tensor]]:
    """The outputs, and the gradients of their ``total`` in the tensors that are wanted and present."""
    arguments = leaves(subject, tensors, wanted)
    outputs = listed(subject, function(*arguments))
    wrt = differentiated(arguments)
    if not wrt or not subject.live:
        return [y.detach() for y in outputs], []
    return [y.detach() for y in outputs], descended(total(subject, outputs), wrt)


def descended(result: Tensor, wrt: Sequence[Tensor], **options: Any) -> list[Tensor]:
    """The gradients of a number; zeros where it is a constant."""
    if not result.requires_grad:
        return [torch.zeros_like(t) for t in wrt]
    return list(torch.autograd.grad(result, wrt, materialize_grads=True, **options))


def stacked(first: Sequence[Any], second: Sequence[Any], dim: int = 0) -> list[Any]:
    """Batches of two."""
    return [a if a is None else torch.stack([a, b], dim) for a, b in zip(first, second, strict=True)]


def every(tensors: Sequence[Any]) -> tuple[int, ...]:
    """The places of all tensors."""
    return tuple(range(len(tensors)))


def dtypes(subject: Subject, shapes: Shapes | None = None, device: str = "cpu") -> Iterator[list[Any]]:
    """Arguments of every float dtype, and with one tensor of another."""
    kinds = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    for base in kinds:
        yield draw(subject, shapes, base, device)
    if not subject.mixes:
        return
    floats = [i for i, t in enumerate(draw(subject, shapes)) if t is not None and t.is_floating_point()]
    for base, other in itertools.permutations(kinds, 2):
        for i in floats if len(floats) > 1 else ():
            x = draw(subject, shapes, base, device)
            x[i] = x[i].to(other)
            yield x
