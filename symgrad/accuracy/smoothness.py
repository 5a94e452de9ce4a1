"""Whether autograd can differentiate a form where it can the formula: second derivatives are those of backward."""

from __future__ import annotations

import math
from collections.abc import Sequence

from symgrad.accuracy.autograd import Autograd
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Environment, Format
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.sample import Sample
from symgrad.accuracy.simulate import Simulation
from symgrad.ir.expr import FALSE, TRUE, Expr
from symgrad.ir.traversal import substitute, topological

__all__ = ["Smoothness"]


class Smoothness:
    """The derivatives of a formula by autograd, where nothing is extreme and a tensor or a sum is 0, or one tensor is
    large: there infinities arise, and squares of exponentials leave float32.

    Of choices those branches count that are chosen: the other ones are guarded where they are written.
    """

    def __init__(self, formula: Expr, sample: Sample) -> None:
        self._tensors = [t for t in formula.tensors if t["kind"] == "tensor"]
        self._zeros = [*sample.zeros(self._tensors), *sample.where_sums_vanish(formula)]
        self._large = sample.beside_large(self._tensors)
        self._formula = formula
        self._known: dict[tuple[Expr, Format], list[list[float]]] = {}

    def is_lost(self, form: Expr) -> bool:
        """Whether a form has a derivative that is not finite where that of the formula is: 1 / (1/x + x) at 0."""
        return self._is_lost(form, self._zeros, FLOAT64)

    def is_lost_beside_large(self, form: Expr) -> bool:
        """Whether that is so in float32 beside a large tensor: 1 / (1/sigmoid(x) + 1) at -60."""
        return self._is_lost(form, self._large, FLOAT32)

    def loses(self, form: Expr, other: Expr) -> bool:
        """Whether a form has lost a derivative that another form has."""
        checks = self.is_lost, self.is_lost_beside_large
        return any(is_lost(form) and not is_lost(other) for is_lost in checks)

    def _is_lost(self, form: Expr, points: Sequence[Environment], target: Format) -> bool:
        for own in (self._formula, form):
            if (own, target) not in self._known:
                self._known[own, target] = self._at(own, points, target)
        return any(
            math.isfinite(a) and not math.isfinite(b)
            for columns in zip(self._known[self._formula, target], self._known[form, target], strict=True)
            for a, b in zip(*columns, strict=True)
        )

    def _at(self, form: Expr, points: Sequence[Environment], target: Format) -> list[list[float]]:
        """By each tensor, at each point."""
        conditions = [n.args[0] for n in topological(form) if n.op == "where"]
        values = Simulation(points, target)
        columns = [values(machine_form(c)) for c in conditions]
        found: list[list[float]] = [[math.nan] * len(points) for _ in self._tensors]
        cases: dict[tuple[bool, ...], list[int]] = {}
        for place in range(len(points)):
            cases.setdefault(tuple(bool(column[place]) for column in columns), []).append(place)
        for case, places in cases.items():
            truths = dict(zip(conditions, (TRUE if c else FALSE for c in case), strict=True))
            autograd = Autograd(substitute(form, truths), [points[k] for k in places], target)
            for column, tensor in zip(found, self._tensors, strict=True):
                for place, value in zip(places, autograd(tensor), strict=True):
                    column[place] = value
        return found
