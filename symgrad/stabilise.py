"""From a formula to the form that is emitted: directed rules, then measured alternatives.

The directed rules come first. Where the result is still inaccurate, or an alternative may be cheaper, single rewrites are
tried and the best is kept, a few rounds long. What no rewrite mends in float32 is evaluated in float64 ("wide").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from symgrad.accuracy import Judge, Score
from symgrad.cost import cost
from symgrad.evaluate import FLOAT32, FLOAT64, Check, Environment
from symgrad.expr import Expr
from symgrad.rewrite import Step, rewrite, single_steps
from symgrad.rules import ALTERNATIVES, KINKS, RECOGNISE, STABILISE, Rule

_ROUNDS = 3
_MOST_CANDIDATES = 24
_ACCEPTABLE = 4.0  # ulp: beyond this a formula is evaluated wide


@dataclass(frozen=True)
class Candidate:
    """A form of a formula with its figures; `wide` means evaluated in float64 for float32 inputs."""

    form: Expr
    float32: Score
    float64: Score
    cost: float
    wide: bool = False

    @property
    def key(self) -> tuple[float, ...]:
        """Smaller is better: non-finite results, then error where it matters, then cost."""
        worst = max(_graded(self.float32.ulp), _graded(self.float64.ulp))
        return (self.float32.nonfinite + self.float64.nonfinite, worst, self.cost)


@dataclass(frozen=True)
class Choice:
    """The chosen form of one formula, how it was derived and what it was chosen from."""

    formula: Expr
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    steps: tuple[Step, ...]


def _graded(ulp: float) -> float:
    """Errors that nobody would trade a pass over memory for are equal: up to 2.5 ulp, then in steps of a half more."""
    grade, bound = 0.0, 2.5
    while ulp > bound and grade < 60:
        grade, bound = grade + 1, bound * 1.5
    return grade


def directed(formula: Expr, check: Check | None = None) -> tuple[Expr, tuple[Step, ...]]:
    """Apply all directed rules."""
    return rewrite(formula, (*RECOGNISE, *KINKS, *STABILISE), check)


def recognise(formula: Expr, points: Sequence[Environment] = ()) -> tuple[Expr, tuple[Step, ...]]:
    """Apply the rules that introduce stable atoms, before differentiation."""
    return rewrite(formula, (*RECOGNISE, *KINKS), Check(points))


def choose(formula: Expr, judge: Judge, *, search: bool = True, allow_wide: bool = True) -> Choice:
    """The best form of `formula` that the rules reach, measured by `judge`."""
    measured: dict[Expr, Candidate] = {}
    check = judge.check

    def measure(form: Expr) -> Candidate:
        if form not in measured:
            scores = judge.score(form, FLOAT32), judge.score(form, FLOAT64)
            measured[form] = Candidate(form, *scores, cost(form))
        return measured[form]

    best = measure(formula)
    ruled, steps = directed(formula, check)
    trace = list(steps)
    if measure(ruled).key <= best.key:
        best = measure(ruled)
    else:
        trace = []
    for _ in range(_ROUNDS if search else 0):
        improved = _best_step(best, measure, judge)
        if improved is None:
            break
        best, step = improved
        trace.append(step)
    if allow_wide and (best.float32.nonfinite or best.float32.ulp > _ACCEPTABLE):
        wide = replace(best, float32=judge.score(best.form, FLOAT32, wide=True), cost=2 * best.cost, wide=True)
        if (wide.float32.nonfinite, _graded(wide.float32.ulp)) < (
            best.float32.nonfinite,
            _graded(best.float32.ulp),
        ):
            best = wide
    return Choice(formula, best, (*measured.values(), *([best] if best.wide else [])), tuple(trace))


def _best_step(best: Candidate, measure, judge: Judge) -> tuple[Candidate, Step] | None:  # type: ignore[no-untyped-def]
    """The best form one alternative away (followed by the directed rules), if it is better."""
    accurate = best.float32.good and best.float64.good
    rules: Sequence[Rule] = _CHEAPER if accurate else ALTERNATIVES
    found: list[tuple[Candidate, Step]] = []
    for form, step in single_steps(best.form, rules)[:_MOST_CANDIDATES]:
        if accurate and cost(form) >= best.cost:
            continue
        settled, _ = directed(form)
        if judge.check(best.form, settled):
            found.append((measure(settled), step))
    winner = min(found, key=lambda item: item[0].key, default=None)
    return winner if winner is not None and winner[0].key < best.key else None


_CHEAPER = tuple(rule for rule in ALTERNATIVES if rule.name.startswith("factor"))
