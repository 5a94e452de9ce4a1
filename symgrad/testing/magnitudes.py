"""True values of a pointwise formula and its derivatives over all magnitudes of float32, for an audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from symgrad.accuracy.evaluate import FLOAT32, Environment
from symgrad.accuracy.truth import Table
from symgrad.compiler.operation import quantity
from symgrad.differentiate.modes import is_tensor_op, partials
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.parse import Program
from symgrad.testing.facts import Accuracy

__all__ = ["over_magnitudes"]

_SIZES = (1e-30, 1e-10, 1e-5, 0.01, 0.5, 1.0, 2.0, 5.0, 20.0, 60.0, 100.0, 1e3, 1e5, 1e8, 1e12, 1e20, 1e30)
_BESIDE = 0.7  # what the other tensors are


def over_magnitudes(program: Program, settings: Mapping[str, Any]) -> tuple[Accuracy, ...]:
    """The truth of each output and derivative where one tensor has any size and the others are about 1.

    There is none of an operation that is not pointwise, nor of a gradient that the spec gives.
    """
    spec = program.spec
    nodes = topological(*program.outputs.values())
    if any(map(is_tensor_op, nodes)) or any(t.dtype != "float" for t in spec.tensors):
        return ()
    tensors = [program.symbols[t.name] for t in spec.tensors]
    given = {program.symbols[name]: value for name, value in settings.items()}
    points = [{**given, **point} for point in _points(program, tensors)]
    table = Table(points)
    found = []
    for output in spec.outputs:
        value = program.outputs[output.name]
        quantities = [(output.name, value)]
        if output.grad and not spec.gradients:
            slopes = partials(value, tensors)
            wanted = [t for t in spec.tensors if t.grad]
            quantities += [(quantity(output.name, t.name), slopes[program.symbols[t.name]]) for t in wanted]
        for name, formula in quantities:
            rows = tuple(_rows(table, formula, tensors, list(settings.values())))
            found.append(Accuracy(name, 0.0, 0.0, rows))
    return tuple(f for f in found if f.points)


def _points(program: Program, tensors: list[Expr]) -> Iterator[Environment]:
    domains = [t.domain for t in program.spec.tensors]
    for own in tensors:
        for size in _SIZES:
            for value in (size, -size):
                point = {t: FLOAT32.round(_BESIDE) for t in tensors} | {own: FLOAT32.round(value)}
                if all(d is None or point[t] in d for t, d in zip(tensors, domains, strict=True)):
                    yield point


def _rows(table: Table, formula: Expr, tensors: list[Expr], settings: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Points, the truth there, and what an ulp in each tensor moves."""
    for point, truth in zip(table.points, table(formula, tensors), strict=True):
        if truth is None or isinstance(truth.value, bool | str) or not abs(truth.value) <= FLOAT32.largest:
            continue
        moved = sum(abs(truth.slopes[t]) * FLOAT32.ulp(point[t]) for t in tensors)
        if moved <= abs(truth.value) / 4 or not truth.value:  # elsewhere a figure says nothing
            yield (*(float(point[t]) for t in tensors), *settings, float(truth.value), float(moved))
