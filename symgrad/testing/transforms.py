"""Checks of torch.func: every transform and nesting gives what it gives for the composite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from torch.utils import _pytree as pytree

from symgrad.testing.checks import check
from symgrad.testing.compare import differences
from symgrad.testing.facts import Subject
from symgrad.testing.reference import reference
from symgrad.testing.rounding import unexplained
from symgrad.testing.samples import (
    applied,
    bound,
    closed,
    composite,
    descended,
    draw,
    every,
    leaves,
    present,
    scalar,
    smooth,
    stacked,
    total,
)

Transform = Callable[[Subject, Any, Any, Any], Any]

# Of a subject, a function f, its tensors x, and others t that serve as tangents and as a second element of batches.
_REVERSE: dict[str, Transform] = {
    "grad": lambda s, f, x, t: grad(scalar(s, f), every(x))(*x),
    "vmap": lambda s, f, x, t: vmap(f)(*stacked(x, t)),
    "vmap of grad": lambda s, f, x, t: vmap(grad(scalar(s, f), every(x)))(*stacked(x, t)),
    "jacrev": lambda s, f, x, t: jacrev(smooth(s, f), every(x))(*x),
}
_FORWARD: dict[str, Transform] = {
    "jvp": lambda s, f, x, t: jvp(smooth(s, f), x, t),
    "jvp of vmap": lambda s, f, x, t: jvp(vmap(smooth(s, f)), (*stacked(x, t),), (*stacked(t, x),)),
    "vmap of jvp": lambda s, f, x, t: vmap(lambda x, t: jvp(smooth(s, f), x, t))((*stacked(x, t),), (*stacked(t, x),)),
    "jacfwd": lambda s, f, x, t: jacfwd(smooth(s, f), every(x))(*x),
}
_SECOND: dict[str, Transform] = {
    "hessian": lambda s, f, x, t: hessian(scalar(s, f), every(x))(*x),
    "jacrev of jacrev": lambda s, f, x, t: jacrev(jacrev(scalar(s, f), every(x)), every(x))(*x),
    "jacrev of jacfwd": lambda s, f, x, t: jacrev(jacfwd(scalar(s, f), every(x)), every(x))(*x),
    "jacfwd of jacfwd": lambda s, f, x, t: jacfwd(jacfwd(scalar(s, f), every(x)), every(x))(*x),
    "vmap of hessian": lambda s, f, x, t: vmap(hessian(scalar(s, f), every(x)))(*stacked(x, t)),
    "jacfwd of jacfwd of jacrev": lambda s, f, x, t: jacfwd(jacfwd(jacrev(scalar(s, f))))(*x),
}


def _named(result: Any) -> tuple[list[str], list[Any]]:
    leaves, _ = pytree.tree_flatten(result)
    return [f"result {k + 1}" if len(leaves) > 1 else "the result" for k in range(len(leaves))], leaves


def _ways(subject: Subject, settings: Any, first: bool) -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "", bound(subject.call, settings)
    if subject.function is not None and first:
        yield f" through {subject.function.__name__}.apply", applied(subject, settings)


@check(applies=lambda subject: bool(subject.places))
def torch_func(subject: Subject, device: str) -> Iterator[str]:
    """grad, vmap, jvp, jacrev, jacfwd, hessian and their nestings equal those of the composite."""
    transforms = dict(_REVERSE)
    if subject.linear:
        transforms |= _FORWARD
    if subject.twice and subject.linear:
        transforms |= _SECOND
    for k, settings in enumerate(subject.settings):
        tensors, others = (draw(subject, device=device, seed=seed) for seed in (0, 1))
        f, x = closed(subject, reference(subject, settings), tensors)
        _, t = closed(subject, reference(subject, settings), others)
        if not x:
            return
        for name, transform in transforms.items():
            want = _named(transform(subject, f, x, t))
            again = partial(_results, transform, subject, f, x, t)
            for way, function in _ways(subject, settings, not k):
                case = f"of {name}{way} {subject.described(None, settings)}"
                try:
                    got = transform(subject, closed(subject, function, tensors)[0], x, t)
                except Exception as error:
                    yield f"{name}{way} raised {type(error).__name__}: {' '.join(str(error).split())[:300]}"
                    continue
                yield from unexplained(want[0], _named(got)[1], want[1], again, case=case, subject=subject)


def _results(transform: Any, *arguments: Any) -> list[Tensor]:
    return _named(transform(*arguments))[1]


def _in_dims(n: int) -> list[tuple[int | None, ...]]:
    """Which tensors have a batch dimension, and where."""
    if n <= 3:
        found: list[tuple[int | None, ...]] = [c for c in product((0, None), repeat=n) if 0 in c]
    else:
        found = [(0,) * n] + [tuple(0 if k == i else None for k in range(n)) for i in range(n)]
    return [*found, (-1,) * n]


@check()
def vmap_over_some(subject: Subject, device: str) -> Iterator[str]:
    """vmap over every choice of tensors and the last dimension, of values and of gradients."""
    settings = subject.settings[0]
    tensors, others = (draw(subject, device=device, seed=seed) for seed in (0, 1))
    for dims in _in_dims(len(tensors)):
        in_dims = tuple(d if t is not None else None for d, t in zip(dims, tensors, strict=True))
        if not any(d is not None for d in in_dims):
            continue
        batched = [
            t if d is None else stacked([t], [o], d)[0] for t, o, d in zip(tensors, others, in_dims, strict=True)
        ]

        def derived(function: Any, in_dims: Any = in_dims, batched: Any = batched) -> list[Any]:
            def gradients(*tensors: Any) -> Any:
                alone, x = closed(subject, function, tensors)
                return grad(scalar(subject, alone), every(x))(*x)

            found: list[Any] = [vmap(function, in_dims)(*batched)]
            if subject.places:
                found.append(vmap(gradients, in_dims)(*batched))
            return found

        want = _named(derived(reference(subject, settings)))
        for way, function in _ways(subject, settings, True):
            got = _named(derived(function))[1]
            yield from differences(want[0], got, want[1], case=f"of vmap over {in_dims}{way}", subject=subject)


@check(applies=lambda subject: bool(subject.places) and subject.linear)
def forward_mode(subject: Subject, device: str) -> Iterator[str]:
    """The tangent in each argument alone, also while autograd records, is the composite's."""
    for settings in subject.settings:
        for i in subject.places:
            for recorded in (False, True):
                results = []
                for function in (bound(subject.call, settings), reference(subject, settings)):
                    tensors = draw(subject, device=device)
                    if recorded:
                        tensors = leaves(subject, tensors)
                    f, x = closed(subject, smooth(subject, function), tensors, [i])
                    results.append(_named(jvp(f, x, (*map(torch.cos, x),)) if x else ()))
                case = f"of jvp in {subject.inputs[i].name}{' while autograd records' * recorded}"
                case = f"{case} {subject.described(None, settings)}"
                yield from differences(results[1][0], results[0][1], results[1][1], case=case, subject=subject)


