"""The inputs at which a module is held to its formula: points, shapes around lanes, layouts, subsets of gradients."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from benchmarks.search.made import Made
from symgrad.spec import Tensor as Declared
from symgrad.spec.interval import Interval

__all__ = ["Case", "cases"]

_EDGES = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.0, -2.0, 3.0, -3.0, 1 / 3, 10.0, -10.0, 20.0, -20.0, 88.0, -88.0),
    *(1e-3, 1e-8, -1e-8, 1e-30, -1e-30, 1e-42, 1e30, -1e30, 1e10, -1e4, 0.9, 0.999999, 1.000001, 100.0, -100.0),
    *(float("inf"), float("-inf"), float("nan")),
)
# Around the lanes of a register, a strip of 16 registers, and 32 rows that are gathered.
_COUNTS = (100, 100, 97, 111, 113, 127, 129, 255, 257, 273)
_SHAPES = ((6, 7), (6, 7), (3, 17), (5, 1), (1, 4), (5, 15), (5, 16), (3, 33), (2, 255), (3, 257), (2, 529), (35, 16))
_NUMBERS = {"a": (0.75, 0.75, 0.25, 3.0, 1.0), "n": (2, 2, 3, 1, 0, -1), "flag": (True, False)}  # hyperparameters
_NUMBERS |= {"axis": (-1, 0, 1, -2), "mode": ("none", "sum", "mean"), "seed": (0, 7)}
_SIZES = (1, 2, 3, 3, 4, 5, 6, 17)
_MIXED, _MIXED_WITH = 0.15, (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_EMPTY = 0.05  # the share of wide cases in which a dimension has no elements


@dataclass(frozen=True)
class Case:
    """Inputs of one dtype; `apart` where elements do not depend on each other."""

    tensors: tuple[Tensor, ...]
    wanted: tuple[int, ...]  # what is differentiated
    more: bool  # second derivatives and forward mode, too
    apart: bool
    numbers: tuple[Any, ...]


def cases(made: Made, chance: random.Random, dtype: torch.dtype) -> Iterator[Case]:
    """Points one by one; then broadcast or strided tensors, each subset of which is differentiated."""
    count = len(made.tensors)
    declared = made.drawn.spec.tensors
    every = tuple(k for k, t in enumerate(declared) if t.dtype == "float" and t.grad)
    subsets = [s for n in range(1, len(every)) for s in combinations(every, n)] or [every]
    numbers = tuple(chance.choice(_NUMBERS[h.name]) for h in made.drawn.spec.hyperparameters)
    domains = {t.name: t.domain for t in made.drawn.spec.tensors}

    def inside(k: int, t: Tensor) -> Tensor:
        domain = domains[made.tensors[k]]
        return (t if domain is None else _inside(t, domain)).to(dtype)

    if made.drawn.kind == "wide":
        yield from _wide(declared, chance, dtype, numbers, inside)
        return
    if made.drawn.kind == "pointwise":
        points = chance.choice(_COUNTS)
        random_points = [torch.randn(points - 76) * 2 for _ in range(count)]
        edges = [[chance.choice(_EDGES) for _ in range(64)] for _ in range(count)]
        same = [chance.choice(_EDGES) for _ in range(12)]
        given = [torch.cat([p, torch.tensor([*e, *same])]) for p, e in zip(random_points, edges, strict=True)]
        yield Case(tuple(inside(k, t) for k, t in enumerate(given)), every, True, True, numbers)
        length = chance.choice((5, 5, 16, 17, 33, 0))
        shapes = [(4, length), (length,), (4, 1), ()]
        given = [torch.randn(shapes[k] if count > 1 else shapes[0]) for k in range(count)]
    else:
        rows, length = chance.choice(_SHAPES)
        given = []
        for name in made.tensors:
            if name == "i":
                given.append(torch.randint(0, length, (rows,), dtype=chance.choice((torch.int64, torch.int32))))
                continue
            t = torch.randn(length if name == "v" else (rows, length))
            if t.dim() == 2 and rows > 4:
                t[0] = 0
                t[1] = t[1].round()
                t[2] *= 30
                t[3] = t[3, 0]
            given.append(t)
    own = [chance.choice(_LAYOUTS)(inside(k, t)) if k in every else t for k, t in enumerate(given)]
    whole = chance.randrange(len(subsets))  # the one in which second derivatives and tangents are of a part, too
    for k, subset in enumerate(subsets):
        yield Case(tuple(own), subset, k == whole, False, numbers)
    yield Case(tuple(own), every, True, False, numbers)


def _wide(
    declared: Sequence[Declared],
    chance: random.Random,
    dtype: torch.dtype,
    numbers: tuple[Any, ...],
    inside: Callable[[int, Tensor], Tensor],
) -> Iterator[Case]:
    """Tensors of declared shapes, dtypes and layouts of their own, all of which are differentiated, then one or two."""
    sizes = {name: chance.choice(_SIZES) for name in sorted({str(d) for t in declared for d in t.shape or ()})}
    places = any(t.dtype == "int" for t in declared)  # below N
    if chance.random() < _EMPTY and (own_sizes := sorted(sizes.keys() - ({"N"} if places else set()))):
        sizes[chance.choice(own_sizes)] = 0
    sizes |= {"L": chance.choice((4, 5, 7))}
    mixed = chance.random() < _MIXED
    own: list[Tensor] = []
    for k, t in enumerate(declared):
        shape = [d if isinstance(d, int) else sizes[str(d)] for d in t.shape or ()]
        if t.dtype == "bool":
            drawn = torch.rand(shape) < 0.5
        elif t.dtype == "int":
            low, high = (-3, 6) if t.name == "z" else (0, max(sizes.get("N", 1), 1))
            drawn = torch.randint(low, high, shape, dtype=chance.choice((torch.int64, torch.int32)))
        else:
            drawn = inside(k, torch.randn(shape)).to(chance.choice(_MIXED_WITH) if mixed and k else dtype)
            if drawn.dim() > 1 and len(drawn) > 3 and t.domain is None:
                drawn[1] = drawn[1].round()
                drawn[2] = 0
        own.append(chance.choice((*_LAYOUTS, _offset))(drawn))
    every = tuple(k for k, t in enumerate(declared) if t.dtype == "float" and t.grad)
    some = tuple(sorted(chance.sample(every, min(len(every), chance.choice((1, 1, 2))))))
    for wanted in dict.fromkeys((every, some)):
        yield Case(tuple(own), wanted, True, False, numbers)


def _inside(values: Tensor, domain: Interval) -> Tensor:
    """The values, with others in place of those outside of a domain."""
    low, high = (end if math.isfinite(end) else None for end in (domain.lower, domain.upper))
    middle = 0.5 + (low or 0) if high is None else high - 0.5

    def placed(value: float) -> float:
        if math.isnan(value) or value in domain:
            return value
        if low is not None and high is not None:
            moved = low + (high - low) * (0.5 + math.atan(value) / math.pi)
        else:
            moved = high - abs(value) if low is None and high is not None else (low or 0) + abs(value)
        rounded = float(torch.tensor(moved).bfloat16())
        return rounded if rounded in domain else middle

    return torch.tensor([placed(v) for v in values.flatten().tolist()]).reshape(values.shape)


def _offset(t: Tensor) -> Tensor:
    """The same numbers, behind others in memory."""
    return torch.cat([torch.zeros(3, dtype=t.dtype), t.flatten()])[3:].view(t.shape)


def _transposed(t: Tensor) -> Tensor:
    return t.mT.contiguous().mT if t.dim() > 1 else t


def _in_steps(t: Tensor) -> Tensor:
    """The same numbers, each second one of what lies in memory."""
    return torch.stack([t, t], dim=-1)[..., 0]


_LAYOUTS: tuple[Callable[[Tensor], Tensor], ...] = (
    *(torch.Tensor.contiguous,) * 3,
    *(_transposed, _in_steps),
    lambda t: t[:1].expand(t.shape) if t.dim() > 1 else t,
)
