"""Whether two expressions are equal over the reals, by their values at points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mpmath as mp
from flint import arb

from symgrad.accuracy.evaluate import Enclosed, Environment, Exact, is_nan
from symgrad.ir.expr import Expr

_SURE = (240, 1200)  # bits at which values are compared, the later ones only where they differ
_SURER = 1400  # bits at which a value that cancellation leaves is another one


class Check:
    """Whether two expressions are equal: to 40 bits wherever the first is finite, at fixed points.

    Where the first is undefined the second must be, except at a single point such as 0 / 0, which it may continue. What
    terms leave by cancelling says nothing, where the two agree elsewhere: `1 - erf(x)` is 0 in any precision, and
    `x**n - (x**n)**2 / (1 + x**n)` is what rounding left.
    """

    def __init__(self, points: Sequence[Environment]) -> None:
        self._points = points
        self._balls = Enclosed(points, _SURE[0])
        self._some: dict[tuple[int, ...], Exact] = {}

    def __call__(self, before: Expr, after: Expr) -> bool:
        pairs = list(zip(self._balls.balls(before), self._balls.balls(after), strict=True))
        sure = list(map(_surely_equal, *zip(*pairs, strict=True))) if pairs else []
        open_ = tuple(k for k, equal in enumerate(sure) if not equal)
        if not open_:
            return True
        agrees = any(equal and not (type(a) is arb and 0 in a) for equal, (a, _) in zip(sure, pairs, strict=True))
        if open_ not in self._some:
            self._some[open_] = Exact([self._points[k] for k in open_], _SURE[0])
        return _agrees(self._some[open_], before, after, agrees)


def _surely_equal(before: Any, after: Any) -> bool:
    """Whether balls tell that two values agree to 40 bits."""
    if type(before) is not arb or type(after) is not arb:
        return before is not None and before is after and isinstance(before, bool)
    return bool(abs(before - after) <= abs(before) * _TOLERANCE + _LEAST)


_TOLERANCE, _LEAST = arb(2) ** -40, arb(2) ** -1200


def _agrees(values: Exact, before: Expr, after: Expr, agrees: bool) -> bool:
    """Whether two expressions are equal at points; `agrees` says that they agree elsewhere."""
    old, new = values(before), values(after)
    points = values.points
    differing = [p for p, a, b in zip(points, old, new, strict=True) if not _equal(a, b)]
    agrees = agrees or any(_is_nonzero(a) and _equal(a, b) for a, b in zip(old, new, strict=True))
    # One point first: where the two are different indeed, it is enough.
    for some in (differing[:1], differing[1:]):
        if some:
            surer = Exact(some, _SURE[1])
            pairs = zip(surer(before), surer(after), strict=True)
            unequal = [i for i, pair in enumerate(pairs) if not _equal(*pair)]
            if unequal and not (agrees and all(_lost(before, surer, unequal))):
                return False
    continued = [_beside(p) for p, a, b in zip(points, old, new, strict=True) if is_nan(a) and not is_nan(b)]
    beside = Exact(continued, _SURE[0])
    return not any(is_nan(value) and not beside.saturated(before, i) for i, value in enumerate(beside(before)))


def _lost(root: Expr, values: Exact, indices: Sequence[int]) -> Iterator[bool]:
    """Whether cancellation left nothing of a value at points: 0, or another number in another precision."""
    again = Exact([values.points[i] for i in indices], _SURER)(root)
    for index, other in zip(indices, again, strict=True):
        yield values.cancelled(root, index) or not _equal(other, values(root)[index])


_ASIDE = 2.0**-40


def _beside(point: Environment) -> Environment:
    """A point very near, for a look whether an undefined value is the exception there."""
    moved = {}
    for i, (symbol, value) in enumerate(sorted(point.items(), key=lambda item: item[0].name)):
        own = symbol.tensors and not isinstance(value, bool | str)
        moved[symbol] = value * (1 + (i + 1) * _ASIDE) + _ASIDE**2 if own else value
    return moved


def _equal(before: Any, after: Any) -> bool:
    if isinstance(before, bool | str):
        return bool(before == after)
    if not mp.isfinite(before):
        return True
    with mp.workprec(100):
        tolerance = abs(before) * mp.mpf(2) ** -40 + mp.mpf(2) ** -1200
        return bool(mp.isfinite(after) and abs(before - after) <= tolerance)


def _is_nonzero(value: Any) -> bool:
    return not isinstance(value, bool | str) and bool(value) and bool(mp.isfinite(value))