@check(applies=lambda subject: bool(subject.overridden) and subject.linear)
def transposition(subject: Subject, device: str) -> Iterator[str]:
    """Where the gradient is a rule, forward mode is its transpose."""
    for settings in subject.settings:
        f, x = closed(subject, bound(subject.call, settings), leaves(subject, draw(subject, device=device)))
        found = descended(total(subject, f(*x)), x)
        tangents = tuple(torch.cos(v.detach()) for v in x)
        tangent = jvp(scalar(subject, f), tuple(v.detach() for v in x), tangents)[1]
        product_ = torch.stack([(g * t).sum() for g, t in zip(found, tangents, strict=True)]).sum()
        case = subject.described(None, settings)
        names = ["the tangent of the outputs"]
        yield from differences(names, [tangent], [product_], case=case, against="the transpose of backward")


@check(applies=lambda subject: bool(subject.places) and not subject.linear)
def forward_mode_is_refused(subject: Subject, device: str) -> Iterator[str]:
    """A rule that is not linear in the cotangent has no transpose: forward mode in its tensors raises."""
    tensors = draw(subject, device=device)
    places = [i for i in subject.places if subject.inputs[i].name in subject.overridden]
    f, x = closed(subject, bound(subject.call, subject.settings[0]), tensors, places)
    for name, way in (("jvp", lambda: jvp(f, x, x)), ("jacfwd", lambda: jacfwd(f, every(x))(*x))):
        try:
            way()
        except RuntimeError:
            continue
        yield f"{name} returns a result, though the rule of backward has no transpose"


@check(applies=lambda subject: not subject.places)
def vmap_of_values(subject: Subject, device: str) -> Iterator[str]:
    """vmap of an operation without derivatives equals that of the composite."""
    settings = subject.settings[0]
    tensors = stacked(draw(subject, device=device), draw(subject, device=device, seed=1))
    given = present(tensors, range(len(tensors)))

    def only(function: Any) -> Any:
        return closed(subject, function, tensors, given)[0]

    results = [
        _named(vmap(only(f))(*(tensors[i] for i in given)))
        for f in (bound(subject.call, settings), composite(subject, settings))
    ]
    yield from differences(results[1][0], results[0][1], results[1][1], case="of vmap", subject=subject)
