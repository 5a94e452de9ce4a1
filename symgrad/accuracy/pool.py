"""The forms of one formula that were measured, how each was derived, and which of them may be chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from symgrad.accuracy.candidates import LENIENT, WIDE, Candidate, Effort, graded
from symgrad.accuracy.cost import price
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64
from symgrad.accuracy.measure import ALLOWED, Judge, Score
from symgrad.accuracy.rewrite import Step
from symgrad.accuracy.vanishing import divided_first, near_cancellation
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.rules.constants import under_one_root

_MOST_SPOILED = 24  # forms that are not taken, one after the other
_MOST_DIVIDED = 4  # forms
_MOST_WRITTEN = 2  # sums of a formula that are kept as they are written
MOST_WIDE = 4  # forms that are looked at in float64
USELESS = 2.0**12  # ulp of float32, which float64 is not given for
# No float64 is given for partial results that overflow or vanish where the result is nearly as large or as small.
_NEAR_THE_ENDS = 2.0**3
_HALF_THE_DIGITS = 2.0**26  # ulp of float64
_MOST_SHOWN, _MOST_CHEAP = 12, 6
_BOUNDED = {"clamped-growth", "rational-in-bounded-exp", "saturated"}  # no identities: compared far outside as well


def operands(formula: Expr) -> int:
    """Their number over all operations: what one pass over a formula costs."""
    return sum(len(node.args) for node in topological(formula))


class Pool:
    """The forms of one formula that were measured, and how each was derived."""

    def __init__(self, formula: Expr, judge: Judge, effort: Effort, is_value: bool) -> None:
        self.formula = formula
        self.is_value = is_value
        self.effort = effort
        self.judge = judge
        self.precision = judge.precision
        self.measured: dict[Expr, Candidate] = {}
        self.origin: dict[Expr, tuple[Step, ...]] = {formula: ()}
        self.rejected: set[Expr] = set()
        self._equal: dict[Expr, bool] = {formula: True}

    @property
    def best(self) -> Candidate:
        return self.leading(1)[0]

    @property
    def settled(self) -> bool:
        """Whether the search is over: nothing is to be gained, or nothing is left to spend."""
        return self.effort.is_spent or self.best.accurate

    def leading(self, count: int) -> list[Candidate]:
        """The best candidates of those that are equal to the formula; others are dropped when they get so far."""
        found: list[Candidate] = []
        for candidate in sorted(self.measured.values(), key=lambda c: c.key):
            if len(found) == count:
                break
            if self.equal(candidate.form):
                found.append(candidate)
            else:
                del self.measured[candidate.form]
                self.rejected.add(candidate.form)
        return found

    def promising(self, count: int) -> list[Candidate]:
        """Candidates with the fewest inaccurate points, from which others may get far."""
        ranked = sorted(self.measured.values(), key=lambda c: (self.inaccurate(c.form), c.cost))
        found: list[Candidate] = []
        for candidate in ranked:
            if len(found) == count:
                break
            if self.equal(candidate.form):
                found.append(candidate)
        return found

    def inaccurate(self, form: Expr) -> int:
        """At how many points a form errs."""
        found = 0
        for target, bound in ALLOWED.items():
            found += sum(e > bound for e in self.judge.measure(form, target).errors.values())
        return found

    def measure(self, form: Expr) -> Candidate:
        if form not in self.measured:
            self.effort.spend(operands(form) * sum(map(len, self.judge.sample.points.values())))
            scores = self.judge.score(form, FLOAT32), self.judge.score(form, FLOAT64)
            self.measured[form] = Candidate(form, *scores, price(form), far_worth=self.precision.far_worth)
        return self.measured[form]

    def add(self, form: Expr, steps: tuple[Step, ...], approximate: bool = False) -> None:
        """Measure a form that `steps` derived; it is compared with the formula only when it turns out good.

        One that costs no less than a form with which nothing but time is to be gained is not even measured.
        """
        if form not in self.measured and form not in self.rejected:
            best = self.best
            if best.accurate and price(form) >= best.price:
                return
            self.measure(form)
            self.origin[form] = steps
            if approximate:
                self._equal[form] = True  # as far as measured, in both formats

    def equal(self, form: Expr) -> bool:
        """Whether a form agrees with the formula at high precision.

        A form of a value must be NaN wherever the formula is. One of a derivative need not: there the value is NaN.
        """
        if form not in self._equal:
            bounded = any(step.rule in _BOUNDED for step in self.origin.get(form, ()))
            is_equal = self.judge.agrees(form, self.formula, self.judge.sample.thorough_check if bounded else None)
            self._equal[form] = is_equal and not (self.is_value and self.judge.continues(form))
        return self._equal[form]

    # ------------------------------------------------------------------------------------------ what may be chosen
    def smooth(self, pick: Callable[[], Candidate]) -> Candidate:
        """What is picked of the forms that are at 0 what the formula is, and that autograd can differentiate there.

        One that is noise where a sum of the formula is 0, or that autograd cannot differentiate beside a large tensor,
        is taken only if all others are worse elsewhere.
        """
        flawed: Candidate | None = None
        for _ in range(_MOST_SPOILED):
            chosen = pick()
            if flawed is not None and self.is_worse(chosen, flawed):
                break
            if not self.spoils(chosen.form):
                is_noise = self.is_noise(chosen.form)
                if not (is_noise or self.is_rough(chosen.form)):
                    return chosen
                if flawed is None:
                    flawed = chosen
                    if is_noise:
                        self._as_written(chosen.form)
            del self.measured[chosen.form]
            self.rejected.add(chosen.form)
        if flawed is None:  # so many of one kind that all of it goes
            for form in list(self.measured):
                if self.spoils(form):
                    del self.measured[form]
                    self.rejected.add(form)
            return pick()
        self.measured[flawed.form] = flawed
        return flawed

    def _as_written(self, noise: Expr) -> None:
        """Measure what is the formula where a sum in it begins, as the spec writes it, with a difference that cancels,
        and another form elsewhere; and what `divide_first` does."""
        for form in islice(near_cancellation(self.formula, noise), _MOST_WRITTEN):
            self._measure_anyway(form, Step("as-written", noise, form, "what cancels first leaves no error"))
        self.divide_first()

    def divide_first(self) -> None:
        """Measure the cheapest forms that are no noise with sums that are divided before they are multiplied, where the
        product leaves the range."""
        cheapest = sorted(self.measured.values(), key=lambda c: c.price)
        sound = (c.form for c in cheapest if self.equal(c.form) and not self.is_noise(c.form))
        for own in islice(sound, _MOST_DIVIDED):
            for form in divided_first(own):
                self._measure_anyway(form, Step("divide-first", own, form, "the product leaves the range"))

    def _measure_anyway(self, form: Expr, step: Step) -> None:
        """Measure a form that costs more than another with which nothing is to be gained, too."""
        if form not in self.rejected:
            self.measure(form)
            self.origin.setdefault(form, (*self.origin[step.before], step))

    def is_worse(self, chosen: Candidate, other: Candidate) -> bool:
        """Whether a candidate takes float64 that another does not, fails more often, or errs where that is good."""
        failures, others = (c.float32.failures + c.float64.failures for c in (chosen, other))
        errs = chosen.float32.ulp > max(other.float32.ulp, self.precision.acceptable)
        return chosen.wide > other.wide or failures > others or errs

    def is_noise(self, form: Expr) -> bool:
        """Whether a form has lost its digits where a sum of the formula is 0, and the formula has them."""
        return form is not self.formula and self.judge.is_noise(form)

    def is_rough(self, form: Expr) -> bool:
        """Whether a form of a derivative has none beside a large tensor, where the formula has one."""
        return not self.is_value and form is not self.formula and self.judge.smoothness.is_lost_beside_large(form)

    def spoils(self, form: Expr) -> bool:
        """Whether a form is not infinite where the formula is, or that of a derivative has none where it has one."""
        if form is self.formula:
            return False
        return self.judge.misses_pole(form) or (not self.is_value and self.judge.smoothness.is_lost(form))

    # ------------------------------------------------------------------------------------------ what is chosen
    def cheapest(self) -> Candidate:
        """The best form, or one that is acceptable too and spares several passes."""
        best = self.best
        for candidate in sorted(self.measured.values(), key=lambda c: c.price):
            if candidate.price > best.price - self.precision.worth:
                break
            worst = max(candidate.float32.ulp, candidate.float64.ulp / LENIENT)
            finite = not candidate.float32.nonfinite + candidate.float64.nonfinite
            if finite and worst <= self.precision.acceptable and self.equal(candidate.form):
                return candidate
        return best

    def narrow_or_wide(self) -> Candidate:
        """The best form, in float64 where float32 is not accurate enough."""
        best = self.cheapest()
        narrow = self.judge.score(best.form, FLOAT32, safe=_NEAR_THE_ENDS)
        if narrow <= Score(0, self.precision.acceptable):
            return best
        options = [best]
        for candidate in self.leading(MOST_WIDE):
            score = self.judge.score(candidate.form, FLOAT32, wide=True)
            if score.nonfinite < narrow.nonfinite or score.ulp <= USELESS:
                options.append(replace(candidate, float32=score, cost=WIDE * candidate.cost, wide=True))
        return min(options, key=lambda c: (c.float32.failures, graded(c.float32.ulp), *c.key))

    def with_digits(self, chosen: Candidate) -> Candidate:
        """The candidate; where it is not finite everywhere, the best of those that have a digit at more points."""
        if not (chosen.float32.nonfinite or chosen.float64.nonfinite):
            return chosen
        better = [c for c in self.measured.values() if c.useless < chosen.useless]
        ranked = sorted(better, key=lambda c: (c.useless, *c.key))
        return next((c for c in ranked if self.equal(c.form)), chosen)

    def with_limits(self, chosen: Candidate) -> Candidate:
        """The candidate with an infinity inside bounded, where it else misses what the formula tends to."""
        form = self.judge.limits.kept(chosen.form)
        if form is chosen.form or self.judge.misses_pole(form):
            return chosen
        why = "infinity over infinity where there is a limit"
        self.origin[form] = (*self.origin[chosen.form], Step("finite", chosen.form, form, why))
        scores = self.judge.score(form, FLOAT32, wide=chosen.wide), self.judge.score(form, FLOAT64)
        own = price(form) * (WIDE if chosen.wide else 1)
        return Candidate(form, *scores, own, chosen.wide, self.precision.far_worth)

    def under_one_root(self, chosen: Candidate) -> Candidate:
        """The candidate as it is written: what it computes is the same."""
        form = under_one_root(chosen.form)
        if form is not chosen.form:
            step = Step("merged-roots", chosen.form, form, "one constant")
            self.origin[form] = (*self.origin[chosen.form], step)
        return replace(chosen, form=form)

    def is_hopeless(self, chosen: Candidate) -> bool:
        """Whether a form is so inaccurate, or so often not finite, that SymPy is asked for others.

        Float64 counts where it loses half its digits, and something is left to spend.
        """
        if chosen.float32.nonfinite or chosen.float32.ulp > self.precision.acceptable:
            return True
        return not self.effort.is_spent and chosen.float64.ulp > _HALF_THE_DIGITS

    def cheap(self, chosen: Candidate) -> tuple[tuple[Expr, tuple[Step, ...]], ...]:
        """The cheapest forms beside the chosen one that may be as good, and the steps to them."""
        failures = chosen.float32.failures + chosen.float64.failures
        near = (c for c in self.measured.values() if c.form is not chosen.form and c.form in self.origin)
        good = (c for c in near if c.float32.failures + c.float64.failures <= failures or chosen.wide)
        equal = (c.form for c in sorted(good, key=lambda c: c.price) if self.equal(c.form))
        found = (form for form in equal if not (self.spoils(form) or self.is_noise(form) or self.is_rough(form)))
        return tuple((form, self.origin[form]) for form in islice(found, _MOST_CHEAP))

    def shown(self, chosen: Candidate) -> tuple[Candidate, ...]:
        """The formula as written first, then what was measured, the best ones."""
        first, *others = self.measured.values()
        ranked = sorted(others, key=lambda c: c.key)[:_MOST_SHOWN]
        return tuple(dict.fromkeys((first, *(c for c in ranked if c.form is not chosen.form), chosen)))
