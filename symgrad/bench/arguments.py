"""Tensors to measure an operation with: about as many elements as asked for, inside of its domains."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.compiler.hyperparameters import usual_value
from symgrad.ir.traversal import topological
from symgrad.ops.tensors.shapes import Extent, extent
from symgrad.parse import parse_formulas
from symgrad.spec.model import Spec, Tensor

if TYPE_CHECKING:
    import torch

__all__ = ["arguments", "drawn", "sized", "unfilled"]

_ROW = 1024  # of the last dimension, where there are that many elements
_MIDDLE = 64
_TRIED = 64  # elements of a call of which nothing but its success matters
_FEW = 16  # along the first dimension, below which the largest is shortened


def arguments(spec: Spec, elements: int, dtype: torch.dtype, device: str = "cpu") -> list[Any]:
    """Tensors with gradients, parameters of the module in their own shape, and hyperparameters."""
    import torch

    arrays, settings = drawn(spec, elements)
    tensors = [torch.from_numpy(array).to(device) for array in arrays]
    found = [
        t.to(dtype).requires_grad_(own.grad) if own.dtype == "float" else t
        for own, t in zip(spec.tensors, tensors, strict=True)
    ]
    return [*found, *settings]


def sized(spec: Spec, composite: Callable[..., Any]) -> Spec:
    """The spec with sizes that torch takes, if any: a hyperparameter may be that of a dimension, as of channels."""
    import torch

    settings = [usual_value(spec, h) for h in spec.hyperparameters]
    whole = [n for n in settings if isinstance(n, int) and n > 0]
    named = dict.fromkeys(d for t in spec.tensors for d in t.shape or () if isinstance(d, str) and d != "...")
    for dim, size in ((None, 0), *product(named, whole)):
        shapes = [t.shape and tuple(size if d == dim else d for d in t.shape) for t in spec.tensors]
        tensors = tuple(replace(t, shape=s) for t, s in zip(spec.tensors, shapes, strict=True))
        with contextlib.suppress(RuntimeError):
            own = replace(spec, tensors=tensors)
            composite(*arguments(own, _TRIED, torch.float64))
            return own
    return spec


def unfilled(spec: Spec, elements: int, dtype: torch.dtype) -> list[Any]:
    """Arguments of which only the shapes matter: nobody writes to their memory."""
    import torch

    shape_of = _shapes(spec, elements)
    dtypes = {"float": dtype, "int": torch.int64, "bool": torch.bool}
    tensors = [torch.empty(shape_of(t), dtype=dtypes[t.dtype], requires_grad=t.grad) for t in spec.tensors]
    return [*tensors, *(usual_value(spec, h) for h in spec.hyperparameters)]


def drawn(spec: Spec, elements: int) -> tuple[list[Any], list[Any]]:
    """Arrays of numpy, parameters of the module in their own shape; and hyperparameters."""
    generator = np.random.default_rng(0)
    shape_of = _shapes(spec, elements)
    found: list[Any] = []
    for tensor in spec.tensors:
        shape = shape_of(tensor)
        if tensor.dtype == "int":
            found.append(generator.integers(0, 3, shape))
        elif tensor.dtype == "bool":
            found.append(generator.random(shape) < 0.5)
        else:
            low, high = _range(spec, tensor)
            found.append(np.asarray(low + (high - low) * generator.random(shape, dtype=np.float32)))
    return found, [usual_value(spec, h) for h in spec.hyperparameters]


def _range(spec: Spec, tensor: Tensor) -> tuple[float, float]:
    low, high = spec.test.ranges.get(tensor.name, (-3.0, 3.0))
    if tensor.domain is not None:
        low = max(low, tensor.domain.lower + 0.1) if math.isfinite(tensor.domain.lower) else low
        high = min(high, tensor.domain.upper - 0.1) if math.isfinite(tensor.domain.upper) else high
        high = high if low < high else min(tensor.domain.upper, low + 3.0)
    return float(low), float(high)


def _shapes(spec: Spec, elements: int) -> Callable[[Tensor], tuple[int, ...]]:
    """The shape of each tensor: declared dimensions by name, a row and what is left otherwise."""
    widest = max((t.shape or () for t in spec.tensors), key=len)
    named = [d for d in widest if isinstance(d, str)]
    free = max(1, elements // math.prod(d for d in widest if isinstance(d, int)))
    row = free if len(named) == 1 else min(_ROW, free)
    rest = max(1, free // row)
    sizes: dict[int | str, int] = {}
    for place, name in enumerate(reversed(named)):
        middle = min(_MIDDLE, rest) if len(named) > 2 else rest
        sizes[name] = row if place == 0 else middle if place < len(named) - 1 else rest // (middle if place > 1 else 1)
    for tensor in spec.tensors:
        for dim in tensor.shape or ():
            sizes.setdefault(dim, dim if isinstance(dim, int) else min(_MIDDLE, elements))
    values = [extent(v) for v in topological(*parse_formulas(spec).outputs.values())]
    while max(_count(v, sizes) for v in values) > elements:  # products of matrices may be larger than these
        largest = max((d for d in sizes if isinstance(d, str)), key=lambda d: sizes[d], default="")
        first = widest[0] if widest[:1] == tuple(named[:1]) else ""
        halved = first if sizes.get(first, 0) > _FEW else largest
        if sizes.get(halved, 1) == 1:
            break
        sizes[halved] //= 2
    owned = {p.tensor: p.shape or () for p in spec.module.parameters} if spec.module is not None else {}

    def shape_of(tensor: Tensor) -> tuple[int, ...]:
        if tensor.shape is None:
            own = owned.get(tensor.name)
            if own is not None:
                return tuple(sizes.get(d, row) if isinstance(d, str) else d for d in own)
            return rest, row
        return tuple(max(1, sizes[d]) if isinstance(d, str) else d for d in tensor.shape)

    return shape_of


def _count(of: Extent, sizes: Mapping[int | str, int]) -> int:
    """The elements of a value of declared shape; 1 where dimensions were not declared."""
    known = math.prod(d if isinstance(d, int) else sizes.get(d, 1) for d in of.dims if not isinstance(d, tuple))
    return known * sizes.get("...", 1) if of.lead and of.dims else known
