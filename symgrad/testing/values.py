"""Checks of values and gradients: everywhere, at every size, in every branch, at special values."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, product, repeat
from typing import Any

import torch
from torch import Tensor

from symgrad.testing import branches
from symgrad.testing.checks import check
from symgrad.testing.compare import differences, number, result_names
from symgrad.testing.facts import Settings, Shapes, Subject
from symgrad.testing.promises import BACKWARD, at_point
from symgrad.testing.reference import all_expected, expected, reference, with_quotients
from symgrad.testing.rounding import unexplained
from symgrad.testing.samples import (
    bound,
    cast,
    composite,
    descended,
    draw,
    forward_ad,
    gradients,
    leaves,
    listed,
    present,
    total,
)

_SIZES = (7, 8, 9, 15, 17, 31, 33, 513, 1025)


@check()
def value_and_gradients(subject: Subject, device: str) -> Iterator[str]:
    """Outputs, and the gradients in every subset of the tensors, equal those of the composite."""
    for shapes, settings in subject.cases(empty=True):
        tensors = draw(subject, shapes, device=device)
        case = subject.described(shapes, settings)
        ours = listed(subject, bound(subject.call, settings)(*tensors))
        theirs = listed(subject, composite(subject, settings)(*tensors))
        yield from differences(subject.outputs, ours, theirs, case=case, subject=subject, tensors=tensors)
        for wanted in subject.subsets():
            yield from _compared(subject, settings, tensors, wanted, case)


@check()
def sizes(subject: Subject, device: str) -> Iterator[str]:
    """They do at sizes around the width of vectors, in long rows and many of them, in float32 and float64."""
    settings = subject.settings[-1]
    every = subject.subsets()
    n = len(subject.inputs)
    shapes: list[Shapes] = [*subject.large]
    if subject.broadcasts:
        shapes += [((size,),) * n for size in _SIZES]
        shapes += [((9, 1025),) * n, *(tuple((9, 1025) if k == i else (1025,) for k in range(n)) for i in range(n))]
    for own in shapes:
        few = every if max((math.prod(s or ()) for s in own), default=0) <= 1100 else every[-1:]
        for dtype in (torch.float64, torch.float32):
            tensors = draw(subject, own, dtype, device)
            if _is_refused(subject, settings, tensors):
                continue
            for wanted in few if dtype == torch.float64 else every[-1:]:
                limits = (1e-7, 1e-7) if dtype == torch.float64 else (1e-3, 1e-3)
                case = f"in {str(dtype).removeprefix('torch.')} {subject.described(own, settings)}"
                yield from _compared(subject, settings, tensors, wanted, case, limits)


def _is_refused(subject: Subject, settings: Settings, tensors: list[Any]) -> bool:
    """Whether the formula itself has no value for tensors of these sizes: they were chosen without knowing it."""
    try:
        composite(subject, settings)(*tensors)
    except (IndexError, RuntimeError, ValueError):
        return True
    return False


@check(applies=lambda subject: _of_large(subject) is not None, on_devices=False, slow=True)
def passes(subject: Subject, device: str) -> Iterator[str]:
    """So do fused passes that serve large tensors by themselves, at those sizes, and as accurately as is promised."""
    library = _of_large(subject)
    least, library.least = library.least, 0
    narrow, library.narrow = library.narrow, 0  # one library for all sizes
    library.forget()
    try:
        yield from sizes(subject, device)
        if not subject.large and not subject.broadcasts:
            yield from value_and_gradients(subject, device)
        if subject.rule is None:
            for promise, dtype in product(subject.accuracy, (torch.float32, torch.float64)):
                for point in promise.points:
                    yield from at_point(subject, promise, dtype, point, BACKWARD, device)
        if library.on and not library.libraries:
            yield "no pass serves any call"
    finally:
        library.least, library.narrow = least, narrow
        library.forget()


def _of_large(subject: Subject) -> Any:
    """The library of passes that serve calls of many elements alone, where it can be compiled; None without one."""
    module = sys.modules.get(getattr(subject.call, "__module__", ""))
    library = getattr(module, "_kernels", None)
    can = library is not None and getattr(library, "least", 0) > 0 and library.on and library.can_compile()
    return library if can else None


def _compared(
    subject: Subject,
    settings: Settings,
    tensors: list[Any],
    wanted: tuple[int, ...],
    case: str,
    tolerance: tuple[float, float] | None = None,
) -> Iterator[str]:
    again = partial(all_expected, subject, settings, tensors, wanted)
    outputs, got = gradients(subject, bound(subject.call, settings), tensors, wanted)
    values, want = expected(subject, settings, tensors, wanted)
    if tolerance:  # wide ones are for what is not in float64
        exact = expected(subject, settings, cast(tensors, torch.float64), wanted)
        values, want = (
            [_nearer(*found, every=subject.pointwise) for found in zip(own, theirs, true, strict=True)]
            for own, theirs, true in ((outputs, values, exact[0]), (got, want, exact[1]))
        )
    if tolerance and want:  # sums of many terms
        tolerance = (tolerance[0], tolerance[1] * max(1.0, *(float(w.abs().max()) for w in want if w.numel())))
    places = present(tensors, wanted)
    if len(places) < len(subject.places):
        asked = " and ".join(subject.inputs[i].name for i in places)
        case = f"where only {asked or 'nothing'} is asked for, {case}"
    options: Any = {"case": case, "subject": subject, "tensors": tensors, "tolerance": tolerance}
    names = result_names(subject, tensors, wanted)
    yield from unexplained(names, [*outputs, *got], [*values, *want], again, **options)


def _nearer(own: Tensor, composite: Tensor, exact: Tensor, *, every: bool) -> Tensor:
    """What is right of a result: the composite's elements, or those in float64 where they are nearer to it.

    Where the composite overflows there is no number in our result either, unless it must have `every` one.
    """
    if not own.is_floating_point() or not own.shape == composite.shape == exact.shape:
        return composite
    is_lost = (own - exact).abs() < (own - composite).abs()
    is_lost |= composite.isnan() & (every | own.isfinite())
    return torch.where(is_lost, exact.to(composite.dtype), composite)


@check(applies=lambda subject: bool(subject.places))
def every_branch(subject: Subject, device: str) -> Iterator[str]:
    """On both sides of every condition, and at it, values, gradients, second derivatives and tangents are equal."""
    for settings in subject.settings:
        sampled = []
        for what, tensors in branches.samples(subject, settings):
            sampled.append(tensors)
            yield from _in_branch(subject, settings, tensors, device, what)
        for what, tensors in branches.reached(subject, settings, sampled):
            yield from _in_branch(subject, settings, tensors, device, what)


def _in_branch(subject: Subject, settings: Settings, tensors: list[Any], device: str, what: str) -> Iterator[str]:
    """Where values and derivatives of both orders differ, or tangents have another slope."""
    given = [t if t is None else t.to(device) for t in tensors]
    case = f"{what}, {subject.described(None, settings)}"
    ours, theirs = bound(subject.call, settings), reference(subject, settings)
    results = [_to_second(subject, f, given) for f in (ours, theirs)]
    first = slice(len(subject.outputs), len(subject.outputs) + len(present(given, subject.places)))
    if any(bool(g.isnan().any()) for g in results[1][first]):
        results[1][first] = expected(subject, settings, given)[1]
    places = present(given, subject.places)
    names = result_names(subject, given)
    names += [f"the second derivative in {subject.inputs[i].name}" for i in places]
    for k, (name, got, want) in enumerate(zip(names, *results, strict=False)):
        got = torch.where(want.isfinite(), got, want) if got.shape == want.shape else got
        floats = want.numel() and want.is_floating_point()
        size = float(want.nan_to_num(0, 0, 0).abs().max()) if floats else 0.0
        options: Any = {"case": case, "subject": subject, "tensors": given}
        options["tolerance"] = (1e-6, 1e-7 * max(1.0, size))
        again = partial(_one_of, k, subject, theirs, given)
        found = list(unexplained([name], [got], [want], again, **options))
        if found and k >= first.stop:
            slope = partial(_slope, subject, theirs)
            smooth = with_quotients(want, ~torch.isclose(got, want), slope, given, places[k - first.stop])
            found = list(differences([name], [got], [smooth], **options))
        yield from found
    if subject.linear:
        yield from _tangents_apart(subject, settings, given, case)


def _tangents_apart(subject: Subject, settings: Settings, tensors: list[Any], case: str) -> Iterator[str]:
    """Whether forward mode has another slope than the gradients, which are equal to the composite's; it may have no
    number where the composite's has none."""
    function = bound(subject.call, settings)
    arguments = leaves(subject, tensors)
    places = present(arguments, subject.places)
    result = total(subject, function(*arguments))
    if not result.requires_grad:
        return
    slopes = torch.autograd.grad(result, [arguments[i] for i in places], materialize_grads=True)
    directions = [torch.linspace(1, 2, g.numel()).to(g).view(g.shape) for g in slopes]
    terms = torch.cat([(g * d).flatten() for g, d in zip(slopes, directions, strict=True)])
    along = dict(zip(places, directions, strict=True))
    found, truth = _tangent(subject, function, arguments, along), float(terms.sum())
    if not math.isfinite(truth) or abs(found - truth) <= 1e-6 * (1 + float(terms.abs().sum())):
        return
    if not (math.isnan(found) and math.isnan(_tangent(subject, reference(subject, settings), arguments, along))):
        yield f"the tangent is {found!r}, by the gradients {truth!r}: {case}"


