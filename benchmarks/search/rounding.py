"""How far rounding alone moves what a function gives: each operation's result is moved by an ulp, at random.

This is stochastic arithmetic. Where terms of 1e12 cancel, results differ by what their last digits leave; a derivative
that is wrong is as wrong whichever way its terms are rounded. Autograd's own operations are moved, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

__all__ = ["ROUNDED", "noise"]

ROUNDED = 4  # times what rounding moves results by is no fault
_RUNS = 6  # in which each result is moved its own way; two more move all of them up or down, to where a floor steps
_OF_NO_ROUNDING = """
_to_copy abs alias amax amin arange cat ceil clamp clamp_max clamp_min clone constant_pad_nd copy copy_ cummax
cummin detach diagonal_backward embedding empty empty_like empty_strided expand eye fill fill_ flip floor full
full_like gather heaviside index index_put index_select kthvalue lift_fresh linspace masked_fill max maximum
median min minimum neg new_empty new_empty_strided new_full new_ones new_zeros nan_to_num ones ones_like relu
roll round scalar_tensor scatter select_backward select_scatter sgn sign slice_backward slice_scatter sort stack
threshold threshold_backward topk tril triu trunc where zero_ zeros zeros_like
"""
_EXACT = frozenset(_OF_NO_ROUNDING.split())


class _Rounded(TorchDispatchMode):
    """Moves the results of operations that round by an ulp up or down: the `ways` are 0 and 1, chosen at random."""

    def __init__(self, seed: int, ways: tuple[int, int]) -> None:
        super().__init__()
        self.ways = ways
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in _EXACT:
            return result
        owned = [r.alias_info for r in func._schema.returns]
        if any(own is not None and not own.is_write for own in owned):
            return result  # a view
        in_place = any(own is not None for own in owned)
        return tree_map(lambda t: self.moved(t, in_place) if isinstance(t, Tensor) else t, result)

    def moved(self, t: Tensor, in_place: bool) -> Tensor:
        if not t.is_floating_point() or t.is_meta or t._is_zerotensor():  # of the latter two none has memory
            return t
        info = torch.finfo(t.dtype)
        low, high = self.ways
        signs = torch.randint(low, high + 1, t.shape, generator=self.generator).to(t.dtype) * 2 - 1
        subnormal = (t.abs() < info.tiny) & (t != 0)  # all have the ulp of the smallest number that is normal
        moved = signs * torch.where(subnormal, info.tiny, t) * info.eps
        return t.add_(moved) if in_place else t + moved


def noise(results: Callable[[], Mapping[str, Tensor]], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """How far each of the results lies from those `like` it at most, over a few runs; 0 where that is no number."""
    found = {n: torch.zeros(t.shape, dtype=torch.float64) for n, t in like.items()}
    for seed, ways in enumerate([(0, 1)] * _RUNS + [(0, 0), (1, 1)]):
        with _Rounded(seed, ways):
            moved = results()
        for name, t in moved.items():
            if name in found and t.shape == found[name].shape:
                off = (t.double() - like[name].double()).abs().nan_to_num(torch.inf, torch.inf)
                found[name] = torch.maximum(found[name], torch.where(like[name].isfinite(), off, 0.0))
    return found
