"""Whether autograd can differentiate a form where it can the formula: second derivatives are those of backward."""

from __future__ import annotations

import math
from collections.abc import Sequence

from symgrad.accuracy.autograd import Autograd
from symgrad.accuracy.evaluate import FLOAT64, Environment
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.sample import Sample
from symgrad.accuracy.simulate import Simulation
from symgrad.ir.expr import FALSE, TRUE, Expr
from symgrad.ir.traversal import substitute, topological

__all__ = ["Smoothness"]


class Smoothness:
    """The derivatives of a formula by autograd, where nothing is extreme and a tensor or a sum is 0: there infinities
    arise.

    Of choices those branches count that are chosen: the other ones are guarded where they are written.
    """

    def __init__(self, formula: Expr, sample: Sample) -> None:
        self._tensors = [t for t in formula.tensors if t["kind"] == "tensor"]
        self._points: Sequence[Environment] = [*sample.zeros(self._tensors), *sample.where_sums_vanish(formula)]
        self._formula = formula
        self._known: dict[Expr, list[list[float]]] = {}

    def is_lost(self, form: Expr) -> bool:
        """Whether a form has a derivative that is not finite where that of the formula is: 1 / (1/x + x) at 0."""
        written, own = self._derivatives(self._formula), self._derivatives(form)
        return any(
            math.isfinite(a) and not math.isfinite(b)
            for columns in zip(written, own, strict=True)
            for a, b in zip(*columns, strict=True)
        )

    def _derivatives(self, form: Expr) -> list[list[float]]:
        """By each tensor, at each point."""
        if form not in self._known:
            conditions = [n.args[0] for n in topological(form) if n.op == "where"]
            values = Simulation(self._points, FLOAT64)
            columns = [values(machine_form(c)) for c in conditions]
            found: list[list[float]] = [[math.nan] * len(self._points) for _ in self._tensors]
            cases: dict[tuple[bool, ...], list[int]] = {}
            for place in range(len(self._points)):
                cases.setdefault(tuple(bool(column[place]) for column in columns), []).append(place)
            for case, places in cases.items():
                truths = dict(zip(conditions, (TRUE if c else FALSE for c in case), strict=True))
                autograd = Autograd(substitute(form, truths), [self._points[k] for k in places], FLOAT64)
                for column, tensor in zip(found, self._tensors, strict=True):
                    for place, value in zip(places, autograd(tensor), strict=True):
                        column[place] = value
            self._known[form] = found
        return self._known[form]