def _tangent(subject: Subject, function: Any, arguments: Sequence[Any], along: Mapping[int, Tensor]) -> float:
    """The tangent of a sum of the results where some arguments have one."""
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(t.detach(), along[i]) if i in along else t for i, t in enumerate(arguments)]
        tangent = forward_ad.unpack_dual(total(subject, function(*duals))).tangent
    return 0.0 if tangent is None else float(tangent)


def _to_second(subject: Subject, function: Any, tensors: list[Any]) -> list[Tensor]:
    """Outputs, gradients and, where there are such, the gradients of a sum of these."""
    arguments = leaves(subject, tensors)
    outputs = listed(subject, function(*arguments))
    wrt = [arguments[i] for i in present(arguments, subject.places)]
    result = total(subject, outputs)
    if not result.requires_grad:
        return [y.detach() for y in outputs]
    options: Any = {"materialize_grads": True}
    first = torch.autograd.grad(result, wrt, create_graph=subject.double_backward, **options)
    second: tuple[Tensor, ...] = ()
    if subject.twice:
        weighed = _weighed(first)
        if weighed.requires_grad:
            second = torch.autograd.grad(weighed, wrt, **options)
    return [t.detach() for t in (*outputs, *first, *second)]


def _one_of(k: int, subject: Subject, function: Any, tensors: list[Any]) -> list[Tensor]:
    return _to_second(subject, function, tensors)[k : k + 1]


