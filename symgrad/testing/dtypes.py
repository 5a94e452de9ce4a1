"""Checks of dtypes, devices, layouts and of what is refused."""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from symgrad.testing.checks import check
from symgrad.testing.compare import differences, gradient_names, number
from symgrad.testing.derivatives import cotangents_of, node_of
from symgrad.testing.facts import Settings, Subject
from symgrad.testing.samples import (
    bound,
    closed,
    composite,
    draw,
    dtypes,
    expected,
    forward_ad,
    gradients,
    has_values,
    leaves,
    listed,
    present,
    reference,
    total,
)

_HALF = (torch.float16, torch.bfloat16)
_TOTALS = 8  # draws of what is reduced: a number that is rounded is exact in some of them
_MANY = 60_000  # elements: fewer than fused passes serve by themselves, for which they would be compiled
_ALIKE = 203  # terms: no power of two, which would round as one term does


def _of_composite(subject: Subject, tensors: Sequence[Any], settings: Settings | None = None) -> list[Tensor]:
    """What the composite returns; of meta tensors where torch has no kernel for the dtype, of such in float64 where it
    refuses these too: its linear algebra knows no half precision."""
    formula = composite(subject, subject.settings[0] if settings is None else settings)
    try:
        return listed(subject, formula(*tensors))
    except (NotImplementedError, RuntimeError):
        blank = [t.to("meta") if isinstance(t, Tensor) else t for t in tensors]
    try:
        return listed(subject, formula(*blank))
    except (NotImplementedError, RuntimeError):
        kinds = [t.dtype for t in blank if isinstance(t, Tensor) and t.is_floating_point()]
        kind = functools.reduce(torch.promote_types, kinds)
        outputs = listed(subject, formula(*_cast(blank, torch.float64)))
        return [y.to(kind) if y.is_floating_point() else y for y in outputs]


def _short(tensors: Sequence[Any]) -> str:
    kinds = (str(getattr(t, "dtype", type(t).__name__)).removeprefix("torch.") for t in tensors)
    return f"of ({', '.join(kinds)})"


def _kinds(subject: Subject, names: Sequence[str], got: Sequence[Any], want: Sequence[Any], case: str) -> Iterator[str]:
    shown = [t.to("meta") if isinstance(t, Tensor) else t for t in got]
    yield from differences(names, shown, [t.to("meta") for t in want], case=case, subject=subject, values=False)


@check()
def result_dtypes(subject: Subject, device: str) -> Iterator[str]:
    """Every mix of dtypes gives results of the composite's dtype and shape; gradients and tangents have their own."""
    mixed = subject.full_shapes[:1] + tuple(s for s in subject.full_shapes[1:] if _is_clear(subject, s))
    for k, tensors in enumerate(x for shapes in mixed for x in dtypes(subject, shapes, device)):
        case = f"{_short(tensors)} {subject.described(_shapes(tensors), {})}"
        outputs, found = gradients(subject, bound(subject.call, subject.settings[0]), tensors)
        yield from _kinds(subject, subject.outputs, outputs, _of_composite(subject, tensors), case)
        yield from _digits(subject, outputs, tensors, case)
        places = present(tensors, subject.places)
        yield from _kinds(subject, gradient_names(subject, places), found, [tensors[i] for i in places], case)
        if places and subject.linear and not k % 5:
            f, x = closed(subject, bound(subject.call, subject.settings[0]), tensors)
            pairs = [torch.func.jvp(f, x, x)]
            values, tangents = (listed(subject, v) for v in pairs[0])
            live = [i for i in subject.live if values[i].is_floating_point()]
            names = [f"the tangent of {subject.outputs[i]}" for i in live]
            yield from _kinds(subject, names, [tangents[i] for i in live], [values[i] for i in live], case)
    for settings in subject.settings[1:]:
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            tensors = draw(subject, dtype=dtype, device=device)
            outputs, found = gradients(subject, bound(subject.call, settings), tensors)
            case = f"{_short(tensors)} {subject.described(None, settings)}"
            yield from _kinds(subject, subject.outputs, outputs, _of_composite(subject, tensors, settings), case)
            wanted = [tensors[i] for i in present(tensors, subject.places)]
            yield from _kinds(subject, gradient_names(subject, subject.places), found, wanted, case)


