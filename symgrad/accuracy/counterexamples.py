"""Where a chosen form errs though its sample did not show it: many ordinary points, at which it is only computed.

A sample has few points at which several variables are neither small nor extreme, and fewer in each branch of a choice.
To compute the form in float32 and the formula as it is written in float64 costs little; truth is asked only where the
two differ, and what is found then belongs to the sample.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Environment
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.measure import Judge
from symgrad.accuracy.sample import Sample
from symgrad.accuracy.sampling import ORDINARY, settings_of, values_of
from symgrad.accuracy.simulate import Simulation, is_cheap
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.spec.interval import Interval

__all__ = ["counterexamples", "ordinary_points"]

_DRAWN, _TAKEN = 3072, 512  # points, and those of them that are computed
_MOST_CONDITIONS = 3  # of which both sides are seen equally often
_APART = 2.0**-12  # relative, beyond which the two computations differ
_ERRS = 2.0**10  # ulp, beyond which a form is wrong
_WORSE = 8  # times what the formula as it is written errs
_MOST_JUDGED, _MOST_KEPT = 48, 12
_WIDER = (2.2, 8.0)  # times as large is what vanishes beside 1 in float64, and what overflows there
_SEED = 20
_SMALLEST = math.ldexp(1.0, FLOAT32.min_exponent)


def ordinary_points(
    formula: Expr, tensors: Mapping[Expr, Interval], scalars: Mapping[Expr, Sequence[Any]]
) -> list[Environment]:
    """Points at which every variable has an ordinary size of its own, in each branch of the first choices."""
    columns = {s: values_of(s, within, ORDINARY, FLOAT32) for s, within in tensors.items()}
    settings = settings_of(scalars)
    drawn = random.Random(_SEED)
    return _evenly(
        formula,
        [
            {**{s: own[int(len(own) * drawn.random())] for s, own in columns.items()}, **settings[k % len(settings)]}
            for k in range(_DRAWN)
        ],
    )


def _evenly(formula: Expr, points: Sequence[Environment]) -> list[Environment]:
    """As many points of each combination of what the first choices of a formula decide."""
    conditions = dict.fromkeys(n.args[0] for n in topological(formula) if n.op == "where" and n.args[0].tensors)
    simulation = Simulation(points, FLOAT32)
    columns = [simulation(machine_form(c)) for c in list(conditions)[:_MOST_CONDITIONS]]
    groups: dict[tuple[Any, ...], list[Environment]] = {}
    for k, point in enumerate(points):
        groups.setdefault(tuple(column[k] for column in columns), []).append(point)
    share = _TAKEN // max(1, len(groups))
    return [point for group in groups.values() for point in group[:share]]


def counterexamples(
    judge: Judge, form: Expr, wide: bool, points: Sequence[Environment], ranges: Mapping[Expr, Interval]
) -> Sample | None:
    """The sample of a judge with those of the points at which a form of its formula errs; None if it does not.

    `ranges` are those of its tensors.
    """
    if not points or not all(map(is_cheap, topological(form, judge.formula))):
        return None
    written = Simulation(points, FLOAT64, quick=True)(machine_form(judge.formula))
    values = Simulation(points, FLOAT64 if wide else FLOAT32, quick=True)(machine_form(form))
    differing = [p for p, a, b in zip(points, values, written, strict=True) if _differ(a, b)]
    if not differing:
        return None
    some = differing[:: -(-len(differing) // _MOST_JUDGED)]
    found = _erring(judge, form, wide, some)
    if not found:
        return None
    scaled = [{s: _scaled(v, size, s, ranges.get(s)) for s, v in p.items()} for size in _WIDER for p in found]
    return judge.sample.extended({FLOAT32: found, FLOAT64: [*found, *scaled]})


def _scaled(value: Any, size: float, symbol: Expr, within: Interval | None) -> Any:
    """A value so many times as large, if its tensor may have that."""
    return size * value if symbol["kind"] == "tensor" and within is not None and size * value in within else value


def _differ(value: Any, written: float) -> bool:
    """Whether two values are apart, neither of them beyond float32 nor both below its normal range."""
    if isinstance(value, bool):
        return False
    if not math.isfinite(value):
        return bool(abs(written) <= FLOAT32.largest or math.isnan(written))
    size = max(abs(value), abs(written))
    return bool(_SMALLEST < size <= FLOAT32.largest and abs(value - written) > _APART * size)


def _erring(judge: Judge, form: Expr, wide: bool, points: Sequence[Environment]) -> list[Environment]:
    """The points at which a form is wrong, the worst first, if it is worse than the formula as it is written at any.

    What cancels in the formula as well is not for a form to mend.
    """
    own = Judge(judge.formula, judge.sample.at(FLOAT32, points), judge.precision)
    errors, written = (own.measure(f, FLOAT32, w).errors for f, w in ((form, wide), (judge.formula, False)))
    wrong = sorted((i for i, e in errors.items() if e > _ERRS), key=lambda i: -errors[i])
    if not any(math.isinf(errors[i]) or errors[i] > _WORSE * written[i] for i in wrong):
        return []
    return [points[i] for i in wrong[:: max(1, -(-len(wrong) // _MOST_KEPT))]]
