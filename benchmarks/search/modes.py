"""What a function gives under vmap and torch.compile, beside what it gives by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.search.made import Made
from benchmarks.search.rounding import ROUNDED, noise

__all__ = ["differing", "modes"]

_MAPPED, _COMPILED = 8, 96  # one formula of so many
_EPS = 256  # ulps of the largest element: sums may be made in another order
_SIZES = (6, 9)  # of the first dimension, the second of which must do without being compiled again


def modes(made: Made, seed: int, tensors: Sequence[Tensor], numbers: Sequence[Any]) -> Iterator[str]:
    """What differs under a transformation, in some seeds; the function's own values were held to the formula before."""
    floats = [k for k, t in enumerate(tensors) if t.is_floating_point()]
    if seed % _MAPPED and seed % _COMPILED:
        return
    try:
        known = made.composite(*tensors, *numbers)
    except RuntimeError:  # of sizes that do not fit, or of singular matrices
        return
    if not known.is_floating_point():  # truth values, which have no gradients
        return

    def function(*given: Tensor) -> Tensor:
        result: Tensor = made.function(*given, *numbers)
        return result

    def slopes(*given: Tensor) -> tuple[Tensor, ...]:
        y, pull = torch.func.vjp(lambda *own: function(*_with(given, floats, own)), *(given[k] for k in floats))
        return (y, *pull(torch.ones_like(y)))

    if seed % _MAPPED == 0:
        batches = [torch.stack([t, t.flip(0) if t.dim() else t]) for t in tensors]

        def apart() -> list[Tensor]:
            return [torch.stack(own) for own in zip(*(slopes(*(b[k] for b in batches)) for k in range(2)), strict=True)]

        yield from differing("vmap", torch.func.vmap(slopes)(*batches), apart(), apart)
    if seed % _COMPILED == 0:
        yield from _compiled(function, tensors, floats)


def _compiled(function: Callable[..., Tensor], tensors: Sequence[Tensor], floats: Sequence[int]) -> Iterator[str]:
    torch._dynamo.reset()
    most = max(t.dim() for t in tensors)
    rows = [k for k, t in enumerate(tensors) if (t.dim() == most or k not in floats) and t.shape[0] > 1]
    compiled = torch.compile(function, dynamic=True, fullgraph=True, backend="aot_eager")
    for size in _SIZES:
        given = [torch.cat([t] * size)[:size] if k in rows else t for k, t in enumerate(tensors)]
        results = []
        for own in (compiled, function):
            leaves = [t.detach().requires_grad_(k in floats) for k, t in enumerate(given)]
            y = own(*leaves)
            wanted = [leaves[k] for k in floats]
            found = torch.autograd.grad(y, wanted, torch.ones_like(y), allow_unused=True) if y.requires_grad else ()
            results.append([y, *(torch.zeros(()) if g is None else g for g in found)])
        yield from differing("torch.compile", *results)


def _with(given: Sequence[Tensor], places: Sequence[int], own: Sequence[Tensor]) -> list[Tensor]:
    changed = dict(zip(places, own, strict=True))
    return [changed.get(k, t) for k, t in enumerate(given)]


def differing(
    mode: str, found: Sequence[Tensor], direct: Sequence[Tensor], again: Callable[[], Sequence[Tensor]] | None = None
) -> Iterator[str]:
    """The results that are not as they are without the mode, nor as rounding may leave them, which is done `again`."""
    for k, (got, true) in enumerate(zip(found, direct, strict=True)):
        if got.dtype != true.dtype or got.shape != true.shape:
            yield f"{mode}, result {k}: {got.dtype} {list(got.shape)}, by itself {true.dtype} {list(true.shape)}"
            continue
        finite = true.detach()[true.isfinite()].abs().double()
        size = float(finite.max()) if finite.numel() else 0.0
        eps = torch.finfo(true.dtype).eps if true.is_floating_point() else 0.0
        if not torch.allclose(got.double(), true.double(), rtol=_EPS * eps, atol=_EPS * eps * size, equal_nan=True):
            off = (got.detach().double() - true.detach().double()).abs()
            if again is not None and bool((off <= ROUNDED * _noise(again, direct)[str(k)]).all()):
                continue
            yield f"{mode}, result {k}: off by {float(off.nan_to_num(torch.inf).max()):.3g}, of up to {size:.3g}"


def _noise(again: Callable[[], Sequence[Tensor]], direct: Sequence[Tensor]) -> dict[str, Tensor]:
    names = [str(k) for k in range(len(direct))]
    return noise(lambda: dict(zip(names, again(), strict=True)), dict(zip(names, direct, strict=True)))