def _digits(subject: Subject, outputs: Sequence[Tensor], tensors: Sequence[Any], case: str) -> Iterator[str]:
    """A result in float64 has its digits, or as many as the composite's, whatever else is among the tensors."""
    given = [t for t in tensors if isinstance(t, Tensor) and t.is_floating_point()]
    with _default_dtype(torch.float64):  # in which functions of integers are computed
        exact = listed(subject, composite(subject, subject.settings[0])(*_cast(tensors, torch.float64)))
    for k, (name, one, true) in enumerate(zip(subject.outputs, outputs, exact, strict=True)):
        if one.dtype != torch.float64 or not one.numel() or any(t.dim() == 0 for t in given):
            continue
        error, size = float((one - true).abs().max()), 1 + float(true.abs().max())
        if error > 1e-12 * size:
            theirs = _of_composite(subject, tensors)[k]
            lost = 0.0 if theirs.is_meta else float((theirs.double() - true).abs().max())
            if error > 2 * lost:
                yield f"{name} {case} is of float64 and {error:.3g} off, the composite {lost:.3g}"


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _shapes(tensors: Sequence[Any]) -> Any:
    return tuple(None if t is None else tuple(t.shape) for t in tensors)


def _is_clear(subject: Subject, shapes: Any) -> bool:
    """Whether the dtype does not depend on the order of operations: a float without dimensions beside others does."""
    floats = [s for s, t in zip(shapes, subject.inputs, strict=True) if t.dtype == "float"]
    others = [s for s, t in zip(shapes, subject.inputs, strict=True) if t.dtype != "float"]
    return () not in floats or not any([*others, *(() if subject.pointwise else floats)])


@check(applies=lambda subject: bool(subject.numbers))
def python_numbers(subject: Subject, device: str) -> Iterator[str]:
    """A Python number stands for a tensor without dimensions, and promotes like one."""
    settings = subject.settings[0]
    for i, value in itertools.product(range(len(subject.inputs)), subject.numbers):
        for dtype in (*_HALF, torch.float32, torch.float64):
            tensors = draw(subject, (subject.first[0],) * len(subject.inputs), dtype, device)
            tensors[i] = value
            got = listed(subject, bound(subject.call, settings)(*tensors))
            tensors[i] = torch.tensor(value, device=device)
            want = _of_composite(subject, tensors)
            case = f"with {subject.inputs[i].name}={value!r} {_short(tensors)}"
            yield from _kinds(subject, subject.outputs, got, want, case)
            doubles = [t.double() if t.is_floating_point() else t for t in tensors]
            exact = listed(subject, composite(subject, settings)(*doubles))
            rounded = [y.to(w.dtype) for y, w in zip(exact, want, strict=True)]
            yield from differences(subject.outputs, got, rounded, case=case, tolerance=(2e-2, 2e-2))


@check(applies=lambda subject: bool(subject.live))
def half_precision(subject: Subject, device: str) -> Iterator[str]:
    """In float16 and bfloat16 results are the true ones rounded once, or as near as the composite's."""
    shapes = ((64,),) * len(subject.inputs) if subject.broadcasts else subject.first
    seeds = range(1 if subject.pointwise else _TOTALS)
    for dtype, settings in itertools.product(_HALF, subject.settings):
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
    exact, single = (_cast(x, d) for d in (torch.float64, torch.float32))
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


def _cast(tensors: Sequence[Any], dtype: torch.dtype) -> list[Any]:
    return [t.to(dtype) if t is not None and t.is_floating_point() else t for t in tensors]


def _unweighted(subject: Subject, function: Any, tensors: Sequence[Any]) -> list[Tensor]:
    """The outputs that are differentiated, and the gradients of their sum."""
    arguments = leaves(subject, tensors)
    returned = listed(subject, function(*arguments))  # of one call: each rounds its gradients
    outputs = [returned[i] for i in subject.live]
    roots = [y for y in outputs if y.requires_grad]
    wrt = [t for t in arguments if t is not None and t.requires_grad]
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
        outputs, exact = expected(subject, settings, _cast(x, torch.float64))
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
            (subject.call, _cast(x, torch.float32)),
            (subject.composite, _cast(x, torch.float64)),
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


