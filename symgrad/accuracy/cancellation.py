"""Where the forms of a formula cancel: the parts of one that err, and how far from the point where they do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from symgrad.accuracy.approximate import Interval, Target, groups
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Format
from symgrad.accuracy.localise import culprits, neighbourhood
from symgrad.accuracy.measure import ALLOWED, Judge
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.rules.algebra import expanded

__all__ = ["cancelling", "cancelling_terms", "erring_places", "intervals_where_it_errs"]

_MOST_CULPRITS = 4
_MOST_FAILING = 6
_MOST_TERMS = 8  # of a sum of which some may cancel
_FARTHEST, _NEAREST = 3.0, 0.02  # of the points that err about a point of cancellation


def cancelling(form: Expr, judge: Judge) -> list[Expr]:
    """The sums and quotients that err, and the whole."""
    return [n for n in (*_erring(form, form, judge), form) if n.op in ("add", "mul")][:_MOST_CULPRITS]


def cancelling_terms(form: Expr, judge: Judge) -> Iterator[tuple[Expr, Expr, Expr]]:
    """Sums, and multiplied out, some of their terms that cancel, and the other ones: 1/x - 1/expm1(x) in a sum."""
    for node in [n for n in _erring(form, form, judge) if n.op == "add"][:_MOST_CULPRITS]:
        flat = expanded(node.args)
        if flat is not None and flat.op == "add" and 2 < len(flat.args) <= _MOST_TERMS:
            for some in groups(flat):
                if some in _erring(form, some, judge):
                    yield node, some, ex.add(*(term for term in flat.args if term not in some.args))


def erring_places(form: Expr, judge: Judge) -> frozenset[Expr]:
    """Where the form errs, in the format in which it does, and what is next to it."""
    nodes: list[Expr] = []
    for target in (FLOAT32, FLOAT64):
        nodes += culprits(form, judge.sample, target, _failing(form, judge, target))[:_MOST_CULPRITS]
    return neighbourhood(form, nodes)


def _erring(form: Expr, part: Expr, judge: Judge) -> list[Expr]:
    """The operations of a part that err where a form does."""
    found = (n for t in (FLOAT32, FLOAT64) for n in culprits(part, judge.sample, t, _failing(form, judge, t)))
    return list(dict.fromkeys(found))


def _failing(form: Expr, judge: Judge, target: Format) -> list[int]:
    """The points at which a form is the worst."""
    errors = judge.measure(form, target).errors
    worst = sorted((i for i, e in errors.items() if e > ALLOWED[FLOAT32]), key=lambda i: -errors[i])
    return sorted(worst[:: max(1, len(worst) // _MOST_FAILING)])


def intervals_where_it_errs(form: Expr, target: Target, judge: Judge) -> list[Interval]:
    """Where a form errs about a point, in what order to try: round and symmetric first; none if it is elsewhere."""
    distances: list[float] = []
    for format_, bound in ALLOWED.items():
        column = judge.sample.truth(format_).floats(target.distance)
        errors = judge.measure(form, format_).errors
        distances += [column[i] for i, e in errors.items() if e > bound]
    close = [d for d in distances if abs(d) <= _FARTHEST]
    if not close or min(map(abs, close)) > _NEAREST or 2 * len(close) < len(distances):
        return []
    radius = _rounded_up(1.2 * max(map(abs, close)), bits=0)
    if target.point is None:
        sides = [s for s in (1, -1) if s * max(close, key=lambda d: s * d) > 0]
        both = len(sides) == 2
        parts = (1, 2, 8, 16) if both else (2, 8, 16)
        far = [Interval(*sorted((Fraction(0), side * radius / k))) for k in parts for side in sides]
        return [Interval.around(radius), *far] if both else far
    low, high = (_rounded_up(max(0.0, 1.1 * end), bits=3) for end in (-min(close), max(close)))
    return [Interval.around(radius), Interval.around(radius / 2), Interval(-low, high)]


def _rounded_up(distance: float, bits: int) -> Fraction:
    """A distance or a little more, as a number of few bits beside the first."""
    enough = Fraction(max(distance, 2.0**-30))
    step = Fraction(2) ** (math.floor(math.log2(enough)) - bits)
    return math.ceil(enough / step) * step
