"""Checks of what stands beside a function: its nn.Module, and the variant that overwrites a tensor."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from symgrad.testing.checks import check
from symgrad.testing.compare import differences, result_names
from symgrad.testing.facts import Settings, Shapes, Subject
from symgrad.testing.reference import reference
from symgrad.testing.samples import bound, composite, descended, draw, gradients, leaves, listed, total
from symgrad.testing.transforms import torch_func


@check(applies=lambda subject: subject.module is not None, on_devices=False)
def as_module(subject: Subject, device: str) -> Iterator[str]:
    """The nn.Module computes the operation, in every setting, and is copied, pickled, saved and reset as it should."""
    shapes = subject.module_shapes or subject.first
    for settings in subject.settings:
        owned = {"device": "cpu", "dtype": torch.float64} if subject.parameters else {}
        named = {subject.arguments.get(name, name): value for name, value in settings.items()}
        arguments = {**subject.constructor, **named, **owned}
        module = subject.module(**arguments)
        x = draw(subject, shapes)
        with torch.no_grad():
            for p in module.parameters():
                p.add_(torch.linspace(0, 0.125, p.numel(), dtype=p.dtype).view(p.shape))
        for i, t in enumerate(subject.inputs):
            if t.name in subject.parameters:
                x[i] = getattr(module, subject.attributes.get(t.name, t.name))
        given = [v for t, v in zip(subject.inputs, x, strict=True) if t.name not in subject.parameters]
        case = f"of the module {subject.described(None, settings)}"
        outputs = listed(subject, module(*given))
        want = listed(subject, composite(subject, settings)(*x))
        yield from differences(subject.outputs, outputs, want, case=case, subject=subject, tensors=x)
        for what, twin in (("copied", copy.deepcopy(module)), ("pickled", pickle.loads(pickle.dumps(module)))):
            found = listed(subject, twin(*given))
            yield from differences(
                subject.outputs, found, outputs, case=f"{case}, {what},", against="the module itself"
            )
        for name, value in settings.items():
            if f"{value!r}" not in repr(module):
                yield f"repr(module) is {module!r}: it does not show {name}={value!r}"
        if subject.parameters:
            yield from _parameters(subject, module, arguments, x, given, settings)


def _parameters(
    subject: Subject, module: Any, arguments: dict[str, Any], x: list[Any], given: list[Any], settings: Settings
) -> Iterator[str]:
    attributes = {t: subject.attributes.get(t, t) for t in subject.parameters}
    own = [getattr(module, a) for a in attributes.values()]
    if subject.live:
        wrt: list[Any] = [t if t is None else t.detach().requires_grad_(t.is_floating_point()) for t in x]
        found = descended(total(subject, module(*given)), own)
        names = {t.name: i for i, t in enumerate(subject.inputs)}
        want = descended(total(subject, reference(subject, settings)(*wrt)), [wrt[names[t]] for t in attributes])
        yield from differences(
            [f"the gradient of module.{a}" for a in attributes.values()], found, want, subject=subject
        )
    meta = subject.module(**{**arguments, "device": "meta"})
    for tensor, attribute in attributes.items():
        if getattr(module, attribute).dtype != torch.float64:
            yield f"module.{attribute} is not of the dtype that was asked for"
        if not getattr(meta, attribute).is_meta:
            yield f"module.{attribute} is not on the device that was asked for"
        if f"{subject.parameters[tensor]}" not in repr(module):
            yield f"repr(module) is {module!r}: it does not show {tensor}={subject.parameters[tensor]}"
    other = subject.module(**arguments)
    with torch.no_grad():
        for p in other.parameters():
            p.fill_(3)
    module.load_state_dict(other.state_dict())
    if not all(bool((p == 3).all()) for p in module.parameters()):
        yield "load_state_dict does not reach all parameters"
    module.reset_parameters()
    for tensor, attribute in attributes.items():
        if not bool((getattr(module, attribute) == subject.parameters[tensor]).all()):
            yield f"reset_parameters does not set {attribute} to {subject.parameters[tensor]}"


# ------------------------------------------------------------------------------------------ in place
def _overwriting(subject: Subject, settings: Settings) -> Callable[..., Any]:
    """The in-place variant, on a clone."""
    assert subject.inplace is not None
    variant, place = bound(subject.inplace, settings), _place(subject)

    def called(*tensors: Any) -> Any:
        changed = [*tensors]
        changed[place] = changed[place].clone()
        return variant(*changed)

    return called


def _place(subject: Subject) -> int:
    return next(i for i, t in enumerate(subject.inputs) if t.name == subject.inplace_of)


def _shapes(subject: Subject, place: int) -> Shapes:
    """The first shapes, if the tensor that is overwritten has room for the result; else all are of its shape."""
    result = listed(subject, composite(subject, subject.settings[0])(*draw(subject)))[0]
    room = subject.first[place]
    return subject.first if tuple(result.shape) == room else (room,) * len(subject.inputs)


@check(applies=lambda subject: subject.inplace is not None)
def in_place(subject: Subject, device: str) -> Iterator[str]:
    """The in-place variant returns the tensor that it overwrote, refuses leaves, and has the same derivatives."""
    place = _place(subject)
    shapes = _shapes(subject, place)
    for settings in subject.settings:
        assert subject.inplace is not None
        variant = bound(subject.inplace, settings)
        tensors = draw(subject, shapes, device=device)
        want = listed(subject, composite(subject, settings)(*tensors))
        version = tensors[place]._version
        result = variant(*tensors)
        if result is not tensors[place]:
            yield f"the result is not {subject.inplace_of} itself"
        if tensors[place]._version == version:
            yield f"{subject.inplace_of} was changed without autograd's knowledge"
        yield from differences(subject.outputs, [result], want, case="in place", subject=subject)
        try:
            variant(*leaves(subject, draw(subject, shapes, device=device)))
            yield "a leaf that requires grad is overwritten"
        except RuntimeError:
            pass
        x = draw(subject, shapes, device=device)
        for wanted in subject.subsets():
            got, true = (
                gradients(subject, f, x, wanted)
                for f in (_overwriting(subject, settings), reference(subject, settings))
            )
            names = result_names(subject, x, wanted)
            yield from differences(names, [*got[0], *got[1]], [*true[0], *true[1]], case="in place", subject=subject)


@check(applies=lambda subject: subject.inplace is not None and subject.linear and bool(subject.places))
def in_place_torch_func(subject: Subject, device: str) -> Iterator[str]:
    """The transforms of torch.func on the in-place variant are those of the composite."""
    place = _place(subject)
    variant = replace(
        subject,
        call=lambda *tensors, **settings: _overwriting(subject, settings)(*tensors),
        function=None,
        shapes=(_shapes(subject, place),),
    )
    yield from torch_func(variant, device)