@check()
def complex_arguments(subject: Subject, device: str) -> Iterator[str]:
    """A complex tensor is refused, or has the composite's value."""
    settings = subject.settings[0]
    for i, t in enumerate(draw(subject)):
        if t is None or not t.is_floating_point():
            continue
        x = draw(subject, device=device)
        x[i] = x[i].to(torch.complex128) * (1 + 0.5j)  # of real numbers all conjugates are right
        try:
            got = listed(subject, bound(subject.call, settings)(*x))
        except (TypeError, RuntimeError):
            continue
        try:
            want = listed(subject, composite(subject, settings)(*x))
        except (NotImplementedError, RuntimeError):
            continue
        case = f"of a complex {subject.inputs[i].name}"
        found = list(differences(subject.outputs, got, want, case=case))
        if not found and subject.places:
            results = [_complex_gradients(subject, f, x) for f in (subject.call, subject.composite)]
            found = list(differences(gradient_names(subject, present(x, subject.places)), *results, case=case))
        yield from found


def _complex_gradients(subject: Subject, function: Any, tensors: Sequence[Any]) -> list[Tensor]:
    arguments = leaves(subject, tensors)
    outputs = listed(subject, bound(function, subject.settings[0])(*arguments))
    wrt = [arguments[i] for i in present(arguments, subject.places)]
    roots = [y.abs().sum() for i, y in enumerate(outputs) if i in subject.live and y.requires_grad]
    return list(torch.autograd.grad(torch.stack(roots).sum(), wrt, materialize_grads=True)) if roots else []


@check(applies=lambda subject: bool(subject.refused), on_devices=False)
def bad_hyperparameters(subject: Subject, device: str) -> Iterator[str]:
    """A hyperparameter of a wrong type or outside of its domain is refused by name."""
    for name, value, error in subject.refused:
        settings = {**subject.settings[0], name: value}
        sentence = _refusal(lambda s=settings: subject.call(*draw(subject), **s), error, name)  # type: ignore[misc]
        if sentence:
            yield f"{name}={value!r} {sentence}"


@check(applies=lambda subject: bool(subject.bad_shapes), on_devices=False)
def bad_shapes(subject: Subject, device: str) -> Iterator[str]:
    """Tensors whose shapes contradict the declared ones are refused."""
    call = bound(subject.call, subject.settings[0])
    for shapes in subject.bad_shapes:
        tensors = [
            None if s is None else t.new_zeros(s) if t is not None else torch.zeros(s, dtype=torch.float64)
            for s, t in zip(shapes, draw(subject), strict=True)
        ]
        sentence = _refusal(lambda x=tensors: call(*x), ValueError, subject.name)  # type: ignore[misc]
        if sentence:
            yield f"shapes {', '.join(map(str, shapes))} {sentence}"


def _refusal(call: Callable[[], Any], error: type[Exception], named: str) -> str:
    """What is wrong with how a call is refused, if anything."""
    try:
        call()
    except error as raised:
        return "" if named in str(raised) else f"are refused without naming {named}: {raised}"
    except Exception as raised:
        return f"raise {type(raised).__name__}, not {error.__name__}: {raised}"
    return "are accepted"


_LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda t: t.mT.contiguous().mT if t.dim() > 1 else t,
    "strided": lambda t: torch.stack([t, t], -1)[..., 0],
    "expanded": lambda t: t[..., :1].expand(t.shape) if t.dim() else t,
}


