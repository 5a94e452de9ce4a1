"""What rounding explains: a result may differ from the reference as much as rounding errors move the reference.

Where digits cancel, the composite has lost them itself. How many is seen by Monte Carlo arithmetic (Parker, 1997),
for which it runs again with another rounding error in every operation. What leaves the range of its dtype there, as
the square of an exponential does, stands for any number near that end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from symgrad.testing.compare import differences

__all__ = ["unexplained"]

_RUNS = 5  # with errors of one sign
_TIMES = 8  # as much as the reference moves is explained


def unexplained(
    names: Sequence[str], got: Sequence[Tensor], want: Sequence[Tensor], again: Callable[[], Any], **options: Any
) -> Iterator[str]:
    """The ``differences`` that rounding errors in ``again``, which computes the reference, do not explain.

    A difference is explained where errors away from zero move the reference as far, and errors towards it do too:
    those of one direction alone may lead over a condition of the formula.
    """
    found = list(differences(names, got, want, **options))
    if found and len(got) == len(want):
        with contextlib.suppress(RuntimeError):  # of a matrix that errors have made singular: nothing is explained then
            sides = [[_perturbed(again, sign, seed) for seed in range(_RUNS)] for sign in (1, -1)]
            columns = [[list(column) for column in zip(*side, strict=True)] for side in sides]
            settled = [_explained(*pair) for pair in zip(got, want, *columns, strict=True)]
            found = list(differences(names, got, settled, **options))
    yield from found


def _explained(own: Tensor, reference: Tensor, *sides: Sequence[Tensor]) -> Tensor:
    """The reference's elements, but our own where they differ no more than errors of both signs move the reference."""
    alike = (own.shape, own.dtype) == (reference.shape, reference.dtype)
    if not alike or not own.is_floating_point() or any(b.shape != own.shape for side in sides for b in side):
        return reference
    moved = [torch.stack([(b - reference).abs() for b in side]).amax(0) for side in sides]
    return torch.where((own - reference).abs() <= _TIMES * torch.minimum(*moved), own, reference)


def _perturbed(function: Callable[[], Any], sign: int, seed: int) -> Any:
    with _Perturbed(sign, seed):
        return function()


class _Perturbed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Moves every result by about the spacing of numbers, all away from zero or all towards it."""

    def __init__(self, sign: int, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sign = sign
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        is_view = any(r.alias_info is not None for r in func._schema.returns)
        operands = [a for a in pytree.tree_leaves(args) if isinstance(a, (Tensor, int, float))]
        if is_view or not any(map(_is_float, operands)):
            return result
        return pytree.tree_map(lambda value: self.moved(value, func, operands), result)

    def moved(self, value: Any, func: Any, operands: Sequence[Any]) -> Any:
        if not _is_float(value):
            return value
        parts = 0.5 + torch.rand(value.shape, generator=self.generator, dtype=torch.float64).to(value.device)
        inside = _in_range(value, func, operands).double()
        return (inside * (1 + self.sign * torch.finfo(value.dtype).eps * parts)).to(value.dtype)


_PRODUCTS = (torch.ops.aten.mul, torch.ops.aten.div)  # where only underflow makes 0 of what is not 0


def _in_range(value: Tensor, func: Any, operands: Sequence[Any]) -> Tensor:
    """A result, but a number near the end of the range where it overflows or underflows."""
    limits = torch.finfo(value.dtype)
    if all(a.isfinite().all() for a in operands if isinstance(a, Tensor)):
        value = value.nan_to_num(nan=torch.nan, posinf=limits.max / 2, neginf=-limits.max / 2)
    if func.overloadpacket in _PRODUCTS:
        lost = value == 0
        for a in operands:
            lost = lost & (a != 0)
        value = value.masked_fill(lost, limits.tiny)
    return value


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and not value.is_meta
