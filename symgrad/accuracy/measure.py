"""How accurate a form is.

The error of a form at a point is its distance from the true value in ulp of the true value, less what an ulp in each
input would change (the formula's conditioning, which no implementation can undo): a form without error is backward
stable. A non-finite result where the truth is finite and representable counts separately and before everything else,
unless it is an infinity and a pole lies within that ulp.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress, islice
from typing import Any

import mpmath as mp

from symgrad.accuracy.equality import Check
from symgrad.accuracy.evaluate import FAR, FLOAT32, FLOAT64, Environment, Format
from symgrad.accuracy.limits import Limits
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.sample import Sample
from symgrad.accuracy.sides import equal, jumps
from symgrad.accuracy.simulate import ROUGH, Simulation
from symgrad.accuracy.smoothness import Smoothness
from symgrad.accuracy.truth import Truth
from symgrad.accuracy.vanishing import both_equal
from symgrad.ir import expr as ex
from symgrad.ir.expr import FALSE, TRUE, Expr
from symgrad.ir.traversal import substitute

__all__ = ["ALLOWED", "PRECISIONS", "Judge", "Measurement", "Precision", "Score"]

ALLOWED = {FLOAT32: 2.5, FLOAT64: 8.0}  # ulp, beyond which a form errs at a point


@dataclass(frozen=True)
class Precision:
    """What errors inputs explain, and what is given for smaller ones: `options: {precision: ...}`.

    `explained` is the change in ulp of each tensor, and of each float hyperparameter if `hyperparameters` says so, that
    an error is compared with. A form may err by `acceptable` ulp if it spares more than `worth` passes over memory. One
    that `widens` is evaluated in float64 where none in float32 is acceptable. A form that is right where a tensor is
    beyond 1e18, too, though no domain names such values, may cost `far_worth` times as much as one that is not.
    """

    explained: float = 1.0
    hyperparameters: bool = True
    acceptable: float = 4.0
    worth: float = 3.0
    widens: bool = True
    far_worth: float = 1.1


PRECISIONS = {
    "auto": Precision(),
    "strict": Precision(explained=0.5, hyperparameters=False, far_worth=math.inf),
    "fast": Precision(acceptable=64.0, worth=0.0, widens=False, far_worth=1.0),
}


@dataclass(frozen=True, order=True)
class Score:
    """Worst error over the sample points: non-finite results, then ulp.

    `near` of the non-finite results are where nothing is extreme. What is wrong at `far` points counts there alone.
    `lost` are finite results without a right digit, by their weight.
    """

    nonfinite: int
    ulp: float
    near: int = field(default=0, compare=False)
    far: int = field(default=0, compare=False)
    lost: int = field(default=0, compare=False)

    @property
    def failures(self) -> int:
        """The non-finite results by their weight: near ones spoil ordinary calls."""
        return self.nonfinite + _NEARER * self.near

    @property
    def good(self) -> bool:
        """Nothing to gain from another form."""
        return not self.nonfinite and self.ulp <= ALLOWED[FLOAT32]


@dataclass(slots=True)
class _Reference:
    """The truth at one point, ready for comparison: as two floats, with one ulp, and the conditioning in ulp."""

    index: int
    high: float
    low: float
    ulp: float
    credit: float
    boolean: bool = False
    near: bool = False
    far: bool = False
    tiny: bool = False  # counts as far where it is not missed altogether
    beside_pole: bool = False  # an ulp in each input leads beyond the largest number
    beside_jump: bool = False  # an ulp in each input leads across a jump of the formula

    def error(self, value: Any, smallest: float) -> float:
        """Error of a value in ulp, less the conditioning; infinite where a finite truth was missed far from poles."""
        if self.boolean:
            return 0.0 if bool(value) == bool(self.high) else math.inf
        if value - value != 0:
            return 0.0 if self.beside_pole and value == value else math.inf
        if self.beside_jump or -smallest < self.high < smallest > abs(value):
            return 0.0  # below the normal range results may flush to zero
        excess = abs((value - self.high) - self.low) / self.ulp - self.credit
        return excess if excess > 0 else 0.0

    def doubled(self) -> _Reference:
        """The same point of float32 for a computation in float64."""
        ulp = math.ldexp(1.0, FLOAT64.ulp_exponent(self.high))
        credit = self.credit * self.ulp * math.ldexp(1.0, FLOAT32.precision - FLOAT64.precision)
        return replace(self, ulp=ulp, credit=credit / ulp)


@dataclass(frozen=True)
class Measurement:
    """The errors of one form: `errors` by index of the point, infinite where not finite.

    `near` are the points where nothing is extreme, `far` those that count apart. An error of `all_digits` leaves none.
    """

    errors: Mapping[int, float]
    near: frozenset[int] = frozenset()
    far: frozenset[int] = frozenset()
    all_digits: float = math.inf

    @property
    def score(self) -> Score:
        counted = {i: e for i, e in self.errors.items() if i not in self.far}
        failing = {i for i, e in counted.items() if math.isinf(e)}
        worst = max((e for i, e in counted.items() if i not in failing), default=0.0)
        missed = sum(self.errors[i] > ALLOWED[FLOAT64] for i in self.far)
        lost = {i for i, e in counted.items() if self.all_digits <= e < math.inf}
        return Score(len(failing), worst, len(failing & self.near), missed, len(lost) + _NEARER * len(lost & self.near))


class Judge:
    """Measures forms of one formula, which is true by definition, on the points of a sample."""

    def __init__(
        self,
        formula: Expr,
        sample: Sample | Mapping[Format, Sequence[Environment]],
        precision: Precision = PRECISIONS["auto"],
    ) -> None:
        self.formula = formula
        self.precision = precision
        self.sample = sample if isinstance(sample, Sample) else Sample(sample)
        self._references: dict[Format, list[_Reference]] = {}
        self._measured: dict[tuple[Expr, Format, bool], Measurement] = {}

    @property
    def check(self) -> Check:
        """Compares expressions at some of the points."""
        return self.sample.check

    def agrees(self, form: Expr, other: Expr, check: Check | None = None) -> bool:
        """Whether a form equals another one at some points, or those of a `check`, and at ties: there the derivative of
        a maximum is what no point beside it tells. And so it has to be where equalities hold, one by one and all of
        them, for no point satisfies them."""
        check = check or self.check
        rare = {n: TRUE if n.op == "eq" else FALSE for n in equal(other)[:_MOST_EQUALITIES]}
        cases = [*({n: rare[n]} for n in rare), *([rare] if len(rare) > 1 else [])]
        return (
            check(other, form)
            and self._at_ties(other, form)
            and all(check(substitute(other, case), substitute(form, case)) for case in cases)
        )

    @cached_property
    def smoothness(self) -> Smoothness:
        """The derivatives of the formula, where a tensor is 0 or large."""
        return Smoothness(self.formula, self.sample)

    @cached_property
    def _at_ties(self) -> Check:
        return Check(self.sample.ties(self.formula))

    def continues(self, form: Expr) -> bool:
        """Whether a form has values where the formula has none, which a single point such as 0 / 0 may have.

        That is where a rule was used outside its domain. All points are looked at as they are computed, and only those
        that are suspect with many digits.
        """
        written, values = (self.sample.simulation(FLOAT64, FLOAT64)(machine_form(f)) for f in (self.formula, form))
        known = {r.index for r in self.references(FLOAT64)}
        points = self.sample.points[FLOAT64]
        suspect = [
            p for i, p in enumerate(points) if i not in known and written[i] != written[i] and values[i] == values[i]
        ]
        return bool(suspect) and not Check(suspect)(self.formula, form)

    def misses_pole(self, form: Expr) -> bool:
        """Whether a form is no number where a tensor is 0 and the formula infinite: k*log(x) - log(x) for
        (k - 1)*log(x)."""
        written, own = (self._at_zeros(machine_form(f)) for f in (self.formula, form))
        return any(math.isinf(a) and a != b for a, b in zip(written, own, strict=True))

    @cached_property
    def _at_zeros(self) -> Simulation:
        return Simulation(self.sample.zeros([t for t in self.formula.tensors if t["kind"] == "tensor"]), FLOAT64)

    def loses(self, form: Expr, other: Expr) -> bool:
        """Whether a form is not finite in float32 where another one is, two tensors being equal and a third extreme."""
        found, kept = (self._beside_equal(machine_form(f)) for f in (form, other))
        return any(math.isfinite(a) and not math.isfinite(b) for a, b in zip(kept, found, strict=True))

    def is_noise(self, form: Expr) -> bool:
        """Whether a form has lost its digits where a sum of the formula is 0, or small and exact, and the formula has
        not.

        There no error of an input excuses it: who writes (k - 1)/x means nothing for k = 1.
        """
        return any(
            abs(b - t) <= _RIGHT * abs(t) and not abs(a - t) <= _NOISE * max(abs(t), least)
            for values, true, written, least in self._where_sums_vanish
            for a, b, t in zip(values(machine_form(form)), written, true, strict=True)
        )

    @cached_property
    def _where_sums_vanish(self) -> list[tuple[Simulation, Sequence[float], Sequence[float], float]]:
        """Of points where sums are 0, and of those where they are small: how values are computed there, the formula's
        true ones and as it is written, and what is as good as 0."""
        found: list[tuple[Simulation, Sequence[float], Sequence[float], float]] = []
        written = machine_form(self.formula)
        for points, is_zero in (
            (self.sample.where_sums_vanish(self.formula), True),
            (self.sample.nearly_equal(self.formula), False),
        ):
            values = Simulation(points, FLOAT32)
            true = Simulation(points, FLOAT64)(written)
            usual = sorted(abs(v) for v in true if math.isfinite(v)) if is_zero else []
            found.append((values, true, values(written), _NOISE * usual[len(usual) // 2] if usual else 0.0))
        return found

    @cached_property
    def _beside_equal(self) -> Simulation:
        points = self.sample.points[FLOAT32]
        near = list(compress(points, self.sample.near(FLOAT32)))
        tensors = sorted((t for t in self.formula.tensors if t["kind"] == "tensor"), key=lambda t: t.name)
        return Simulation(both_equal(points, near, tensors), FLOAT32)

    @cached_property
    def limits(self) -> Limits:
        """What the formula tends to where a variable is infinite."""
        return Limits(self.formula, self.sample.points[FLOAT64])

    def references(self, target: Format) -> list[_Reference]:
        """True values where they are finite and representable."""
        if target not in self._references:
            kinds = {"tensor", "float"} if self.precision.hyperparameters else {"tensor"}
            symbols = sorted((s for s in self.formula.symbols if s["kind"] in kinds), key=lambda s: s.name)
            truths = self.sample.truth(target)(self.formula, symbols)
            moves = {s: self.sample.moves(target, s) for s in symbols}
            found = (self._reference(i, truth, moves, target) for i, truth in enumerate(truths) if truth is not None)
            beside = self._beside_jumps(target, symbols, moves)
            self._references[target] = [replace(r, beside_jump=r.index in beside) for r in found if r is not None]
        return self._references[target]

    def _beside_jumps(
        self, target: Format, symbols: Sequence[Expr], moves: Mapping[Expr, Sequence[int | None]]
    ) -> set[int]:
        """The points at which an ulp in each input leads across a jump of the formula."""
        found: set[int] = set()
        for distance in islice(jumps(self.formula), _MOST_JUMPS):
            for i, truth in enumerate(self.sample.truth(target)(distance, symbols)):
                if truth is not None and i not in found:
                    own = [(slope, moves[s][i]) for s, slope in truth.slopes.items()]
                    change = _moved([(slope, move) for slope, move in own if move is not None])
                    if 0 < abs(truth.value) <= self.precision.explained * change:
                        found.add(i)
        return found

    def measure(self, form: Expr, target: Format, wide: bool = False) -> Measurement:
        """The errors of `form` in `target`; `wide` evaluates in float64 and rounds once."""
        key = (form, target, wide)
        if key not in self._measured:
            values = self.sample.simulation(target, FLOAT64 if wide else target)(machine_form(form))
            self._measured[key] = self.errors_of([target.round(v) for v in values] if wide else values, target)
        return self._measured[key]

    def errors_of(self, values: Sequence[Any], target: Format) -> Measurement:
        """The errors of what was computed at the points of a format, however that was done."""
        smallest = math.ldexp(1.0, target.min_exponent - 1)
        references = self.references(target)
        errors = {r.index: r.error(values[r.index], smallest) for r in references}
        return Measurement(
            errors,
            frozenset(r.index for r in references if r.near),
            frozenset(r.index for r in references if r.far or (r.tiny and errors[r.index] < math.inf)),
            2.0 ** (target.precision - 1),
        )

    def double_errors(self, form: Expr) -> dict[int, float]:
        """The errors of `form` in float64 at the points of float32, in ulp of float64, by index of the point."""
        values = self.sample.simulation(FLOAT32, FLOAT64)(machine_form(form))
        smallest = math.ldexp(1.0, FLOAT64.min_exponent - 1)
        return {r.index: r.doubled().error(values[r.index], smallest) for r in self.references(FLOAT32)}

    def rough_errors(self, form: Expr, wide: bool, indices: Collection[int]) -> dict[int, tuple[float, float]]:
        """The errors in float32 and in float64 at some points of float32, if what is not exact is an ulp or two off."""
        references = [r for r in self.references(FLOAT32) if r.index in indices]
        points = [self.sample.points[FLOAT32][r.index] for r in references]
        small, smallest = (math.ldexp(1.0, target.min_exponent - 1) for target in (FLOAT32, FLOAT64))
        found = dict.fromkeys((r.index for r in references), (0.0, 0.0))
        for off in ROUGH:
            narrow = Simulation(points, FLOAT64 if wide else FLOAT32, off=off)(machine_form(form))
            double = Simulation(points, FLOAT64, off=off)(machine_form(form))
            for r, x, y in zip(references, narrow, double, strict=True):
                before = found[r.index]
                errors = r.error(FLOAT32.round(x), small), r.doubled().error(y, smallest)
                found[r.index] = max(before[0], errors[0]), max(before[1], errors[1])
        return found

    def error_with_rounded(self, form: Expr, part: Expr) -> float:
        """The worst error of `form` in float32, evaluated in float64 with a part of it rounded to float32."""
        points = self.sample.points[FLOAT32]
        rounded = map(FLOAT32.round, self.sample.simulation(FLOAT32, FLOAT64)(machine_form(part)))
        saved = ex.symbol("saved")
        values = Simulation([{**p, saved: v} for p, v in zip(points, rounded, strict=True)], FLOAT64)(
            machine_form(substitute(form, {part: saved}))
        )
        smallest = math.ldexp(1.0, FLOAT32.min_exponent - 1)
        errors = (r.error(FLOAT32.round(values[r.index]), smallest) for r in self.references(FLOAT32))
        return max(errors, default=0.0)

    def score(self, form: Expr, target: Format, wide: bool = False, *, safe: float = 1.0) -> Score:
        """The worst error of `form` in `target`; with `safe`, so many times off the ends of the format's range."""
        measured = self.measure(form, target, wide)
        if safe == 1:
            return measured.score
        least, most = safe * math.ldexp(1.0, target.min_exponent - 1), target.largest / safe
        inside = {r.index for r in self.references(target) if not r.high or least <= abs(r.high) <= most}
        errors = {i: e for i, e in measured.errors.items() if i in inside}
        return replace(measured, errors=errors, far=measured.far & inside).score

    def _reference(
        self, index: int, truth: Truth, moves: Mapping[Expr, Sequence[int | None]], target: Format
    ) -> _Reference | None:
        if isinstance(truth.ball, str):
            return None
        far = math.isfinite(self.precision.far_worth) and self.sample.far(target)[index]
        if isinstance(truth.ball, bool):
            return _Reference(index, float(truth.ball), 0.0, 1.0, 0.0, boolean=True, far=far)
        high, low, above = truth.parts()
        size = abs(high)
        if size > target.largest or (size == target.largest and low * high > 0):
            return None
        ulp = (max(above, target.min_exponent) if high else target.min_exponent) - target.precision
        counts_apart = self.sample.computed and math.isfinite(self.precision.far_worth)
        own = [(slope, moves[s][index]) for s, slope in truth.slopes.items()]
        credit = self.precision.explained * _moved([(slope, move - ulp) for slope, move in own if move is not None])
        return _Reference(
            index,
            high,
            low,
            math.ldexp(1.0, ulp),
            credit,
            near=self.sample.near(target)[index],
            far=far or (counts_apart and size > FAR),
            tiny=counts_apart and 0 < size < 1 / FAR,
            beside_pole=size + credit * math.ldexp(1.0, ulp) > target.largest,
        )


def _moved(sizes: Sequence[tuple[Any, int]]) -> float:
    """The sum of sizes times powers of 2, infinite where that overflows."""
    try:
        return math.fsum(math.ldexp(size, n) if type(size) is float else float(mp.ldexp(size, n)) for size, n in sizes)
    except OverflowError:
        return math.inf


_MOST_EQUALITIES, _MOST_JUMPS = 6, 4
_RIGHT, _NOISE = 1e-6, 1e-5  # parts of a value that is right, and of one that has lost its digits
_NEARER = 9  # times as bad, in addition


def ulp_text(value: float) -> str:
    """A figure to two digits, rounded up."""
    if value < 10:
        return f"{-(-value * 10 // 1) / 10:.1f}"
    return f"{value:.2g}" if value < 1e4 else f"{value:.0e}"
