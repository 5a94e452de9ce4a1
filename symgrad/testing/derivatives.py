"""Checks of reverse mode: finite differences, what backward returns, undefined cotangents, forward over reverse."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.autograd import gradcheck, gradgradcheck

from symgrad.testing.checks import brief, check
from symgrad.testing.compare import differences, gradient_names
from symgrad.testing.facts import Settings, Shapes, Subject
from symgrad.testing.reference import expected, reference, undefined
from symgrad.testing.samples import (
    bound,
    closed,
    descended,
    draw,
    every,
    forward_ad,
    gradients,
    leaves,
    listed,
    present,
    scalar,
    smooth,
    total,
)


@check(applies=lambda subject: bool(subject.derived) and not subject.detached)
def finite_differences(subject: Subject, device: str) -> Iterator[str]:
    """gradcheck, with forward mode, batched and undefined gradients and dtypes."""
    for shapes, settings in subject.cases():
        tensors = leaves(subject, draw(subject, shapes, device=device), subject.derived)
        f, x = closed(subject, smooth(subject, bound(subject.call, settings)), tensors, subject.derived)
        if not x:
            continue
        try:
            gradcheck(
                f,
                x,
                fast_mode=sum(t.numel() for t in x) > 8,
                check_forward_ad=subject.linear,
                check_batched_grad=True,
                check_batched_forward_grad=subject.linear,
                check_undefined_grad=True,
                check_grad_dtypes=True,
            )
        except RuntimeError as error:
            yield from _told("gradcheck", error, subject, shapes, settings, tensors)


def _told(
    by: str, error: RuntimeError, subject: Subject, shapes: Shapes, settings: Settings, tensors: Sequence[Any]
) -> Iterator[str]:
    """What differences say against a derivative; nothing where the formula is not finite itself, at shapes that were
    chosen without knowing it."""
    hint = undefined(subject, settings, tensors)
    if not hint or shapes == subject.first:
        yield f"{by} {subject.described(shapes, settings)}: {brief(error)}{hint}"


@check(applies=lambda subject: subject.twice and not subject.detached)
def second_differences(subject: Subject, device: str) -> Iterator[str]:
    """gradgradcheck, with forward over reverse and batched gradients."""
    for shapes, settings in subject.cases():
        tensors = leaves(subject, draw(subject, shapes, device=device))
        f, x = closed(subject, smooth(subject, bound(subject.call, settings)), tensors)
        if not x:
            continue
        outputs, found = gradients(subject, bound(subject.call, settings), tensors)
        largest = max([1.0, *(t.double().abs().max().item() for t in (*outputs, *found) if t.numel())])
        try:
            gradgradcheck(
                f,
                x,
                atol=1e-5 * largest,  # finite differences of large numbers are noise
                gen_non_contig_grad_outputs=True,
                check_fwd_over_rev=subject.linear,
                check_rev_over_rev=True,
                check_batched_grad=True,
                fast_mode=sum(t.numel() for t in x) > 4,
            )
        except RuntimeError as error:
            yield from _told("gradgradcheck", error, subject, shapes, settings, tensors)


@check(applies=lambda subject: bool(subject.places))
def backward_returns(subject: Subject, device: str) -> Iterator[str]:
    """backward itself returns gradients only where asked, in the shape, dtype and device of each tensor."""
    for settings in subject.settings:
        cases = itertools.product(subject.all_shapes, subject.subsets(), (torch.float64, torch.float16))
        for shapes, wanted, dtype in cases:
            tensors = draw(subject, shapes, dtype, device)
            head = next((i for i in subject.places if tensors[i] is not None), None)
            if subject.mixes and len(tensors) > 1 and head is not None:
                tensors[head] = tensors[head].to(torch.float32)
            arguments = leaves(subject, tensors, wanted)
            outputs = listed(subject, bound(subject.call, settings)(*arguments))
            node = node_of(outputs)
            if node is None:
                continue
            found = node.apply(*cotangents_of(node, outputs))
            found = found if isinstance(found, tuple) else (found,)
            case = subject.described(shapes, settings)
            if len(found) < len(tensors):
                yield f"backward returns {len(found)} values for {len(tensors)} tensors {case}"
                continue
            if any(g is not None for g in found[len(tensors) :]):
                yield f"backward returns a gradient for what is no tensor {case}"
            for i, (argument, g) in enumerate(zip(arguments, found, strict=False)):
                name = f"the gradient of {subject.inputs[i].name} that backward returns"
                if g is None:
                    continue
                if not argument.requires_grad:
                    yield f"{name} is computed where nobody asked for it {case}"
                else:
                    yield from differences([name], [g], [argument], case=case, values=False, against="the tensor")


def node_of(outputs: Any) -> Any:
    """The Function's node in the graph, None where there is none."""
    nodes = (y.grad_fn for y in outputs if y.grad_fn is not None)
    return next((n for n in nodes if hasattr(n, "apply") and hasattr(type(n), "_forward_cls")), None)


