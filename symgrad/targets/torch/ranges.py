"""The ranges that generated tests draw the values of tensors from: where the formulas are defined.

A spec need not say that `x * log(x)` wants positive numbers, nor that `sqrt(x - y)` wants x above y: without a range of
its own, a tensor gets the first of some ranges, inside its domain if it has one, in which what is computed of the
tensors, up to the tensor operations, is finite, but where a choice gives infinity on purpose, and not so large that
finite differences say nothing; in float64 and operation by operation too, as the composite computes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from typing import TypeAlias

from symgrad.accuracy.evaluate import FLOAT64, Environment, Exact
from symgrad.accuracy.guards import may_be_infinite
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.simulate import Simulation
from symgrad.differentiate.modes import is_tensor_op
from symgrad.ir.branches import absent
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.spec.model import Spec, Tensor
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.samples import sampled_range, spread, value_at
from symgrad.targets.torch.settings import settings

Range: TypeAlias = "tuple[float, float]"

_USUAL = (-3.0, 3.0)
_RANGES: tuple[Range, ...] = (_USUAL, (-0.95, 0.95), (0.25, 3.0), (0.05, 0.95), (1.25, 4.0), (-3.0, -0.25))
_COUNTS: Range = (1.0, 5.0)  # of integers that are divided by
_POINTS = 120
_LARGEST = 1e12
_TOLERANCE = 1e-8
_MOST_SETTINGS = 3
_MOST_TRIED = 150


def sampled_ranges(layout: Layout) -> list[Range]:
    """A range for each tensor: the spec's, or one where the formulas are defined, if there is one."""
    spec = layout.spec
    usual = [sampled_range(t, spec) for t in spec.tensors]
    regions = list(_regions(layout.formulas))
    choices = [_choices(t, spec, own) for t, own in zip(spec.tensors, usual, strict=True)]
    defined: list[Range] | None = None
    for ranges in islice(product(*choices), _MOST_TRIED):
        largest = _largest(regions, layout, ranges)
        if largest < _LARGEST and _is_accurate(regions, layout, ranges):
            return list(ranges)
        if defined is None and math.isfinite(largest):
            defined = list(ranges)
    return defined or usual


def _choices(tensor: Tensor, spec: Spec, usual: Range) -> tuple[Range, ...]:
    """The ranges that a tensor may get, in the order in which they are tried."""
    if tensor.dtype == "int" and tensor.domain is None and tensor.name not in spec.test.ranges:
        return (usual, _COUNTS)
    if tensor.dtype != "float" or tensor.name in spec.test.ranges:
        return (usual,)
    if tensor.domain is None:
        return _RANGES
    low, high = usual
    middle, width = (low + high) / 2, high - low
    parts = [(low, middle), (middle, high)]
    parts += [(high, high + width)] if math.isinf(tensor.domain.upper) else []
    parts += [(low - width, low)] if math.isinf(tensor.domain.lower) else []
    return (usual, *parts)


def _regions(roots: Iterable[Expr]) -> Iterator[Expr]:
    """The largest parts of formulas that are computed without tensor operations."""
    pending, seen = list(roots), set[Expr]()
    while pending:
        root = pending.pop()
        if root in seen:
            continue
        seen.add(root)
        if any(is_tensor_op(n) for n in topological(root)):
            pending += root.args
        elif root.tensors and root.args and not root.is_boolean:
            yield root


def _largest(regions: Sequence[Expr], layout: Layout, ranges: Sequence[Range]) -> float:
    """The largest of all values; infinite where one is not finite."""
    exact = Exact(list(_points(layout, ranges)), 53)
    values = [(region, abs(float(value))) for region in regions for value in exact(region)]
    sizes = [size for region, size in values if size != math.inf or not may_be_infinite(region)]
    return max(sizes, default=0.0) if all(map(math.isfinite, sizes)) else math.inf


def _is_accurate(regions: Sequence[Expr], layout: Layout, ranges: Sequence[Range]) -> bool:
    """Whether float64 suffices for the formulas as they are written."""
    points = list(_points(layout, ranges))
    exact, simulation = Exact(points, 53), Simulation(points, FLOAT64)
    return all(
        found == right or abs(found - right) <= _TOLERANCE * (1 + abs(right))
        for region in regions
        for right, found in zip(map(float, exact(region)), simulation(machine_form(region)), strict=True)
    )


def _points(layout: Layout, ranges: Sequence[Range]) -> Iterator[Environment]:
    """Points spread over the ranges, in some settings of the hyperparameters."""
    chosen = settings(layout)[:_MOST_SETTINGS]
    for k in range(_POINTS):
        point = layout.environment(chosen[k % len(chosen)])
        for i, (t, within) in enumerate(zip(layout.spec.tensors, ranges, strict=True)):
            point[absent(t.name)] = False  # a formula with many optional tensors still asks
            point[layout.symbol(t.name)] = value_at(t, within, spread(k, i))
        yield point
