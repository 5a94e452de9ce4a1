"""Two forms, each accurate on one side of a threshold, joined by a choice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Format
from symgrad.accuracy.measure import ALLOWED, Judge
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological
from symgrad.ir.truth import compare

__all__ = ["joined"]

_MOST_VARIABLES = 8
_FARTHEST = 2.0**100  # of thresholds: beyond it a variable may not be representable


@dataclass(frozen=True)
class _Extent:
    """Where a form is inaccurate, along one variable: the lowest and highest such value."""

    low: float
    high: float


def joined(
    forms: Sequence[Expr],
    judge: Judge,
    formats: Sequence[Format] = (FLOAT32, FLOAT64),
    allowed: Mapping[Format, float] = ALLOWED,
) -> Iterator[tuple[Expr, Expr, Expr]]:
    """Choices between two of the forms whose errors are `allowed` at every sample point of the formats.

    Each is the condition, and the forms where it holds and where it does not.
    """
    bad = {form: {t: _inaccurate(form, judge, t, allowed[t]) for t in formats} for form in forms}
    for variable in _variables(forms, judge.formula):
        for size in (True, False):
            own = make("abs", variable) if size else variable
            columns = {t: _column(own, judge, t) for t in formats}
            extents = {form: _extent(bad[form], columns) for form in forms}
            for below in forms:
                for above in forms:
                    if below is not above and extents[above].high < extents[below].low:
                        threshold = _between(extents[above].high, extents[below].low, size)
                        if threshold is not None:
                            yield compare("lt", own, threshold), below, above


def _inaccurate(form: Expr, judge: Judge, target: Format, allowed: float) -> frozenset[int]:
    return frozenset(i for i, e in judge.measure(form, target).errors.items() if e > allowed)


def _variables(forms: Iterable[Expr], formula: Expr) -> list[Expr]:
    """What a threshold may be put on: the variables, then arguments of functions and bases of powers."""
    found: dict[Expr, None] = dict.fromkeys(sorted(_floats(formula), key=lambda s: s.name))
    for form in (formula, *forms):
        for node in reversed(topological(form)):
            for argument in node.args:
                if node.op not in ("add", "mul", "where") and not argument.is_static and not argument.is_boolean:
                    _, rest = ex.split_coefficient(argument)
                    if rest.op != "abs" and rest.size < formula.size:
                        found[rest] = None
    scales = _scales(formula)
    return [v for v in found if v not in scales][:_MOST_VARIABLES]


def _scales(formula: Expr) -> frozenset[Expr]:
    """The variables that only scale the formula: a form is as accurate for one value of them as for another."""
    terms = formula.terms
    powers = dict(map(ex.split_power, terms[0].args if terms[0].op == "mul" else terms[:1]))
    return frozenset(
        base
        for base, n in powers.items()
        if base.op == "sym" and all(base not in ex.mul(term, ex.power(base, -n)).symbols for term in terms)
    )


def _floats(formula: Expr) -> frozenset[Expr]:
    return frozenset(s for s in formula.tensors if s["kind"] == "tensor")


def _column(variable: Expr, judge: Judge, target: Format) -> list[float]:
    return judge.sample.truth(target).floats(variable)


def _extent(bad: dict[Format, frozenset[int]], columns: dict[Format, list[float]]) -> _Extent:
    values = [columns[target][i] for target, indices in bad.items() for i in indices]
    if any(map(math.isnan, values)):
        return _Extent(-math.inf, math.inf)
    return _Extent(min(values, default=math.inf), max(values, default=-math.inf))


def _between(low: float, high: float, size: bool) -> Expr | None:
    """A round number between two bounds, in the middle of the exponents."""
    if size:
        low = max(low, 2.0**-60)
        high = min(high, _FARTHEST)
        if not low < high:
            return None
        middle = 2.0 ** round((math.log2(low) + math.log2(high)) / 2)
        if low < middle < high:
            return ex.num(Fraction(middle))
        number = Fraction(f"{math.sqrt(low) * math.sqrt(high):.3g}")
        return ex.num(number) if low < number < high else None
    if low < 0 < high:
        return ex.ZERO
    bounded = [v for v in (low, high) if math.isfinite(v)]
    middle = (
        (low + high) / 2
        if len(bounded) == 2
        else (bounded[0] * (2 if (bounded[0] > 0) == (bounded[0] == low) else 0.5))
    )
    number = Fraction(f"{middle:.3g}")
    return ex.num(number) if low < number < high and abs(number) < _FARTHEST else None
