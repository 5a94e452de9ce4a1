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
from symgrad.testing.compare import differences, gradient_names, number, result_names
from symgrad.testing.derivatives import cotangents_of, node_of
from symgrad.testing.facts import Settings, Subject
from symgrad.testing.half import HALF
from symgrad.testing.reference import all_expected, expected, has_values
from symgrad.testing.rounding import unexplained
from symgrad.testing.samples import (
    bound,
    cast,
    closed,
    composite,
    descended,
    draw,
    dtypes,
    forward_ad,
    gradients,
    leaves,
    listed,
    present,
    total,
)


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
        if _mixes(formula, blank):
            kind = torch.promote_types(kind, torch.get_default_dtype())
        outputs = listed(subject, formula(*cast(blank, torch.float64)))
        return [y.to(kind) if y.is_floating_point() else y for y in outputs]


def _mixes(formula: Callable[..., Any], blank: Sequence[Any]) -> bool:
    """Whether a product in a formula has an operand of torch's default dtype, such as `0.9 ** arange(n)`: torch refuses
    such a product with an operand of another dtype."""
    with _default_dtype(torch.float64):
        try:
            formula(*cast(blank, torch.float32))
        except RuntimeError:
            return True
    return False


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
            values, tangents = (listed(subject, v) for v in torch.func.jvp(f, x, x))
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
        exact = listed(subject, composite(subject, subject.settings[0])(*cast(tensors, torch.float64)))
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
        for dtype in (*HALF, torch.float32, torch.float64):
            tensors = draw(subject, (subject.first[0],) * len(subject.inputs), dtype, device)
            tensors[i] = value
            got = listed(subject, bound(subject.call, settings)(*tensors))
            tensors[i] = torch.tensor(value, device=device)
            want = _of_composite(subject, tensors)
            case = f"with {subject.inputs[i].name}={value!r} {_short(tensors)}"
            yield from _kinds(subject, subject.outputs, got, want, case)
            exact = listed(subject, composite(subject, settings)(*cast(tensors, torch.float64)))
            rounded = [y.to(w.dtype) for y, w in zip(exact, want, strict=True)]
            yield from differences(subject.outputs, got, rounded, case=case, tolerance=(2e-2, 2e-2))


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
        found = descended(total(subject, outputs), wrt) if wrt else []
        want = expected(subject, subject.settings[0], x)
        names = result_names(subject, x)
        got = [t.detach() for t in (*outputs, *found)]
        every = len(got) if has_values(want[0]) else len(want[0])  # expanded ones may leave the formula's domain
        pairs = names[:every], got[:every], [*want[0], *want[1]][:every]
        again = functools.partial(_first_expected, subject, x, every)
        found_wrong = list(unexplained(*pairs, again, case=f"of {name} tensors", subject=subject))
        yield from found_wrong
        if not found_wrong and every == len(got) and wrt and subject.linear:
            contiguous = [t.detach().clone(memory_format=torch.contiguous_format) for t in wrt]
            yield from _pushed(subject, f, contiguous, want[1], f"of {name} tensors")


def _first_expected(subject: Subject, tensors: list[Any], count: int) -> list[Tensor]:
    return all_expected(subject, subject.settings[0], tensors)[:count]


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
        results = [[*outputs, *found] for outputs, found in (got, want)]
        yield from differences(result_names(subject, x), *results, case=case)
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
        for i in present(x, subject.places) if subject.linear else ():
            yield from _tangents_on(subject, ours, x, i, case)


def _tangents_on(subject: Subject, function: Any, x: Sequence[Any], place: int, case: str) -> Iterator[str]:
    with forward_ad.dual_level(), warnings.catch_warnings():
        duals = [forward_ad.make_dual(t, torch.ones_like(t)) if i == place else t for i, t in enumerate(x)]
        for name, y in zip(subject.outputs, listed(subject, function(*duals)), strict=True):
            tangent = forward_ad.unpack_dual(y).tangent
            if tangent is not None and not tangent.is_meta:
                yield f"the tangent of {name} {case} is on {tangent.device}"
