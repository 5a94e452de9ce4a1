"""What the function of a whole spec gives under the transformations of torch, beside what it gives by itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from benchmarks.search.cases import Case
from benchmarks.search.made import Made
from benchmarks.search.modes import differing

__all__ = ["transforms"]

_EACH = 2  # one spec of so many
_MOST = 40  # elements of a tensor in which a Hessian is taken
_LACKING = (NotImplementedError, RuntimeError, IndexError)  # torch has no such derivative, or sizes do not fit

Own: TypeAlias = Callable[..., "tuple[Tensor, ...]"]


@dataclass(frozen=True)
class _Given:
    """A function and its composite, of the tensors that are wanted, and what is floating of their results."""

    function: Own
    composite: Own
    tensors: tuple[Tensor, ...]
    chance: random.Random


def transforms(made: Made, seed: int, case: Case) -> Iterator[str]:
    """What differs under one transformation, which the seed chooses."""
    if seed % _EACH:
        return
    chance = random.Random(seed)
    way, wide = chance.choice(_WAYS)
    # Tangents are written beside tensors of which no two elements share memory.
    others = [t.detach().double() if wide and t.is_floating_point() else t.detach() for t in case.tensors]
    tensors = tuple(others[k].contiguous() for k in case.wanted)

    def of(function: Callable[..., Any], *own: Tensor) -> tuple[Tensor, ...]:
        changed = dict(zip(case.wanted, own, strict=True))
        results = function(*(changed.get(k, t) for k, t in enumerate(others)), *case.numbers)
        return tuple(y for y in (results if isinstance(results, tuple) else (results,)) if y.is_floating_point())

    given = _Given(partial(of, made.function), partial(of, made.composite), tensors, chance)
    try:
        outputs = given.composite(*tensors)
    except _LACKING:
        return
    if outputs and all(y.isfinite().all() for y in outputs):
        yield from way(given)


def _mapped(given: _Given) -> Iterator[str]:
    """Values and gradients over a batch of each tensor, or of some, along any dimension."""

    def slopes(*own: Tensor) -> tuple[Tensor, ...]:
        ys, pull = torch.func.vjp(given.function, *own)
        return (*ys, *pull(tuple(torch.ones_like(y) for y in ys)))

    first = given.tensors
    places = [given.chance.choice((None, 0, 0, t.dim())) for t in first]
    if not any(p is not None for p in places):
        places[0] = 0
    pairs = [
        (t, t if p is None else t.flip(-1) * 0.5 if t.dim() else t * 0.5, p) for t, p in zip(first, places, strict=True)
    ]
    apart = zip(*(slopes(*own) for own in (first, [s for _, s, _ in pairs])), strict=True)
    batches = [t if p is None else torch.stack([t, s], p) for t, s, p in pairs]
    found = torch.func.vmap(slopes, in_dims=tuple(places))(*batches)
    if all(t.isfinite().all() for t in found):
        yield from differing(f"vmap over {places}", found, [torch.stack(own) for own in apart])


def _kept(given: _Given) -> Iterator[str]:
    """Checkpointing, and no gradients at all."""
    results = []
    for way in (given.function, lambda *own: checkpoint(given.function, *own, use_reentrant=False)):
        own = [t.clone().requires_grad_() for t in given.tensors]
        ys = way(*own)
        linked = [y for y in ys if y.requires_grad]
        cotangents = [torch.ones_like(y) for y in linked]
        grads = torch.autograd.grad(linked, own, cotangents, materialize_grads=True) if linked else ()
        results.append([*ys, *grads])
    direct, kept = results
    yield from differing("checkpoint", kept, direct)
    with given.chance.choice((torch.inference_mode, torch.no_grad))():
        alone = given.function(*given.tensors)
    yield from differing("without gradients", alone, direct[: len(alone)])


def _total(function: Own) -> Callable[..., Tensor]:
    return lambda *own: torch.stack([y.sin().sum() for y in function(*own)]).sum()


def _forward_over_reverse(given: _Given) -> Iterator[str]:
    """Products with the Hessian."""
    tensors, every = given.tensors, tuple(range(len(given.tensors)))
    tangents = tuple(torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).reshape(t.shape) for t in tensors)

    def product(function: Own) -> tuple[Tensor, ...]:
        moved: tuple[Tensor, ...]
        _, moved = torch.func.jvp(torch.func.grad(_total(function), argnums=every), tensors, tangents)
        return moved

    def transposed(own: Sequence[Tensor]) -> tuple[Tensor, ...]:
        slopes = torch.autograd.grad(_total(given.composite)(*own), own, create_graph=True, materialize_grads=True)
        moved = torch.stack([(g * t).sum() for g, t in zip(slopes, tangents, strict=True)]).sum()
        return torch.autograd.grad(moved, own, materialize_grads=True)

    try:
        true, again = product(given.composite), transposed([t.clone().requires_grad_() for t in tensors])
    except _LACKING:
        return
    # At corners autograd has derivatives in forward mode that it has not in reverse.
    if all(a.isfinite().all() and torch.allclose(t, a) for t, a in zip(true, again, strict=True)):
        yield from _near("jvp of grad", product(given.function), true)


def _hessian(given: _Given) -> Iterator[str]:
    """The Hessian in one tensor: forward over reverse, or reverse over forward."""
    k = given.chance.randrange(len(given.tensors))
    if not 0 < given.tensors[k].numel() <= _MOST:
        return
    ways = [torch.func.jacfwd, torch.func.jacrev]
    given.chance.shuffle(ways)
    outer, inner = ways
    try:
        true = torch.func.jacrev(torch.func.jacrev(_total(given.composite), argnums=k), argnums=k)(*given.tensors)
    except _LACKING:
        return
    if true.isfinite().all():
        found = outer(inner(_total(given.function), argnums=k), argnums=k)(*given.tensors)
        yield from _near(f"{outer.__name__} of {inner.__name__}", (found,), (true,))


def _near(name: str, found: Sequence[Tensor], true: Sequence[Tensor]) -> Iterator[str]:
    """What differs in float64 by more than 1e-6 of the largest, which rounding does not where little cancels."""
    for k, (got, own) in enumerate(zip(found, true, strict=True)):
        if got.shape != own.shape:
            yield f"{name}, result {k}: {list(got.shape)}, the composite {list(own.shape)}"
            continue
        size = float(own.abs().max()) if own.numel() else 0.0
        if not torch.allclose(got, own, rtol=1e-6, atol=1e-6 * size + 1e-9):
            off = float((got - own).abs().nan_to_num(torch.inf).max())
            yield f"{name}, result {k}: off by {off:.3g}, of up to {size:.3g}"


_WAYS: tuple[tuple[Callable[[_Given], Iterator[str]], bool], ...] = (  # and whether in float64
    (_mapped, False),
    (_kept, False),
    (_forward_over_reverse, True),
    (_hessian, True),
)
