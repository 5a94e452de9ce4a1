"""Points at which something in a formula is exactly 0: what rounding leaves there is noise, or meets what overflows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, permutations, product

from symgrad.accuracy.evaluate import FLOAT32, Environment
from symgrad.accuracy.machine import is_divisor, machine_form
from symgrad.accuracy.simulate import Simulation
from symgrad.ir import expr as ex
from symgrad.ir.expr import COMPARISONS, Expr, make
from symgrad.ir.order import begun, parts_of
from symgrad.ir.traversal import topological, transform
from symgrad.ir.truth import compare, where

__all__ = ["both_equal", "divided_first", "near_cancellation", "nearly_equal", "sums_vanish", "ties"]

_BESIDE_EQUAL = (-60.0, 60.0, 1e-25, 1e22)  # squares of exponentials, and squares, leave the range of float32
_MOST_POINTS = 24
_SMALL = 1e30  # in whose units magnitudes are compared
_STRIDE = 7919  # a prime: samples alternate in sign, and every second one would leave out half of the line
_SHORT = (1.0, 2.0, 0.5, -1.0, 3.0)  # numbers of which products and sums are exact
_LITTLE = (FLOAT32.round(1.2345e-4), FLOAT32.round(1.2345e-8), 0.0, 1.0)  # with all digits, and none
_MOST_SUMS = 12
_SHOWN = 3  # points for each pair of tensors
_LEVELS = (0.7, 321.1, 1.2e6, 1.7e9)  # of what is measured: a ratio, a temperature, a coordinate, a time
_APART = 2.0**-20  # what a small difference is to them: eight steps of float32
_STEPS = (2, 0, -1, 5, 3, -4)  # of that, from one tensor to others
_MOST_PAIRS = 6
_MOST_OF_ONE = 8  # points at which one sum is 0


def both_equal(
    points: Sequence[Environment], near: Sequence[Environment], tensors: Sequence[Expr]
) -> list[Environment]:
    """Points at which two of the tensors are equal and a third is extreme: what is 0 may meet what overflows.

    All values are such as the given points have; the others are those of `near` ones.
    """
    if not near or len(tensors) < 3:
        return []
    columns = {t: sorted({p[t] for p in points}) for t in tensors}
    ways = [(*pair, t) for pair in combinations(tensors, 2) for t in tensors if t not in pair]
    found: list[Environment] = []
    for k, (size, (first, second, other)) in enumerate((s, w) for s in _BESIDE_EQUAL for w in ways):
        point = near[k * _STRIDE % len(near)]
        if columns[second][0] <= point[first] <= columns[second][-1]:
            extreme = min(columns[other], key=lambda v: abs(math.asinh(v * _SMALL) - math.asinh(size * _SMALL)))
            found.append({**point, second: point[first], other: extreme})
    return found[:_MOST_POINTS]


def sums_vanish(formula: Expr, points: Sequence[Environment], near: Sequence[Environment]) -> list[Environment]:
    """Points at which a sum in the formula is 0 in every format: k = 1 for k - 1, and s = m**2 for m**2 - s; and those
    at which two tensors are equal.

    What else is in the sum has short numbers; other variables are as they are at `near` points.
    """
    ranges = {s: (min(column), max(column)) for s, column in _columns(points).items()}
    found = list(islice(_equal_pairs(formula, near, ranges), _MOST_SUMS))
    totals = [n for n in topological(formula) if n.op == "add"]
    sums = [s for n in totals for s in (n, *begun(n)) if s.symbols]
    return [*found, *_zeros(sums, near, ranges)][: 2 * _MOST_POINTS]


def nearly_equal(formula: Expr, points: Sequence[Environment], near: Sequence[Environment]) -> list[Environment]:
    """Points at which two tensors whose difference the formula has are large beside it, or all such tensors beside
    their differences; these have no rounding error."""
    ranges = {s: (min(column), max(column)) for s, column in _columns(points).items()}
    tensors = [t for t in ranges if t["kind"] == "tensor"]
    sums = [n for n in topological(formula) if n.op == "add"]
    pairs = [(a, b) for a, b in permutations(tensors, 2) if any(a in n.args and -b in n.args for n in sums)]
    groups = [*pairs[:_MOST_PAIRS], list(dict.fromkeys(t for pair in pairs for t in pair))]
    found: list[Environment] = []
    for k, (group, level, sign) in enumerate(product(groups, _LEVELS, (1, -1)) if near and pairs else ()):
        own = {t: FLOAT32.round(sign * level * (1 + n * _APART)) for t, n in zip(group, _STEPS, strict=False)}
        if all(ranges[t][0] <= value <= ranges[t][1] for t, value in own.items()):
            found.append({**near[(k + 1) * _STRIDE % len(near)], **own})
    return found


def ties(formula: Expr, points: Sequence[Environment], near: Sequence[Environment]) -> list[Environment]:
    """Points at which both sides of a comparison in the formula are equal: p + w = k for p + w > k."""
    ranges = {s: (min(column), max(column)) for s, column in _columns(points).items()}
    pairs = (n.args for n in topological(formula) if n.op in COMPARISONS and n.symbols)
    sides = dict.fromkeys(ex.add(left, -right) for left, right in pairs)
    return _zeros([s for s in sides if s.op == "add"], near, ranges)[:_MOST_POINTS]


def near_cancellation(formula: Expr, other: Expr) -> Iterator[Expr]:
    """The formula where a sum in it, as the spec writes it, begins with a difference of what is nearly equal, and so is
    exact, and `other` elsewhere."""
    for total in topological(formula):
        first = next(begun(total), None)
        if first is not None:
            size = make("abs", parts_of(total)[0])
            yield where(compare("le", 2 * make("abs", first), size), formula, other)


def divided_first(formula: Expr) -> Iterator[Expr]:
    """The formula with sums divided before they are multiplied or divided by something else: (a - b)/c*d for
    d*(a - b)/c; by all that they are divided by, or by one of several."""
    ways = product((0, 1), (slice(None), slice(1), slice(1, None)))
    found = dict.fromkeys(_divided_first(formula, *way) for way in ways)
    yield from (form for form in found if form is not formula)


def _divided_first(formula: Expr, which: int, pick: slice) -> Expr:
    def visit(node: Expr) -> Expr:
        number, rest = ex.split_coefficient(node)
        divisors = [f for f in rest.factors if is_divisor(f)][pick]
        others = [f for f in rest.factors if f not in divisors]
        sums = [f for f in others if ex.split_power(f)[0].op == "add" and not (is_divisor(f) or f.is_static)]
        if len(sums) <= which or not divisors:
            return node
        total = sums[which]
        base, exponent = ex.split_power(total)
        others.remove(total)
        if exponent is not ex.ONE:
            others.append(ex.power(base, exponent - 1))
        return ex.mul(number, make("held", ex.mul(base, *divisors)), *others) if others else node

    return transform(formula, visit)


def _zeros(
    sums: Sequence[Expr], near: Sequence[Environment], ranges: Mapping[Expr, tuple[float, float]]
) -> list[Environment]:
    """Points at which one of some sums is 0 in every format, with short numbers for what else is in it."""
    found: list[Environment] = []
    for total, term in [(n, t) for n in sums for t in n.args][:_MOST_SUMS] if near else ():
        number, factor = ex.split_coefficient(term)
        own, exponent = ex.split_power(factor)
        rest = ex.add(total, -term)
        if own.op != "sym" or own not in ranges or own in rest.symbols or exponent.number is None:
            continue
        solution = machine_form(ex.power(ex.mul(-1 / number, rest), 1 / exponent.number))
        tried = list(_with_short_numbers(rest, near, {s: r for s, r in ranges.items() if s is not own}))
        values = Simulation(tried, FLOAT32)(solution)
        solved = [{**p, own: v} for p, v in zip(tried, values, strict=True) if ranges[own][0] <= v <= ranges[own][1]]
        left = Simulation(solved, FLOAT32)(machine_form(total))
        found += [p for p, zero in zip(solved, left, strict=True) if zero == 0][:_MOST_OF_ONE]
    return found


def _equal_pairs(
    formula: Expr, near: Sequence[Environment], ranges: Mapping[Expr, tuple[float, float]]
) -> Iterator[Environment]:
    """Points at which two of the tensors are equal, in the range of both."""
    tensors = sorted((t for t in formula.tensors if t["kind"] == "tensor" and t in ranges), key=lambda t: t.name)
    for k, (first, second) in enumerate(p for _ in range(_SHOWN) for p in combinations(tensors, 2)):
        point = near[k * _STRIDE % len(near)] if near else {}
        if point and ranges[second][0] <= point[first] <= ranges[second][1]:
            yield {**point, second: point[first]}


def _columns(points: Sequence[Environment]) -> dict[Expr, list[float]]:
    """The values of each variable that is a floating-point number."""
    floats = [s for s in (points[0] if points else ()) if s["kind"] in ("tensor", "float")]
    return {s: [p[s] for p in points] for s in floats}


def _with_short_numbers(
    part: Expr, near: Sequence[Environment], ranges: Mapping[Expr, tuple[float, float]]
) -> Iterator[Environment]:
    """Points with short numbers for the variables of a part of a formula, in their ranges."""
    own = [s for s in sorted(part.symbols, key=lambda s: s.name) if s in ranges]
    within = [[v for v in _SHORT if ranges[s][0] <= v <= ranges[s][1]] for s in own]
    others = [(s, v) for v in _LITTLE for s in ranges if s not in own and ranges[s][0] <= v <= ranges[s][1]]
    some = [near[k * _STRIDE % len(near)] for k in range(1, _MOST_OF_ONE + 1)]
    chosen = [*({**some[0], s: v} for s, v in others[:_MOST_OF_ONE]), *some]  # where 1 / x is large, and where not
    settings = list(islice(product(*within), 2 * _MOST_OF_ONE)) if all(within) else []
    for k in range(max(len(chosen), len(settings)) if settings else 0):
        yield {**chosen[k % len(chosen)], **dict(zip(own, settings[k % len(settings)], strict=True))}
