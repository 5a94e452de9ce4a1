"""How accurate a form is, and which of several forms to emit.

The error of a form at a point is its distance from the true value in ulp of the true value, less what half an ulp in
each input would change (the formula's conditioning, which no implementation can undo). A non-finite result where the
truth is finite and representable counts separately and before everything else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mpmath as mp

from symgrad.evaluate import FLOAT64, Environment, Format, exact, simulate, truth
from symgrad.expr import Expr
from symgrad.machine import machine


@dataclass(frozen=True, order=True)
class Score:
    """Worst error over the sample points: non-finite results, then ulp."""

    nonfinite: int
    ulp: float

    @property
    def good(self) -> bool:
        """Nothing to gain from another form."""
        return not self.nonfinite and self.ulp <= 2.5


@dataclass(frozen=True)
class Reference:
    """The true value of one formula at one point, and how much an input error of half an ulp moves it."""

    point: Environment
    value: Any
    slopes: tuple[tuple[float, Any], ...]  # (input, |derivative|)

    def credit(self, target: Format) -> Any:
        """The conditioning of the formula in this format."""
        return sum((slope * target.ulp(x) / 2 for x, slope in self.slopes), mp.mpf(0))


class Judge:
    """Scores forms of one formula, which is true by definition, over fixed sample points."""

    def __init__(self, formula: Expr, points: Mapping[Format, Sequence[Environment]]) -> None:
        self.formula = formula
        self._points = points
        self._references: dict[Format, list[Reference]] = {}
        self._scores: dict[tuple[Expr, Format, bool], Score] = {}

    def references(self, target: Format) -> list[Reference]:
        """True values where they are finite and representable."""
        if target not in self._references:
            found = (_reference(self.formula, point) for point in self._points[target])
            self._references[target] = [r for r in found if r is not None and abs(r.value) <= target.largest]
        return self._references[target]

    @cached_property
    def check_points(self) -> list[Environment]:
        """Some of the points, for checks of equality."""
        return [r.point for r in self.references(FLOAT64)][::3]

    def score(self, form: Expr, target: Format, wide: bool = False) -> Score:
        """The worst error of `form` in `target`; `wide` evaluates in float64 and rounds once."""
        key = (form, target, wide)
        if key not in self._scores:
            (lowered,) = machine([form])
            nonfinite, worst = 0, 0.0
            for reference in self.references(target):
                (value,) = simulate([lowered], reference.point, FLOAT64 if wide else target)
                error = ulp_error(target.round(value), reference, target)
                nonfinite += math.isinf(error)
                worst = max(worst, 0.0 if math.isinf(error) else error)
            self._scores[key] = Score(nonfinite, worst)
        return self._scores[key]


def ulp_error(value: Any, reference: Reference, target: Format) -> float:
    """Error in ulp with the conditioning credited; infinite where a finite truth was missed."""
    if isinstance(value, bool):
        return 0.0 if value == reference.value else math.inf
    if not math.isfinite(value):
        return math.inf
    with mp.workprec(200):
        excess = abs(mp.mpf(value) - reference.value) - reference.credit(target)
        if excess <= 0 or abs(reference.value) < mp.ldexp(1, target.min_exponent - 1) > abs(value):
            return 0.0  # below the normal range results may flush to zero
        return float(excess / target.ulp(reference.value))


_STEP = mp.mpf(2) ** -70


def _reference(formula: Expr, point: Environment) -> Reference | None:
    (value,) = truth([formula], point)
    if value is None or isinstance(value, str) or (not isinstance(value, bool) and not mp.isfinite(value)):
        return None
    if isinstance(value, bool):
        return Reference(point, value, ())
    slopes = []
    for symbol in sorted(formula.tensors, key=lambda s: s.name):
        x = point[symbol]
        if symbol["kind"] == "tensor" and x:
            with mp.workprec(300):
                moved = dict(point)
                step = abs(mp.mpf(x)) * _STEP
                moved[symbol] = mp.mpf(x) + step
                ahead, here = exact([formula], moved, 300)[0], exact([formula], point, 300)[0]
                slope = abs(ahead - here) / step
            slopes.append((x, slope if mp.isfinite(slope) else mp.mpf(0)))
    return Reference(point, value, tuple(slopes))
