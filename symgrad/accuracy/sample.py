"""The points that forms are measured at, with what expressions are worth there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import compress, islice
from types import MappingProxyType

from symgrad.accuracy.equality import Check
from symgrad.accuracy.evaluate import FAR, FLOAT32, FLOAT64, Environment, Format, is_near
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.simulate import Simulation
from symgrad.accuracy.truth import Table
from symgrad.accuracy.vanishing import nearly_equal, sums_vanish, ties
from symgrad.ir.expr import Expr

__all__ = ["Sample"]

_OUTSIDE = (2.0**59, 2.0**61, 2.0**64, 2.0**70, 2.0**90, 2.0**110, 2.0**126)
_MOST_ZEROS = 24
_LARGE, _MOST_BESIDE = (60.0, -60.0, 100.0, -100.0), 3
_MOST_CHECKS = 28  # points at which a rewritten form is compared


class Sample:
    """Points of each format, with the values that expressions have there: shared by all formulas measured on them.

    With `limits`, where a formula is undefined at a point alone, its limit is its value. `large` are the tensors that
    have values beyond 1e18, as their domains say. Where variables are `computed`, as results of whole tensors, they
    depend on each other, and values beyond 1e18 count as those of tensors that are. `ends` are the closed ends of
    their domains.
    """

    def __init__(
        self,
        points: Mapping[Format, Sequence[Environment]],
        limits: bool = False,
        large: Collection[Expr] = (),
        computed: bool = False,
        ends: Mapping[Expr, Collection[float]] = MappingProxyType({}),
    ) -> None:
        self.points = points
        self.limits = limits
        self.large = large
        self.computed = computed
        self.ends = ends
        self._tables: dict[Format, Table] = {}
        self._simulations: dict[tuple[Format, Format], Simulation] = {}
        self._far: dict[Format, Sequence[bool]] = {}
        self._near: dict[Format, Sequence[bool]] = {}
        self._moves: dict[tuple[Format, Expr], Sequence[int | None]] = {}
        self.local_errors: dict[tuple[Expr, Format, tuple[int, ...]], float] = {}

    def at(self, target: Format, points: Sequence[Environment]) -> Sample:
        """The sample of other points of one format."""
        return Sample({target: points}, self.limits, self.large, self.computed, self.ends)

    def where(self, condition: Expr) -> Sample:
        """The points at which a condition holds."""
        test, found = machine_form(condition), dict[Format, list[Environment]]()
        for target, points in self.points.items():
            found[target] = [p for p, holds in zip(points, Simulation(points, FLOAT64)(test), strict=True) if holds]
        return Sample(found, self.limits, self.large, self.computed, self.ends)

    def extended(self, points: Mapping[Format, Sequence[Environment]]) -> Sample:
        """The sample with further points."""
        both = {target: [*own, *points[target]] for target, own in self.points.items()}
        return Sample(both, self.limits, self.large, self.computed, self.ends)

    def far(self, target: Format) -> Sequence[bool]:
        """Of each point of a format, whether a tensor has a value there that nobody said it has."""
        if target not in self._far:
            own = [s for s in self.symbols if (s["kind"] == "tensor" or s.is_differential) and s not in self.large]
            self._far[target] = [any(abs(point[s]) > FAR for s in own) for point in self.points[target]]
        return self._far[target]

    def near(self, target: Format) -> Sequence[bool]:
        """Of each point of a format, whether nothing is extreme there."""
        if target not in self._near:
            self._near[target] = [all(map(is_near, point.values())) for point in self.points[target]]
        return self._near[target]

    def moves(self, target: Format, symbol: Expr) -> Sequence[int | None]:
        """Of which power of 2 one ulp of a symbol is at each point of a format; None where its value is 0."""
        if (target, symbol) not in self._moves:
            column = (point[symbol] for point in self.points[target])
            self._moves[target, symbol] = [target.ulp_exponent(value) if value else None for value in column]
        return self._moves[target, symbol]

    def zeros(self, tensors: Collection[Expr]) -> list[Environment]:
        """Some points of float64 at which nothing is extreme and one of the tensors is 0: there infinities arise.

        For each tensor that may be 0 there are points at which it alone is.
        """
        near = list(compress(self.points[FLOAT64], self.near(FLOAT64)))
        ordinary = [p for p in near if all(p[t] for t in tensors)][:_MOST_BESIDE]
        may_be_zero = [t for t in tensors if near and min(p[t] for p in near) <= 0 <= max(p[t] for p in near)]
        alone = [{**point, t: 0.0} for t in may_be_zero for point in ordinary]
        return [*alone, *islice((p for p in near if any(p.get(t) == 0 for t in tensors)), _MOST_ZEROS)]

    def beside_large(self, tensors: Collection[Expr]) -> list[Environment]:
        """Some points of float32 at which one of the tensors is as large as inputs of exponentials get, as far as it
        may be, and nothing else is extreme."""
        points = self.points.get(FLOAT32, ())
        if not points:
            return []
        near = list(islice(compress(points, self.near(FLOAT32)), _MOST_BESIDE))
        ends = {t: (min(p[t] for p in points), max(p[t] for p in points)) for t in tensors}
        ways = [(t, size) for t, (low, high) in ends.items() for size in _LARGE if low <= size <= high]
        return [{**point, t: size} for t, size in ways for point in near]

    def where_sums_vanish(self, formula: Expr) -> list[Environment]:
        """Points of float32 at which nothing is extreme and a sum of the formula is 0."""
        points = self.points.get(FLOAT32, ())
        return sums_vanish(formula, points, list(compress(points, self.near(FLOAT32)))) if points else []

    def nearly_equal(self, formula: Expr) -> list[Environment]:
        """Points of float32 at which a difference of tensors of the formula is small, and nothing else is extreme."""
        points = self.points.get(FLOAT32, ())
        return nearly_equal(formula, points, list(compress(points, self.near(FLOAT32)))) if points else []

    def ties(self, formula: Expr) -> list[Environment]:
        """Points of float32 at which nothing is extreme and both sides of a comparison of the formula are equal."""
        points = self.points.get(FLOAT32, ())
        return ties(formula, points, list(compress(points, self.near(FLOAT32)))) if points else []

    @property
    def symbols(self) -> Collection[Expr]:
        """The variables of the points."""
        return next((point.keys() for points in self.points.values() for point in points), ())

    def truth(self, target: Format) -> Table:
        """True values at the points of a format."""
        if target not in self._tables:
            self._tables[target] = Table(self.points[target], self.limits, self.ends)
        return self._tables[target]

    @cached_property
    def content(self) -> str:
        """What is measured on it depends on: a text that is the same in every process."""
        rows = [[target.name, *(point.values() for point in points)] for target, points in self.points.items()]
        points = repr([[own if isinstance(own, str) else [*own] for own in row] for row in rows])
        names = sorted(s.digest.hex() for s in self.large)
        return repr(([s.digest.hex() for s in self.symbols], points, self.limits, self.computed, names))

    @cached_property
    def check(self) -> Check:
        """Compares expressions at some of the points."""
        points = self.points[FLOAT64]
        return Check(points[:: max(1, len(points) // _MOST_CHECKS)])

    @cached_property
    def thorough_check(self) -> Check:
        """Compares expressions at all points, and far outside: for forms that are not identities."""
        points = [dict(p) for p in self.points[FLOAT64]]
        for base in self.points[FLOAT64][:: max(1, len(points) // 6)]:
            tensors = [s for s in base if s.tensors and s["kind"] == "tensor"]
            for symbol in tensors:
                points += [{**base, symbol: sign * size} for size in _OUTSIDE for sign in (1, -1)]
                points += [{**base, symbol: 1 / size} for size in _OUTSIDE]
            scales = (*_OUTSIDE, *(1 / size for size in _OUTSIDE))
            points += [{**base, **{s: scale * base[s] for s in tensors}} for scale in scales]  # of ordinary ratios
        return Check(points)

    def simulation(self, target: Format, arithmetic: Format) -> Simulation:
        """Values at the points of `target`, computed in `arithmetic`."""
        key = target, arithmetic
        if key not in self._simulations:
            self._simulations[key] = Simulation(self.points[target], arithmetic)
        return self._simulations[key]
