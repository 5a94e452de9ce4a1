"""The true values of formulas at points: evaluation at growing precision until the digits agree, and limits."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import mpmath as mp
from flint import arb

from symgrad.accuracy.balls import ball, is_narrow, rounded, to_mpf
from symgrad.accuracy.evaluate import Enclosed, Environment, Exact, is_nan, is_zero
from symgrad.ir.expr import Expr

_PRECISIONS = (120, 240, 600, 1500)
_ENCLOSED = 288  # bits in which enclosures are computed
_ENOUGH = 230  # bits that an enclosure must tell
_AS_FLOAT = 100  # bits that a float is rounded from
_TOLD = 224  # bits that are kept of its midpoint, so that a value is 1 and not a little less
_NOTHING = 2.0**-_TOLD


@dataclass(frozen=True)
class Truth:
    """The true value of a formula at one point, as the ball that tells it, and the sizes of its derivatives by symbol.

    These are floats, or numbers of mpmath where a float would overflow.
    """

    ball: Any
    slopes: Mapping[Expr, Any]

    @cached_property
    def value(self) -> Any:
        """The number of mpmath that the ball tells."""
        return self.ball if isinstance(self.ball, bool | str) else to_mpf(rounded(self.ball, _TOLD))

    def parts(self) -> tuple[float, float, int]:
        """A number as the sum of two floats, and the power of 2 that is next above its size; 0 for 0.

        What is beyond the bits that a ball tells is nothing.
        """
        middle = self.ball.mid()
        high = float(middle)
        if not math.isfinite(high):
            return high, 0.0, 0
        low = float(middle - high)
        if abs(low) < abs(high) * _NOTHING:
            low = 0.0
        mantissa, exponent = math.frexp(high)
        below = abs(mantissa) == 0.5 and low * high < 0  # a little less than a power of 2
        return high, low, exponent - below


class Table:
    """Truth at fixed points, to at least 70 correct bits, by evaluation at growing precision.

    With `limits`, a formula that is undefined at a point alone, as 0 / 0 is, has its limit there; where a variable is
    at one of its `ends`, the limit from the side that its domain is on.
    """

    def __init__(
        self,
        points: Sequence[Environment],
        limits: bool = False,
        ends: Mapping[Expr, Collection[float]] = MappingProxyType({}),
    ) -> None:
        self.points = points
        self.limits = limits
        self.ends = ends
        self._balls = Enclosed(points, _ENCLOSED)
        self._exacts: dict[tuple[tuple[int, ...], int], Exact] = {}

    def at(self, indices: Sequence[int]) -> Exact:
        """Values at some of the points, in a precision that is high enough at most."""
        return self._exact(indices, _PRECISIONS[1])

    def floats(self, root: Expr) -> list[float]:
        """The value of an expression at each point as a float; NaN where it is a truth value or undefined."""
        column = self._balls.balls(root)
        found = [float(v) if type(v) is arb and is_narrow(v, _AS_FLOAT) else math.nan for v in column]
        pending = [k for k, value in enumerate(found) if value != value and not isinstance(column[k], (bool, str))]
        for k, value in zip(pending, self.at(pending)(root) if pending else (), strict=True):
            found[k] = math.nan if isinstance(value, (bool, str)) or mp.isnan(value) else float(value)
        return found

    def _exact(self, indices: Sequence[int], bits: int) -> Exact:
        """Values at some of the points; those of the low precisions are kept for other formulas."""
        key = tuple(indices), bits
        if key in self._exacts:
            return self._exacts[key]
        found = Exact([self.points[i] for i in indices], bits)
        if bits <= _PRECISIONS[1]:
            self._exacts[key] = found
        return found

    def _enclosed(self, formula: Expr, symbols: Sequence[Expr]) -> list[Truth | None]:
        """The truth where an enclosure is narrow enough; None where another way must be gone."""
        column = self._balls.balls(formula)
        slopes = {s: self._balls.slope(formula, s) for s in symbols}
        found: list[Truth | None] = []
        for k, value in enumerate(column):
            own = {s: sizes[k] for s, sizes in slopes.items()}
            known = value is not None and (type(value) is not arb or is_narrow(value, _ENOUGH))
            sure = known and not any(size != size for size in own.values())
            found.append(Truth(value, own) if sure else None)
        return found

    def __call__(self, formula: Expr, symbols: Sequence[Expr] = ()) -> list[Truth | None]:
        """The truth at each point; None where 1500 bits do not decide it, or where it is not finite.

        A value too small for any format is as good as 0. Where terms cancel altogether a 0 is believed at the last
        precision only, for it may be what lower ones lose. `symbols` are those whose derivatives are wanted.
        """
        found = self._enclosed(formula, symbols)
        pending = [k for k, truth in enumerate(found) if truth is None]
        for coarse, fine in pairwise(_PRECISIONS):
            if not pending:
                break
            tables, rows = [self._exact(pending, bits) for bits in (coarse, fine)], range(len(pending))
            earlier, later = (table(formula) for table in tables)
            last = fine == _PRECISIONS[-1]
            agreed = [k for k in rows if _agree(earlier[k], later[k])]
            decided = [k for k in agreed if last or not is_zero(later[k]) or tables[1].plainly_zero(formula, k)]
            told = [k for k in decided if isinstance(later[k], bool | str) or mp.isfinite(later[k])]
            slopes = {s: tables[1].slope(formula, s) for s in symbols} if told else {}
            for k in told:
                sizes = {s: _finite(column[k]) for s, column in slopes.items()}
                found[pending[k]] = Truth(ball(later[k]), sizes)
            undefined = [pending[k] for k in decided if self.limits and is_nan(later[k])]
            for index, truth in zip(undefined, self._limits(formula, symbols, undefined), strict=True):
                found[index] = truth
            pending = [index for k, index in enumerate(pending) if k not in set(decided)]
        return found

    def _limits(self, formula: Expr, symbols: Sequence[Expr], indices: Sequence[int]) -> list[Truth | None]:
        """What a formula tends to at points, from several sides; None where it does not."""
        if not indices:
            return []
        tables = [Exact([_aside(self.points[i], way) for i in indices], _PRECISIONS[-1]) for way in _WAYS]
        slopes = {s: tables[0].slope(formula, s) for s in symbols}
        columns = zip(*(table(formula) for table in tables), strict=True)
        limits = [_common_limit(sides, self._is_at_end(k)) for k, sides in zip(indices, columns, strict=True)]
        return [
            None if limit is None else Truth(ball(limit), {s: _finite(column[k]) for s, column in slopes.items()})
            for k, limit in enumerate(limits)
        ]

    def _is_at_end(self, index: int) -> bool:
        point = self.points[index]
        return any(point.get(s) in own for s, own in self.ends.items())


_APART = mp.mpf(2) ** -400  # from a point at which a formula is undefined, in relation to its size: roots tend slowly
_WAYS = (1, 3), (-2, -3), (3, -1), (-4, 2)  # by which its variables leave it, in turn


def _aside(point: Environment, way: Sequence[int]) -> Environment:
    moved = {}
    for i, (symbol, value) in enumerate(sorted(point.items(), key=lambda item: item[0].name)):
        own = symbol.tensors and symbol["kind"] == "tensor"
        with mp.workprec(_PRECISIONS[-1]):
            moved[symbol] = value + (abs(value) or 1) * way[i % 2] * (1 + i // 2) * _APART if own else value
    return moved


def _common_limit(sides: Sequence[Any], at_end: bool = False) -> Any:
    """What all values are nearly, at an end of a domain those that there are; None where they are not."""
    if at_end:
        sides = [side for side in sides if not mp.isnan(side)]
    if len(sides) < 2 or not all(map(mp.isfinite, sides)):
        return None
    with mp.workprec(120):
        if all(_agree(side, sides[0]) for side in sides):
            return sides[0]
        return mp.mpf(0) if max(map(abs, sides)) < mp.mpf(2) ** -90 else None


def _finite(value: Any) -> Any:
    return value if mp.isfinite(value) else mp.mpf(0)


def _agree(coarse: Any, fine: Any) -> bool:
    if isinstance(fine, bool | str):
        return bool(coarse == fine)
    if mp.isnan(fine) or mp.isinf(fine):
        return str(coarse) == str(fine)
    if not mp.isfinite(coarse):
        return False
    with mp.workprec(120):
        difference = abs(coarse - fine)
        return bool(difference <= abs(fine) * mp.mpf(2) ** -70 or max(abs(coarse), abs(fine)) < mp.mpf(2) ** -2000)
