"""Samples on both sides of every condition that a formula takes on tensors, and on the conditions themselves.

The conditions are not declared: they are seen when the composite runs. A comparison of two tensors, a magnitude, a
clamp or a larger of two has a gap, the difference of its sides, that is zero where the formula changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from symgrad.testing.facts import Settings, Subject
from symgrad.testing.samples import composite, draw, leaves, present

__all__ = ["Condition", "conditions", "reached", "samples"]

_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_ON = 64  # values at conditions are multiples of one over this: arithmetic with them is exact
_COUNT = 96  # elements of an element-wise sample
_SCALES = (1.0, 0.1, 10.0, 0.01, 100.0, 1e-4, 1e4, -1.0)
_BESIDE = 1e-3
_SEEDS = range(2, 6)  # of tensors that are drawn once more, to reach the other side of a comparison
_STEPS = (1.1, 1.5, 0.5, 2.0, 4.0)  # parts of the way to a condition, and beyond it


@dataclass(frozen=True)
class Condition:
    """One condition: the torch function that takes it, and the difference of its sides."""

    name: str
    gap: Tensor

    @property
    def strict(self) -> bool:
        """Whether it is a comparison, whose sides are different formulas."""
        return self.name in _COMPARISONS


class _Recorder(TorchFunctionMode):
    """Records the conditions that run under it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Condition] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "").strip("_")
        gaps = _GAPS.get(name)
        if gaps is not None:
            with torch._C.DisableTorchFunction():
                found = [g for g in gaps(*args, **(kwargs or {})) if g is not None]
            self.found += [Condition(name, g) for g in found if not g.is_meta]  # else what only asks for a shape
        return func(*args, **(kwargs or {}))


def _difference(a: Any, b: Any = 0, *rest: Any, **options: Any) -> list[Tensor | None]:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        floating = any(isinstance(v, Tensor) and v.is_floating_point() for v in (a, b))
        return [a - b] if floating else []
    return []


def _magnitude(a: Any, *rest: Any, **options: Any) -> list[Tensor | None]:
    return [a] if isinstance(a, Tensor) and a.is_floating_point() else []


def _clamped(a: Tensor, min: Any = None, max: Any = None) -> list[Tensor | None]:
    return [None if bound is None else a - bound for bound in (min, max)]


_GAPS: dict[str, Callable[..., list[Tensor | None]]] = {
    **dict.fromkeys(_COMPARISONS, _difference),
    **dict.fromkeys(("maximum", "minimum"), _difference),
    **dict.fromkeys(("abs", "relu", "sign"), _magnitude),
    "clamp": _clamped,
}


def conditions(subject: Subject, settings: Settings, tensors: Sequence[Any]) -> list[Condition]:
    """The conditions that the composite takes on these tensors."""
    recorder = _Recorder()
    with recorder:
        composite(subject, settings)(*tensors)
    return recorder.found


def samples(subject: Subject, settings: Settings) -> Iterator[tuple[str, list[Any]]]:
    """Arguments in float64 with a word on what they are: on both sides of conditions that are reached by moving or
    scaling inputs, and at them."""
    if not subject.pointwise or not subject.broadcasts:
        sampled = [_scaled(subject, draw(subject, seed=seed), scale) for seed, scale in enumerate(_SCALES[:3])]
        for seed, (scale, tensors) in enumerate(zip(_SCALES, sampled, strict=False)):
            yield f"drawn with seed {seed} and scaled by {scale}", tensors
        return
    shape = (_COUNT,)
    drawn = draw(subject, tuple(shape for _ in subject.inputs), seed=1)
    yield "spread over the ranges", drawn
    lattice = [_rounded(subject, i, t) for i, t in enumerate(drawn)]
    yield "at multiples of a quarter", lattice
    yield from _moved(subject, settings, lattice)


