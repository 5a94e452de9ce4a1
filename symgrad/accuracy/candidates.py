"""Forms of a formula with their figures: what makes one better than another, and what may be spent to find it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from symgrad.accuracy.evaluate import FLOAT32
from symgrad.accuracy.measure import ALLOWED, Score
from symgrad.accuracy.rewrite import Step
from symgrad.ir.expr import Expr

__all__ = ["APPROXIMATED", "JOINED", "LENIENT", "WIDE", "Candidate", "Choice", "Effort", "graded"]

_MOST_EFFORT = 12_000_000  # operations times points for all formulas of an operation: some five seconds of a core
_SHARE = 2  # of what is left, that part may be spent for one formula


@dataclass(frozen=True)
class Candidate:
    """A form of a formula with its figures; `wide` means evaluated in float64 for float32 inputs.

    `far_worth` is how many times its cost one would give for being right at far points, too.
    """

    form: Expr
    float32: Score
    float64: Score
    cost: float
    wide: bool = False
    far_worth: float = 1.0

    @property
    def key(self) -> tuple[float, ...]:
        """Smaller is better: non-finite results, then error where it matters, then cost."""
        worst = max(graded(self.float32.ulp), graded(self.float64.ulp / LENIENT))
        return (self.float32.failures + self.float64.failures, worst, self.price)

    @property
    def useless(self) -> int:
        """The results that are not finite, or have no right digit, by their weight."""
        return sum(score.failures + score.lost for score in (self.float32, self.float64))

    @property
    def price(self) -> float:
        """The cost, higher where the form is wrong at far points."""
        return self.cost * (self.far_worth if self.float32.far + self.float64.far else 1)

    @property
    def accurate(self) -> bool:
        """Nothing to gain from another form but time."""
        return not any(self.key[:2]) and self.price == self.cost


WIDE = 2.5  # passes over memory that one pass in float64 costs
LENIENT = 3.2  # float64 may err this much more than float32 before anything is given for it


JOINED = "two-forms"
APPROXIMATED = "approximation"
"""The name of the step to a choice between two forms."""


@dataclass(frozen=True)
class Choice:
    """The chosen form of one formula, how it was derived and what it was chosen from.

    `others` are cheap forms beside it, and how they were derived, for where forms are chosen together.
    """

    formula: Expr
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    steps: tuple[Step, ...]
    others: tuple[tuple[Expr, tuple[Step, ...]], ...] = ()

    @property
    def is_joined(self) -> bool:
        """Whether the form is a choice between two, whose steps come after each other here."""
        return any(step.rule == JOINED for step in self.steps)

    @property
    def is_approximated(self) -> bool:
        """Whether the form is a rational approximation somewhere: good for what it approximates, not for its slope."""
        return any(step.rule == APPROXIMATED for step in self.steps)

    def mapped(self, form: Callable[[Expr], Expr], step: Callable[[Expr], Expr]) -> Choice:
        """The same choice between other forms, derived by steps on other expressions."""

        def candidate(c: Candidate) -> Candidate:
            return replace(c, form=form(c.form))

        return Choice(
            form(self.formula),
            candidate(self.chosen),
            tuple(map(candidate, self.candidates)),
            tuple(s.mapped(step) for s in self.steps),
        )


def graded(ulp: float) -> float:
    """Errors that nobody would trade a pass over memory for are equal: what is allowed, then steps of a half more."""
    least = ALLOWED[FLOAT32]
    return max(0, math.ceil(math.log(ulp / least, 1.5))) if ulp > least else 0


class Effort:
    """What searches have left to spend: operations times points that are evaluated, for several formulas together.

    One formula has a `share` of it, so that something is left for those after one that nothing mends.
    """

    def __init__(self, most: int = _MOST_EFFORT, whole: Effort | None = None) -> None:
        self._left = most
        self._whole = whole

    def share(self) -> Effort:
        """What the next search may spend."""
        return Effort(self._left // _SHARE, self)

    def spend(self, work: int) -> None:
        self._left -= work
        if self._whole is not None:
            self._whole.spend(work)

    @property
    def left(self) -> int:
        """What is left of it, or less than nothing."""
        return self._left

    @property
    def is_spent(self) -> bool:
        """Whether what follows must do with the directed rules and the cheap measures."""
        return self._left <= 0
