"""Limits at infinity: forms that are accurate may be infinity over infinity where the formula has a limit.

There an infinity inside the form gives way to a large number (`finite`), if the formula as it stands has the limit, the
form then has it too, and the pass over memory that this costs is little beside the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import mpmath as mp

from symgrad.accuracy.cost import cost
from symgrad.accuracy.evaluate import FLOAT64, Environment, Exact
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.simulate import Simulation
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.functions import FUNCTIONS

__all__ = ["Limits"]

_PRICE = 1.3  # times the cost that the form may have
_MOST_BOUNDED = 2  # values inside a form
_MOST_TRIED = 80
_UNBOUNDED = 1e19  # a variable that is sampled beyond this is not bounded by its domain
_ORDINARY = (0.01, 100.0)  # sizes of the other variables
_MOST_ORDINARY = 3

# Where limits are read: a value has one if it agrees at both, or vanishes, or grows.
_SCALES = (mp.mpf(2) ** 100, mp.mpf(2) ** 200)
_BITS = 1200


class Limits:
    """What a formula tends to where one variable is infinite and the others are ordinary.

    `points` are those at which it is measured: they lie in its domain.
    """

    def __init__(self, formula: Expr, points: Sequence[Environment]) -> None:
        self._formula = formula
        self._points = list(_infinite(formula, points))
        self._simulation = Simulation(self._points, FLOAT64)
        self._known: dict[int, float | None] = {}

    def kept(self, form: Expr) -> Expr:
        """The form, or one of those with a bounded value inside that has more of the limits, for little more."""
        values = self._simulation(machine_form(form))
        if not any(v != v for v in values) or not any(map(_is_divisor, topological(form))):
            return form
        most = _PRICE * (cost(form) + 1)  # and one pass for a cotangent
        beyond = self.missed(self._formula)
        missed = self.missed(form) - beyond
        for _ in range(_MOST_BOUNDED):
            better: list[tuple[int, float, int, Expr]] = []
            inside = list(_boundable(form)) if missed else []
            for k, node in enumerate(inside[-_MOST_TRIED:]):
                candidate = _bounded(form, node)
                left = self.missed(candidate) - beyond
                if left < missed and (price := cost(candidate)) <= most:
                    better.append((len(left), price, -k, candidate))
            if not better:
                break
            form = min(better)[-1]
            missed = self.missed(form) - beyond
        return form

    def missed(self, form: Expr) -> frozenset[int]:
        """By number the points at which a form is not what the formula tends to."""
        values = self._simulation(machine_form(form))
        return frozenset(i for i, value in enumerate(values) if not self._is_limit(i, value))

    def _is_limit(self, index: int, value: Any) -> bool:
        if isinstance(value, bool | str):
            return True
        limit = self._limit(index)
        if limit is None or math.isinf(limit):
            return limit is None or value == limit
        return bool(abs(value - limit) <= _TOLERANCE * max(abs(limit), _TOLERANCE))

    def _limit(self, index: int) -> float | None:
        if index not in self._known:
            near, far = (values[index] for values in self._columns)
            self._known[index] = _limit(near, far)
        return self._known[index]

    @cached_property
    def _columns(self) -> tuple[list[Any], list[Any]]:
        """The values of the formula at both scales."""
        near, far = (Exact([_at(p, scale) for p in self._points], _BITS)(self._formula) for scale in _SCALES)
        return near, far


_TOLERANCE = 1e-9


def _is_divisor(node: Expr) -> bool:
    return node.op == "pow" and not node.is_static and (n := node.args[1].number) is not None and n < 0


def _boundable(form: Expr) -> Iterator[Expr]:
    """The values in a form that may be bounded: no variable of which functions are computed, for forward has these."""
    known: set[Expr] = set()
    for node in topological(form):
        if node.op in FUNCTIONS and FUNCTIONS[node.op].cost > 1.5:
            known.update(a for a in node.tensors)
    yield from (n for n in topological(form) if n.tensors and not n.is_boolean and n not in known)


def _bounded(form: Expr, value: Expr) -> Expr:
    """The form with a value in it bounded, also where it is a part of a longer sum or product."""
    bounded, parts = make("finite", value), frozenset(value.args)
    longer = [
        node
        for node in topological(form)
        if value.op in ("add", "mul") and node.op == value.op and parts < frozenset(node.args)
    ]
    rest = {n: [a for a in n.args if a not in parts] for n in longer}
    return substitute(form, {value: bounded, **{n: rebuild(n, (bounded, *r)) for n, r in rest.items()}})


def _infinite(formula: Expr, points: Sequence[Environment]) -> Iterator[Environment]:
    """Points with one variable at the infinite end of its domain."""
    floats = sorted((s for s in formula.tensors if s["kind"] == "tensor"), key=lambda s: s.name)
    for symbol in floats:
        others = [s for s in floats if s is not symbol]
        usual = [p for p in points if all(_ORDINARY[0] <= abs(p[o]) <= _ORDINARY[1] for o in others)]
        for sign in (1, -1):
            if any(sign * p[symbol] > _UNBOUNDED for p in points):
                for p in usual[:: max(1, len(usual) // _MOST_ORDINARY)][:_MOST_ORDINARY]:
                    yield {**p, symbol: sign * math.inf}


def _at(point: Environment, scale: Any) -> Environment:
    """The point with a large number for an infinity."""
    return {s: scale * mp.sign(v) if isinstance(v, float) and math.isinf(v) else v for s, v in point.items()}


def _limit(near: Any, far: Any) -> float | None:
    if isinstance(far, bool | str) or mp.isnan(near) or mp.isnan(far):
        return None
    with mp.workprec(_BITS):
        if abs(far - near) <= abs(far) * mp.mpf(2) ** -40:
            return float(far)
        if abs(near) <= mp.mpf(2) ** -40 and abs(far) <= abs(near) * mp.mpf(2) ** -20:
            return 0.0
        if abs(near) >= 20 and abs(far) >= 1.5 * abs(near) and (near > 0) == (far > 0):
            return math.copysign(math.inf, far)
    return None
