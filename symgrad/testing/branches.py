"""Samples on both sides of every condition that a formula takes on tensors, and on the conditions themselves.

The conditions are not declared: they are seen when the composite runs. A comparison of two tensors, a magnitude, a
clamp or a larger of two has a gap, the difference of its sides, that is zero where the formula changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from symgrad.testing.facts import Settings, Subject
from symgrad.testing.samples import composite, draw, leaves, present

__all__ = ["Condition", "conditions", "samples", "unseen"]

_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_ON = 64  # values at conditions are multiples of one over this: arithmetic with them is exact
_COUNT = 96  # elements of an element-wise sample
_SCALES = (1.0, 0.1, 10.0, 0.01, 100.0, 1e-4, 1e4, -1.0)
_BESIDE = 1e-3


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
    """Arguments in float64 with a word on what they are: on both sides of all conditions that can be reached by moving
    or scaling inputs, and at them."""
    if not subject.pointwise or not subject.broadcasts:
        sampled = [_scaled(subject, draw(subject, seed=seed), scale) for seed, scale in enumerate(_SCALES[:3])]
        for seed, (scale, tensors) in enumerate(zip(_SCALES, sampled, strict=False)):
            yield f"drawn with seed {seed} and scaled by {scale}", tensors
        if unseen(subject, settings, sampled):
            for scale in _SCALES[3:]:
                yield f"drawn with seed 0 and scaled by {scale}", _scaled(subject, draw(subject, seed=0), scale)
        return
    shape = (_COUNT,)
    drawn = draw(subject, tuple(shape for _ in subject.inputs), seed=1)
    yield "spread over the ranges", drawn
    lattice = [_rounded(subject, i, t) for i, t in enumerate(drawn)]
    yield "at multiples of a quarter", lattice
    yield from _moved(subject, settings, lattice)
    if unseen(subject, settings, [drawn, lattice]):
        for scale in _SCALES[1:]:
            yield f"scaled by {scale}", _scaled(subject, drawn, scale)


def unseen(subject: Subject, settings: Settings, sampled: Sequence[Sequence[Any]]) -> list[str]:
    """The comparisons that all samples decide in one way, though some point of the domains decides otherwise."""
    seen: dict[int, set[bool]] = {}
    names: dict[int, str] = {}
    for tensors in sampled:
        for k, condition in enumerate(conditions(subject, settings, tensors)):
            if condition.strict and condition.name not in ("eq", "ne") and condition.gap.numel():
                gap = condition.gap.detach()
                seen.setdefault(k, set()).update(bool(side) for side in (gap > 0).flatten().tolist())
                names[k] = condition.name
    return [
        f"comparison {k + 1} of the formula ({names[k]}) has only one side in all samples"
        for k, sides in seen.items()
        if len(sides) < 2 and _is_reachable(subject, settings, k, sampled[0])
    ]


def _is_reachable(subject: Subject, settings: Settings, number: int, tensors: Sequence[Any]) -> bool:
    """Whether a condition is met inside of the domains, by a Newton step in some tensor that it depends on."""
    found: list[bool] = []
    for i in present(tensors, subject.places):
        moving = leaves(subject, tensors, [i])
        gap = conditions(subject, settings, moving)[number].gap
        if gap.requires_grad:
            (slope,) = torch.autograd.grad(gap.sum(), moving[i])
            place = tensors[i] - gap.detach().sum_to_size(tensors[i].shape) / slope
            found.append(bool((place.isfinite() & _inside(subject, i, place)).any()))
    return any(found) or not found


def _inside(subject: Subject, index: int, values: Tensor) -> Tensor:
    low, high = subject.inputs[index].domain
    return (values > low) & (values < high) if values.is_floating_point() else torch.ones_like(values, dtype=torch.bool)


def _rounded(subject: Subject, index: int, t: Any) -> Any:
    if t is None or not t.is_floating_point():
        return t
    rounded = (t * 4).round() / 4
    return torch.where(_inside(subject, index, rounded), rounded, t)


def _scaled(subject: Subject, tensors: Sequence[Any], scale: float) -> list[Any]:
    found = []
    for i, t in enumerate(tensors):
        scaled = t * scale if t is not None and t.is_floating_point() else t
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
