"""Where a form loses its accuracy: operations that err although their operands are right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mpmath as mp

from symgrad.accuracy.evaluate import Format
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.sample import Sample
from symgrad.accuracy.simulate import Simulation
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological

__all__ = ["culprits", "neighbourhood"]

_NOTICEABLE = 2.0  # ulp that a single operation errs, its operands being rounded


def culprits(form: Expr, sample: Sample, target: Format, indices: Sequence[int]) -> list[Expr]:
    """The operations of `form` that err at the points of these indices, the worst first.

    An operand beyond the range of the format is a culprit itself, as is what is undefined where its operands are not.
    """
    exact, rows = sample.truth(target).at(indices), range(len(indices))
    exact(form)
    errors: dict[Expr, float] = {}
    for node in topological(form):
        if not node.args or node.is_static or node.is_boolean or node.op == "where":
            continue
        column = exact(node)
        operands = [exact(a) for a in node.args]
        worst = max((_out_of_range(column[k], target) for k in rows), default=0.0)
        if any(mp.isnan(column[k]) and not any(mp.isnan(o[k]) for o in operands) for k in rows):
            worst = math.inf
        if not worst:
            key = (node, target, tuple(indices))
            if key not in sample.local_errors:
                sample.local_errors[key] = _local_error(node, sample, target, indices)
            worst = sample.local_errors[key]
        if worst > _NOTICEABLE:
            errors[node] = worst
    return sorted(errors, key=lambda node: -errors[node])


def _out_of_range(value: Any, target: Format) -> float:
    if isinstance(value, bool | str) or not mp.isfinite(value):
        return 0.0
    tiny = mp.ldexp(1, target.min_exponent - 1 - target.precision)
    return math.inf if abs(value) > target.largest or 0 < abs(value) < tiny else 0.0


def _local_error(node: Expr, sample: Sample, target: Format, indices: Sequence[int]) -> float:
    """The worst error in ulp of one operation on correctly rounded operands."""
    exact = sample.truth(target).at(indices)
    places: dict[Expr, Expr] = {}

    def place(operand: Expr) -> Expr:
        if operand.is_static or operand.is_boolean:
            return operand
        return places.setdefault(operand, symbol(f"_{len(places)}"))

    flat = _on_places(node, place)
    columns = {own: exact(operand) for operand, own in places.items()}
    points = []
    rows = []
    for k, i in enumerate(indices):
        operands = {own: column[k] for own, column in columns.items()}
        if all(mp.isfinite(v) for v in operands.values()) and mp.isfinite(exact(node)[k]):
            points.append({**sample.points[target][i], **{own: target.round(v) for own, v in operands.items()}})
            rows.append(k)
    values = Simulation(points, target)(machine_form(flat))
    worst = 0.0
    for k, value in zip(rows, values, strict=True):
        true = exact(node)[k]
        with mp.workprec(100):
            error = float(abs(value - true) / target.ulp(true)) if math.isfinite(value) else math.inf
        worst = max(worst, error)
    return worst


def _on_places(node: Expr, place: Any) -> Expr:
    """The node on placeholders for its operands; coefficients and divisors stay part of the operation."""
    if node.op == "add":
        parts = [(c, rest) for c, rest in map(ex.split_coefficient, node.args)]
        return make("add", *(ex.mul(c, rest if rest.is_static else place(rest)) for c, rest in parts))
    if node.op == "mul":
        split = [ex.split_power(f) for f in node.args]
        return make("mul", *(ex.make_power(b if b.is_static else place(b), e) for b, e in split))
    return make(node.op, *(place(a) for a in node.args), **dict(node.attrs))


def neighbourhood(form: Expr, nodes: Sequence[Expr]) -> frozenset[Expr]:
    """The nodes, their operands, and what uses them up to two operations above."""
    found = set(nodes)
    order = topological(form)
    for _ in range(2):
        found |= {n for n in order if any(a in found for a in n.args)}
    for node in nodes:
        found.update(node.args)
    return frozenset(found)