def reached(subject: Subject, settings: Settings, sampled: Sequence[Sequence[Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Further arguments, on the sides of comparisons that none of the samples is on, where some are found.

    What a comparison asks may be impossible, or its other side beyond what is easily drawn: nothing is said of that.
    """
    seen = _sides(subject, settings, sampled)
    for what, tensors in _further(subject, settings, seen, sampled[0]):
        if not _one_sided(seen):
            return
        try:
            more = _sides(subject, settings, [tensors])
        except RuntimeError:  # torch decomposes no such matrix, and finds no place there
            continue
        if any(more.get(k, set()) - seen[k] for k in _one_sided(seen)):
            for k, sides in more.items():
                seen.setdefault(k, set()).update(sides)
            yield what, tensors


def _one_sided(seen: Mapping[int, set[bool]]) -> list[int]:
    """The numbers of the comparisons that all samples decide in one way."""
    return [k for k, sides in seen.items() if len(sides) < 2]


def _sides(subject: Subject, settings: Settings, sampled: Sequence[Sequence[Any]]) -> dict[int, set[bool]]:
    """How samples decide the comparisons, by the number of the condition."""
    seen: dict[int, set[bool]] = {}
    for tensors in sampled:
        for k, condition in enumerate(conditions(subject, settings, tensors)):
            if condition.strict and condition.name not in ("eq", "ne") and condition.gap.numel():
                gap = condition.gap.detach()
                seen.setdefault(k, set()).update((gap[~gap.isnan()] > 0).flatten().tolist())
    return seen


def _further(
    subject: Subject, settings: Settings, seen: Mapping[int, set[bool]], tensors: Sequence[Any]
) -> Iterator[tuple[str, list[Any]]]:
    """More arguments inside of the domains: all or one of the tensors scaled, or drawn anew, or moved by Newton steps
    to the comparisons that have one side."""
    shapes = [None if t is None else tuple(t.shape) for t in tensors]
    floats = [i for i, t in enumerate(tensors) if t is not None and t.is_floating_point()]
    for seed in _SEEDS:
        yield f"drawn with seed {seed}", draw(subject, tuple(shapes), seed=seed)
    for scale in (*_SCALES[1:], *(-s for s in _SCALES[1:-1])):
        for places in (floats, *([i] for i in floats)):
            names = " and ".join(subject.inputs[i].name for i in places)
            yield f"with {names} scaled by {scale}", _scaled(subject, tensors, scale, places)
    for k in _one_sided(seen):
        for i in present(tensors, subject.places):
            yield from _towards(subject, settings, k, i, tensors)


def _towards(
    subject: Subject, settings: Settings, number: int, place: int, tensors: Sequence[Any]
) -> Iterator[tuple[str, list[Any]]]:
    """Points on the way to a condition and beyond it, along the slope of its smallest gap in a tensor."""
    moving = leaves(subject, tensors, [place])
    found = conditions(subject, settings, moving)
    gap = found[number].gap if number < len(found) else None
    if gap is None or not gap.requires_grad:
        return
    nearest = gap.flatten()[gap.detach().abs().nan_to_num(math.inf).argmin()]
    (slope,) = torch.autograd.grad(nearest, moving[place])
    step = nearest.detach() * slope / slope.square().sum()
    for part in _STEPS:
        moved = tensors[place] - part * step
        if bool((moved.isfinite() & _inside(subject, place, moved)).all()):
            put = [*tensors]
            put[place] = moved
            yield f"towards a condition in {subject.inputs[place].name}", put


def _inside(subject: Subject, index: int, values: Tensor) -> Tensor:
    low, high = subject.inputs[index].domain
    return (values > low) & (values < high) if values.is_floating_point() else torch.ones_like(values, dtype=torch.bool)


def _rounded(subject: Subject, index: int, t: Any) -> Any:
    if t is None or not t.is_floating_point():
        return t
    rounded = (t * 4).round() / 4
    return torch.where(_inside(subject, index, rounded), rounded, t)


def _scaled(subject: Subject, tensors: Sequence[Any], scale: float, places: Sequence[int] | None = None) -> list[Any]:
    found = []
    for i, t in enumerate(tensors):
        is_scaled = t is not None and t.is_floating_point() and (places is None or i in places)
        scaled = t * scale if is_scaled else t
        inside = t is None or bool(_inside(subject, i, scaled).all())
        found.append(scaled if inside else t)
    return found


def _moved(subject: Subject, settings: Settings, tensors: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Points at the conditions and a little to both sides, by a Newton step in each tensor."""
    for i in present(tensors, subject.places):
        moving = leaves(subject, tensors, [i])
        for condition in conditions(subject, settings, moving):
            if not condition.gap.requires_grad or condition.gap.numel() != _COUNT:
                continue
            (slope,) = torch.autograd.grad(condition.gap.sum(), moving[i], retain_graph=True)
            place = tensors[i] - condition.gap.detach() / slope
            usable = place.isfinite() & _inside(subject, i, place) & (place.abs() < 1e6)
            if not usable.any():
                continue
            on = usable & ((place * _ON).frac() == 0)
            for what, shift, keep in (("at", 0.0, on), ("below", -_BESIDE, usable), ("above", _BESIDE, usable)):
                moved = place + shift * (1 + place.abs())
                keep = keep & _inside(subject, i, moved)
                if keep.any():
                    put = [t if t is None else t[keep] for t in tensors]
                    put[i] = moved[keep]
                    yield f"{what} a condition in {subject.inputs[i].name}", put