@check()
def layouts(subject: Subject, device: str) -> Iterator[str]:
    """Transposed, strided and expanded tensors give what contiguous ones give."""
    shapes = ((4, 6),) * len(subject.inputs) if subject.broadcasts else subject.first
    for name, layout in _LAYOUTS.items():
        x = [t if t is None else layout(t) for t in draw(subject, shapes, device=device)]
        given = [t if t is None else t.requires_grad_(i in subject.places) for i, t in enumerate(x)]
        f, wrt = closed(subject, bound(subject.call, subject.settings[0]), given)
        outputs = listed(subject, f(*wrt))
        result = total(subject, outputs) if subject.live else None
        found: Sequence[Tensor] = [torch.zeros_like(t) for t in wrt]
        if result is not None and result.requires_grad:
            found = torch.autograd.grad(result, wrt, materialize_grads=True)
        want = expected(subject, subject.settings[0], x)
        names = [*subject.outputs, *gradient_names(subject, present(x, subject.places))]
        got = [t.detach() for t in (*outputs, *found)][: len(want[0]) + len(want[1])]
        every = len(got) if has_values(want[0]) else len(want[0])  # expanded ones may leave the formula's domain
        pairs = names[:every], got[:every], [*want[0], *want[1]][:every]
        found_wrong = list(differences(*pairs, case=f"of {name} tensors", subject=subject))
        yield from found_wrong
        if not found_wrong and every == len(got) and wrt and result is not None and subject.linear:
            yield from _pushed(
                subject,
                f,
                [t.detach().clone(memory_format=torch.contiguous_format) for t in wrt],
                want[1],
                f"of {name} tensors",
            )


def _pushed(
    subject: Subject, function: Any, wrt: Sequence[Tensor], gradients: Sequence[Tensor], case: str
) -> Iterator[str]:
    """What forward mode makes of a total is the tangents' share in its gradients, among equal elements too."""
    tangents = [torch.linspace(0.5, 1.5, t.numel()).to(t).reshape(t.shape) for t in wrt]
    pushed = torch.func.jvp(lambda *x: total(subject, listed(subject, function(*x))), tuple(wrt), tuple(tangents))[1]
    parts = [g * t for g, t in zip(gradients, tangents, strict=True)]
    want, size = (sum(float(f(p)) for p in parts) for f in (torch.sum, lambda p: p.abs().sum()))
    if math.isfinite(want) and not abs(float(pushed) - want) <= 1e-6 * size + 1e-9:
        yield f"the tangent {case} is {number(pushed)}, by gradients {number(torch.tensor(want))}"


@check(on_devices=False)
def devices(subject: Subject, device: str) -> Iterator[str]:
    """Results are on the device of the tensors, zeros among them: seen on meta tensors, which no machine lacks."""
    for settings in subject.settings:
        x = draw(subject, device="meta")
        case = f"of meta tensors {subject.described(None, settings)}"
        ours = bound(subject.call, settings)
        got, want = (gradients(subject, f, x) for f in (ours, composite(subject, settings)))
        places = present(x, subject.places)
        yield from differences(
            [*subject.outputs, *gradient_names(subject, places)], [*got[0], *got[1]], [*want[0], *want[1]], case=case
        )
        for wanted in subject.subsets():
            arguments = leaves(subject, x, wanted)
            outputs = listed(subject, ours(*arguments))
            node = node_of(outputs)
            for k in subject.live if node is not None else ():
                cotangents = [g if i == k else None for i, g in enumerate(cotangents_of(node, outputs))]
                found = node.apply(*cotangents)
                for i, g in enumerate(found if isinstance(found, tuple) else (found,)):
                    if g is not None and not g.is_meta:
                        names = f"the gradient of {subject.inputs[i].name} from {subject.outputs[k]}"
                        yield f"{names} {case} is made on device {g.device}"
        for i in places if subject.linear else ():
            yield from _tangents_on(subject, ours, x, i, case)


def _tangents_on(subject: Subject, function: Any, x: Sequence[Any], place: int, case: str) -> Iterator[str]:
    with forward_ad.dual_level(), warnings.catch_warnings():
        duals = [forward_ad.make_dual(t, torch.ones_like(t)) if i == place else t for i, t in enumerate(x)]
        for name, y in zip(subject.outputs, listed(subject, function(*duals)), strict=True):
            tangent = forward_ad.unpack_dual(y).tangent
            if tangent is not None and not tangent.is_meta:
                yield f"the tangent of {name} {case} is on {tangent.device}"
