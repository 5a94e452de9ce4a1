"""Special values of tensors: infinities, zeros, and numbers next to 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Environment, Format
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.simulate import Simulation
from symgrad.compiler.operation import Variant
from symgrad.differentiate.modes import is_tensor_op, partials
from symgrad.explain.equations import SAME_VALUES
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import rebuild, topological
from symgrad.spec.interval import Interval
from symgrad.spec.model import Tensor
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.samples import sampled_range, spread, value_at
from symgrad.targets.torch.settings import settings, variant_at

__all__ = ["in_domain", "special"]

_Evaluate: TypeAlias = Callable[[Expr, Simulation], Sequence[float]]

_VALUES = (math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40)
_POINTS = 8  # at which forms are looked at
_OF_SHAPES = frozenset(SAME_VALUES) - {"finite"} | {
    "held",
    "boundary",
}  # what brings shapes and dtypes in line, and a mark
_BESIDE, _LARGE = 1e-300, 1e30  # next to 0, and beyond which there is a pole


def special(layout: Layout) -> list[list[str]]:
    """Values of each tensor as source at which functions have limits, poles and signed zeros, in its domain.

    Those are left out at which a chosen form is infinity over infinity, or the like, and the formula as written is not,
    and those at which an output is no number: what its gradient is there, says nothing.
    """
    found = []
    for t in layout.spec.tensors:
        own = [v for v in _VALUES if t.dtype == "float" and (t.domain is None or _is_within(v, t.domain))]
        lost = set(map(repr, (*_lost(layout, t, own), *_undefined(layout, t, own)))) if own else set()
        found.append([_source(v) for v in own if repr(v) not in lost])
    return found


def in_domain(tensor: Tensor) -> list[str]:
    """The special values that symgrad.testing takes unasked: those between the ends of the domain, as source."""
    low, high = (tensor.domain.lower, tensor.domain.upper) if tensor.domain else (-math.inf, math.inf)
    return [_source(v) for v in _VALUES if low <= v <= high]


def _source(value: float) -> str:
    return repr(value).replace("inf", "math.inf")


def _lost(layout: Layout, tensor: Tensor, values: Sequence[float]) -> Iterator[float]:
    """The values of a tensor at which a form is no number where the formula as written is; at 0, of a pole alone."""
    beside = (_BESIDE, -_BESIDE)
    for target in (FLOAT32, FLOAT64):
        for value, own, written in _results(layout, tensor, values, target):
            if own == own or written != written:
                continue
            if value or any(not abs(near) < _LARGE for _, near, _ in _results(layout, tensor, beside, FLOAT64)):
                yield value


def _undefined(layout: Layout, tensor: Tensor, values: Sequence[float]) -> Iterator[float]:
    """The values of a tensor at which an output and a gradient are no numbers, whatever the other tensors are."""
    symbol = layout.symbol(tensor.name)
    for chosen in settings(layout):
        variant = variant_at(layout, chosen)
        if variant is None:
            continue
        for v in values:
            points = [{**p, symbol: v} for p in _points(layout, chosen)]
            lost = {
                evaluate  # how it is written tells an output from a gradient
                for own, _, evaluate in _forms(layout, variant)
                if all(map(math.isnan, map(sum, zip(*_columns(own, _plain, points, FLOAT64), strict=True))))
            }
            if lost == {_plain, _of_autograd}:
                yield v


def _columns(
    forms: Sequence[Expr], evaluate: _Evaluate, points: Sequence[Environment], target: Format
) -> list[Sequence[float]]:
    """Each of some forms at all points, with cotangents of 1."""
    ones = {s: 1.0 for form in forms for s in form.symbols if s.is_differential}
    simulation = Simulation([{**ones, **p} for p in points], target)
    return [evaluate(form, simulation) for form in forms]


def _results(
    layout: Layout, tensor: Tensor, values: Sequence[float], target: Format
) -> Iterator[tuple[float, float, float]]:
    """Values of a tensor, and outputs and gradients there by the chosen forms and as written."""
    symbol = layout.symbol(tensor.name)
    for chosen in settings(layout):
        variant = variant_at(layout, chosen)
        if variant is None:
            continue
        points = [{**p, symbol: v} for v in values for p in _points(layout, chosen)]
        for own, written, evaluate in _forms(layout, variant):
            columns = (_columns(forms, way, points, target) for way, forms in ((_plain, own), (evaluate, written)))
            mine, theirs = (list(zip(*c, strict=True)) for c in columns)
            yield from zip((p[symbol] for p in points), map(sum, mine), map(_total, theirs), strict=True)


def _plain(form: Expr, simulation: Simulation) -> Sequence[float]:
    """A form at all points, operation by operation."""
    return simulation(machine_form(form))


def _of_autograd(derivative: Expr, simulation: Simulation) -> list[float]:
    """A derivative at all points as autograd finds it: infinite where one is no number for terms that cancel.

    Autograd adds what comes back to an intermediate before it multiplies, so it may find a number there.
    """
    lowered = machine_form(derivative)
    sums = [(simulation(n), [simulation(a) for a in n.args]) for n in topological(lowered) if n.op in ("add", "sub")]

    def cancels(k: int) -> bool:
        return any(math.isnan(total[k]) and not any(math.isnan(term[k]) for term in terms) for total, terms in sums)

    return [math.inf if math.isnan(v) and cancels(k) else v for k, v in enumerate(simulation(lowered))]


def _total(terms: Sequence[float]) -> float:
    """A sum over outputs as autograd finds it."""
    total = sum(terms)
    return total if total == total or len(terms) == 1 else math.inf


def _forms(layout: Layout, variant: Variant) -> Iterator[tuple[list[Expr], list[Expr], _Evaluate]]:
    """The terms of each output and gradient, as chosen and as written, where they are element-wise, and how the latter
    are evaluated."""
    written = {name: formula for name, formula in variant.formulas.items() if not _has_operations(formula)}
    for name, formula in written.items():
        output = _pointwise(variant.outputs[name])
        if output is not None:
            yield [output], [formula], _plain
    for tensor in layout.differentiable:
        own = {o: _pointwise(g) for (o, t), g in variant.gradients.items() if t == tensor and o in written}
        if own and None not in own.values():
            leaf = layout.symbol(tensor)
            slopes = [partials(written[o], [leaf])[leaf] for o in own]
            yield [g for g in own.values() if g is not None], slopes, _of_autograd


def _points(layout: Layout, values: Sequence[Any]) -> list[dict[Expr, Any]]:
    """Points that the test may sample, at values of the hyperparameters."""
    spec = layout.spec
    own = layout.environment(values)
    points = []
    for k in range(_POINTS):
        place = dict(own)
        for i, t in enumerate(spec.tensors):
            place[layout.symbol(t.name)] = value_at(t, sampled_range(t, spec), spread(k, i))
        points.append(place)
    return points


def _has_operations(form: Expr) -> bool:
    return any(is_tensor_op(n) for n in topological(form))


def _pointwise(form: Expr) -> Expr | None:
    """An output or gradient without what brings it in its shape and dtype; None if it is not pointwise."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(form):
        args = [mapped[a] for a in node.args]
        mapped[node] = args[0] if node.op in _OF_SHAPES else rebuild(node, args)
    return None if _has_operations(mapped[form]) else mapped[form]


def _is_within(value: float, domain: Interval) -> bool:
    """Whether a value is in a domain; an infinite end is."""
    return value in domain or (math.isinf(value) and value in (domain.lower, domain.upper))