def cotangents_of(node: Any, outputs: Any, value: Any = 1) -> list[Any]:
    """Ones for the outputs, or None, and None for what ``forward`` returns beside them."""
    given = [torch.full_like(y, value) if value is not None and y.is_floating_point() else None for y in outputs]
    parameters = list(inspect.signature(type(node)._forward_cls.backward).parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return given
    return given + [None] * (len(parameters) - 1 - len(given))


@check(applies=lambda subject: bool(subject.places) and len(subject.live) > 1)
def undefined_cotangents(subject: Subject, device: str) -> Iterator[str]:
    """Each output alone gives its own part of the gradients."""
    settings = subject.settings[0]
    arguments = leaves(subject, draw(subject, device=device))
    outputs = listed(subject, bound(subject.call, settings)(*arguments))
    wrt = [arguments[i] for i in present(arguments, subject.places)]
    theirs, x = closed(subject, reference(subject, settings), leaves(subject, draw(subject, device=device)))
    for i in subject.live:
        got = descended(outputs[i].sum(), wrt, retain_graph=True)
        want = descended(listed(subject, theirs(*x))[i].sum(), x)
        names = gradient_names(subject, present(arguments, subject.places))
        yield from differences(names, got, want, case=f"from {subject.outputs[i]} alone", subject=subject)


@check(kind="cost", applies=lambda subject: bool(subject.places))
def materialised_cotangents(subject: Subject, device: str) -> Iterator[str]:
    """Where no cotangent arrives, backward makes no gradients, neither of its own nor of zeros that torch put there."""
    arguments = leaves(subject, draw(subject, device=device))
    outputs = listed(subject, bound(subject.call, subject.settings[0])(*arguments))
    node, roots = node_of(outputs), [y for y in outputs if y.requires_grad]
    undefined = getattr(torch._C._functions, "UndefinedGrad", None)
    if node is None or undefined is None or not roots:
        return
    places = present(arguments, subject.places)
    cut = torch.stack([undefined()(y).sum().double() for y in roots]).sum()
    wrt = [arguments[i] for i in places]
    found = torch.autograd.grad(cut, wrt, retain_graph=True, allow_unused=True)
    for name, g in zip(gradient_names(subject, places), found, strict=True):
        if g is not None:
            yield f"{name} is made of zeros where no cotangent arrives: set_materialize_grads(False) is missing"
    if all(g is None for g in found):
        direct = node.apply(*cotangents_of(node, outputs, None))
        if any(g is not None for g in (direct if isinstance(direct, tuple) else (direct,))):
            yield "backward of no cotangent at all returns gradients: it should return None for each"


@check(applies=lambda subject: subject.twice and subject.linear)
def forward_over_reverse(subject: Subject, device: str) -> Iterator[str]:
    """Tangents of gradients, with and without a recorded backward, outside of torch.func."""
    for settings in subject.settings:
        results = []
        for function in (bound(subject.call, settings), reference(subject, settings)):
            found = []
            for recorded in (False, True):
                with forward_ad.dual_level():
                    f, x = closed(subject, function, leaves(subject, draw(subject, device=device)))
                    duals = [forward_ad.make_dual(t, torch.cos(t.detach())) for t in x]
                    first = descended(total(subject, f(*duals)), duals, create_graph=recorded)
                    pairs = [forward_ad.unpack_dual(g) for g in first]
                    found += [torch.zeros_like(p.primal) if p.tangent is None else p.tangent for p in pairs]
            results.append([t.detach() for t in found])
        present_names = gradient_names(subject, present(draw(subject), subject.places))
        names = [f"the tangent of {n}{' that is recorded' * k}" for k in (0, 1) for n in present_names]
        yield from differences(names, *results, case=subject.described(None, settings), subject=subject)


@check(applies=lambda subject: subject.once)
def second_derivatives_raise(subject: Subject, device: str) -> Iterator[str]:
    """Where there is no second derivative, autograd and torch.func say so and return no zeros."""
    call = bound(subject.call, subject.settings[0])
    f, x = closed(subject, call, leaves(subject, draw(subject, device=device)))
    result = total(subject, f(*x))
    if not result.requires_grad:
        return
    given = torch.autograd.grad(result, x, create_graph=True, allow_unused=True)
    if all(g is None for g in given):  # of a constant, whose second derivatives are none, too
        return
    first = [torch.zeros_like(t) if g is None else g for g, t in zip(given, x, strict=True)]
    want = expected(subject, subject.settings[0], draw(subject, device=device))[1]
    yield from differences(gradient_names(subject, subject.places), first, want, case="recorded", subject=subject)
    inputs = tuple(t.detach() for t in x)

    def of_gradients() -> Any:
        return torch.autograd.grad(torch.stack([g.sum() for g in first]).sum(), x, allow_unused=True)

    def of_tangents() -> Any:
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(t, torch.ones_like(t)) for t in x]
            return torch.autograd.grad(total(subject, f(*duals)), duals, create_graph=True)

    of, places = scalar(subject, f), every(inputs)
    ways = {
        "autograd.grad of a gradient": of_gradients,
        "forward over reverse": of_tangents,
        "hessian": lambda: torch.func.hessian(of, places)(*inputs),
        "jacfwd of jacfwd": lambda: torch.func.jacfwd(torch.func.jacfwd(of, places), places)(*inputs),
        "grad of grad": lambda: torch.func.jacrev(torch.func.jacrev(of, places), places)(*inputs),
    }
    for name, way in ways.items():
        try:
            way()  # type: ignore[no-untyped-call]
        except RuntimeError:
            continue
        yield f"{name} returns a result, though there are no second derivatives"
