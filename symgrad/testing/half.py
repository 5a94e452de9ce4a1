"""Checks of half precision: it is widened, computed with, and rounded once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from symgrad.testing.checks import check
from symgrad.testing.compare import gradient_names, number
from symgrad.testing.facts import Settings, Subject
from symgrad.testing.reference import expected, has_values, reference
from symgrad.testing.samples import bound, cast, differentiated, draw, gradients, leaves, listed, present

HALF = (torch.float16, torch.bfloat16)
_TOTALS = 8  # draws of what is reduced: a number that is rounded is exact in some of them
_MANY = 60_000  # elements: fewer than fused passes serve by themselves, for which they would be compiled
_ALIKE = 203  # terms: no power of two, which would round as one term does


@check(applies=lambda subject: bool(subject.live))
def half_precision(subject: Subject, device: str) -> Iterator[str]:
    """In float16 and bfloat16 results are the true ones rounded once, or as near as the composite's."""
    shapes = ((64,),) * len(subject.inputs) if subject.broadcasts else subject.first
    seeds = range(1 if subject.pointwise else _TOTALS)
    for dtype, settings in itertools.product(HALF, subject.settings):
        drawn = [draw(subject, shapes, dtype, device, seed) for seed in seeds]
        names = [
            *(subject.outputs[i] for i in subject.live),
            *gradient_names(subject, present(drawn[0], subject.places)),
        ]
        compared = [_in_half(subject, settings, x, dtype) for x in drawn]
        for name, *parts in zip(names, *compared, strict=True):
            one, other, ulp, allowed = (torch.cat([t.flatten() for t in own]) for own in zip(*parts, strict=True))
            error = (one - other).abs()
            bad = ~(error <= allowed) & (other.abs() <= torch.finfo(dtype).max)
            if bad.double().mean() > 0.1:  # a kink may be hit
                at = int(torch.where(bad, (error / ulp).nan_to_num(math.inf), -1.0).argmax())
                yield (
                    f"{name} in {str(dtype).removeprefix('torch.')} {subject.described(None, settings)} is "
                    f"{number(one[at])}, in truth {number(other[at])}: "
                    f"{float((error / ulp)[at]):.3g} ulp off ({int(bad.sum())} of {bad.numel()} elements)"
                )


def _in_half(
    subject: Subject, settings: Settings, x: Sequence[Any], dtype: torch.dtype
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Of each output and gradient what half precision gives, what is true, an ulp, and the error that is allowed."""
    exact, single = (cast(x, d) for d in (torch.float64, torch.float32))
    ours, theirs = bound(subject.call, settings), reference(subject, settings)
    got, true, rough, own = (
        _unweighted(subject, f, t) for f, t in ((ours, x), (theirs, exact), (theirs, single), (ours, single))
    )
    if not all(subject.rounded_once):
        try:
            composed = _unweighted(subject, theirs, x)
        except (NotImplementedError, RuntimeError):  # which torch has not in half precision
            composed = true
    for k, (one, other, *less) in enumerate(zip(got, true, rough, own, strict=True)):
        largest = torch.finfo(dtype).max
        exponent = torch.frexp(other.clamp(-largest, largest))[1].clamp(min=-13)
        ulp = torch.finfo(dtype).eps * torch.exp2(exponent.double() - 1)
        # What cancels is no better in float32.
        size, *lost = (float(t.abs().nan_to_num(0.0).max()) for t in (other, *(r.double() - other for r in less)))
        allowed = 0.52 * ulp + (1e-7 if subject.pointwise else 1e-5) * size + 8 * max(lost)
        if not subject.rounded_once[k >= len(subject.live)]:
            distance = (composed[k].double() - other).abs().nan_to_num(0.0)
            read = max(float(t.abs().nan_to_num(0.0).max()) for t in true)  # a rounded output that backward reads
            allowed = allowed + 3 * ulp + 2 * float(distance.max()) + torch.finfo(dtype).eps * read
        yield one.double(), other, ulp, allowed


def _unweighted(subject: Subject, function: Any, tensors: Sequence[Any]) -> list[Tensor]:
    """The outputs that are differentiated, and the gradients of their sum."""
    arguments = leaves(subject, tensors)
    returned = listed(subject, function(*arguments))  # of one call: each rounds its gradients
    outputs = [returned[i] for i in subject.live]
    roots = [y for y in outputs if y.requires_grad]
    wrt = differentiated(arguments)
    found: Sequence[Tensor] = [torch.zeros_like(t) for t in wrt]
    if roots and wrt:
        found = torch.autograd.grad([y.sum() for y in roots], wrt, materialize_grads=True)
    return [t.detach() for t in (*outputs, *found)]


@check(applies=lambda subject: subject.broadcasts and len(subject.inputs) > 1 and bool(subject.places))
def sums_in_half_precision(subject: Subject, device: str) -> Iterator[str]:
    """The gradient of a number that 60000 elements share is summed before it is rounded."""
    settings = subject.settings[0]
    for i in subject.places:
        shapes: list[Any] = [(_MANY,)] * len(subject.inputs)
        shapes[i] = ()
        x = draw(subject, tuple(shapes), torch.float16, device)
        found = gradients(subject, bound(subject.call, settings), x)[1]
        outputs, exact = expected(subject, settings, cast(x, torch.float64))
        if not has_values(outputs):  # rounded to half precision, arguments may meet where the formula has none
            continue
        for name, one, other in zip(gradient_names(subject, present(x, subject.places)), found, exact, strict=True):
            lost = ~one.isfinite() & (1.1 * other).half().isfinite()
            if lost.any():
                values = f"is {number(one[lost][0])}, in truth {number(other[lost][0])}"
                yield f"{name}, a sum of {_MANY} terms in float16, {values}"
        if subject.rounded_once[1]:
            yield from _alike(subject, settings, i, device)


def _alike(subject: Subject, settings: Any, place: int, device: str) -> Iterator[str]:
    """A sum of terms that are all alike shows whether they were rounded: their errors add up."""
    for seed in range(8):
        drawn = draw(subject, ((1,),) * len(subject.inputs), torch.float16, device, seed)
        x = [t.reshape(()) if i == place else t.expand(_ALIKE).contiguous() for i, t in enumerate(drawn)]
        calls = (
            (subject.call, x),
            (subject.call, cast(x, torch.float32)),
            (subject.composite, cast(x, torch.float64)),
        )
        got, single, true = (_gradient_of_sum(subject, bound(f, settings), t, place) for f, t in calls)
        if not abs(true) < 6e4:
            continue
        ulp = torch.finfo(torch.float16).eps * 2.0 ** max(math.frexp(true)[1] - 1, -14)
        error = abs(got - true)
        if not error <= 0.7 * ulp + 1e-6 * abs(true) + 8 * abs(single - true):
            name = gradient_names(subject, [place])[0]
            off = f"{error / ulp:.3g} ulp off"
            yield f"{name}, a sum of {_ALIKE} equal terms in float16, is {got!r}, in truth {true!r}: {off}"


def _gradient_of_sum(subject: Subject, function: Any, tensors: Sequence[Any], place: int) -> float:
    arguments = leaves(subject, tensors, [place])
    returned = listed(subject, function(*arguments))  # of one call: each rounds its gradients
    outputs = [returned[i] for i in subject.live]
    roots = [y.double().sum() for y in outputs if y.requires_grad]
    if not roots:
        return 0.0
    return float(torch.autograd.grad(torch.stack(roots).sum(), arguments[place], materialize_grads=True)[0])
