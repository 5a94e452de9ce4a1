"""Special values of tensors: infinities, zeros, and numbers next to 0."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from symgrad.backends.torch.layout import Layout
from symgrad.backends.torch.samples import sampled_range, settings, variant_at
from symgrad.differentiate import is_tensor_op
from symgrad.equations import SAME_VALUES
from symgrad.evaluate import FLOAT32, FLOAT64, Format
from symgrad.expr import Expr
from symgrad.machine import machine_form
from symgrad.simulate import Simulation
from symgrad.spec.interval import Interval
from symgrad.spec.model import Tensor
from symgrad.traversal import rebuild, topological

__all__ = ["special"]

_SPECIAL = (math.inf, 0.0, 1e-40)  # and their negatives
_POINTS = 5  # at which forms are looked at
_BESIDE, _LARGE = 1e-300, 1e30  # next to 0, and beyond which there is a pole


def special(layout: Layout) -> list[list[str]]:
    """Values of each tensor as source at which functions have limits, poles and signed zeros, in its domain.

    Those are left out at which a chosen form is infinity over infinity, or the like, and the formula has a value.
    """
    values = [sign * v for v in _SPECIAL for sign in (1.0, -1.0)]
    return [
        [
            repr(v).replace("inf", "math.inf")
            for v in values
            if (t.domain is None or _is_within(v, t.domain)) and not _is_lost(layout, t, v)
        ]
        if t.dtype == "float"
        else []
        for t in layout.spec.tensors
    ]


def _is_lost(layout: Layout, tensor: Tensor, value: float) -> bool:
    """Whether a form is no number where a tensor has this value, and an output is one; at 0, of a pole alone."""
    lost = any(v != v for target in (FLOAT32, FLOAT64) for v in _results(layout, tensor, value, target))
    if lost and not value:
        return any(not abs(v) < _LARGE for s in (_BESIDE, -_BESIDE) for v in _results(layout, tensor, s, FLOAT64))
    return lost


def _results(layout: Layout, tensor: Tensor, value: float, target: Format) -> Iterator[float]:
    """Outputs and gradients by the chosen forms, the other tensors being ordinary, where an output has a value."""
    for chosen in settings(layout):
        variant = variant_at(layout, chosen)
        if variant is None:
            continue
        outputs = {name: f for name, f in variant.outputs.items() if not _has_operations(variant.formulas[name])}
        gradients = {key: g for key, whole in variant.gradients.items() if (g := _pointwise(whole)) is not None}
        ones = {s: 1.0 for g in gradients.values() for s in g.symbols}  # cotangents
        points = [{**ones, **p, layout.symbol(tensor.name): value} for p in _points(layout, chosen)]
        simulation = Simulation(points, target)
        columns = [simulation(machine_form(form)) for form in outputs.values()]
        for own in {t for _, t in gradients}:
            parts = [simulation(machine_form(g)) for (_, t), g in gradients.items() if t == own]
            columns.append([sum(values) for values in zip(*parts, strict=True)])
        written = [simulation(machine_form(variant.formulas[name])) for name in outputs]
        for k in range(len(points)):
            if any(column[k] == column[k] for column in written):
                yield from (float(column[k]) for column in columns)


def _points(layout: Layout, values: Sequence[Any]) -> list[dict[Expr, Any]]:
    """Points that the test may sample, at values of the hyperparameters."""
    spec = layout.spec
    own = {layout.symbol(h.name): v for h, v in zip(spec.hyperparameters, values, strict=True)}
    points = []
    for k in range(_POINTS):
        place = dict(own)
        for i, t in enumerate(spec.tensors):
            low, high = sampled_range(t, spec)
            share = (k * (2 * i + 3) + i + 0.5) % _POINTS / _POINTS
            drawn = low + (high - low) * share
            place[layout.symbol(t.name)] = (
                drawn if t.dtype == "float" else bool(drawn >= 1) if t.dtype == "bool" else math.floor(drawn)
            )
        points.append(place)
    return points


def _has_operations(form: Expr) -> bool:
    return any(is_tensor_op(n) for n in topological(form))


def _pointwise(gradient: Expr) -> Expr | None:
    """A gradient without what brings it in the shape and dtype of its tensor; None if it is not pointwise."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(gradient):
        args = [mapped[a] for a in node.args]
        mapped[node] = args[0] if node.op in SAME_VALUES else rebuild(node, args)
    return None if _has_operations(mapped[gradient]) else mapped[gradient]


def _is_within(value: float, domain: Interval) -> bool:
    """Whether a value is in a domain; an infinite end is."""
    return value in domain or (math.isinf(value) and value in (domain.lower, domain.upper))