def _slope(subject: Subject, function: Any, *tensors: Any) -> Tensor:
    """The sum of gradients of which the second derivatives are the gradient."""
    arguments = leaves(subject, tensors)
    wrt = [arguments[i] for i in present(arguments, subject.places)]
    return _weighed(descended(total(subject, function(*arguments)), wrt))


def _weighed(gradients: Sequence[Tensor]) -> Tensor:
    return torch.stack([(g * torch.linspace(1, 2, g.numel()).to(g).view(g.shape)).sum() for g in gradients]).sum()


@check(applies=lambda subject: subject.pointwise)
def special_values(subject: Subject, device: str) -> Iterator[str]:
    """At infinities, zeros and subnormal numbers there is a number where the composite has one, and none for none."""
    shapes = ((8,),) * len(subject.inputs) if subject.broadcasts else subject.first
    for settings in subject.settings:
        functions = bound(subject.call, settings), reference(subject, settings)
        for dtype in (torch.float32, torch.float64):
            for i, own in enumerate(subject.inputs):
                values = own.special_values if shapes[i] is not None else ()
                for value in values:
                    tensors = draw(subject, shapes, dtype, device)
                    tensors[i] = torch.full_like(tensors[i], value)
                    (outputs, got), (wanted, want) = (gradients(subject, f, tensors) for f in functions)
                    names = result_names(subject, tensors)
                    for name, one, other in zip(names, [*outputs, *got], [*wanted, *want], strict=True):
                        lost = one.isnan() & ~other.isnan()
                        if lost.any():
                            true = number(other[lost][0])
                            yield f"{name} is no number at {own.name}={value!r} {dtype}, by the composite {true}"
                if values:
                    tensors = draw(subject, shapes, dtype, device)
                    tensors[i] = torch.full_like(tensors[i], math.nan)
                    results = (listed(subject, f(*tensors)) for f in functions)
                    for name, one, other in zip(subject.outputs, *results, strict=True):
                        if (other.isnan() & ~one.isnan()).any():
                            yield f"{name} at {own.name}=nan is {number(one.flatten()[0])}, by the composite nan"


@check()
def extremes(subject: Subject, device: str) -> Iterator[str]:
    """In float32, nothing overflows or is lost that float64 says is a number of moderate size.

    With operations on whole tensors in it, whose forms are not measured, nothing that the formula keeps in float32.
    """
    for settings in subject.settings:
        for scale in (1.0, 30.0, 1000.0):
            tensors = draw(subject, dtype=torch.float32, device=device)
            for i, t in enumerate(tensors):
                low, high = subject.inputs[i].domain
                if t is not None and t.is_floating_point() and low < -1e3 and high > 1e3:
                    tensors[i] = t * scale
            outputs, got = gradients(subject, bound(subject.call, settings), tensors)
            values, want = expected(subject, settings, cast(tensors, torch.float64))
            plain = reference(subject, settings)
            usual = repeat(None) if subject.pointwise else chain(*gradients(subject, plain, tensors))
            names = result_names(subject, tensors)
            for name, one, other, own in zip(names, [*outputs, *got], [*values, *want], usual, strict=False):
                if not one.is_floating_point() or one.shape != other.shape:
                    continue
                lost = ~one.isfinite() & (other.abs() < 1e30)
                if own is not None:
                    lost &= own.isfinite()
                if lost.any():
                    where = f"where inputs are {scale:g} times as large, {subject.described(None, settings)}"
                    yield f"{name} is {number(one[lost][0])} {where}; in float64 it is {number(other[lost][0])}"
