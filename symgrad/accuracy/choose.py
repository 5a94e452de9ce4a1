"""From a formula to the form that is emitted: directed rules, then measured alternatives.

The directed rules come first. Where the result is still inaccurate, single rewrites are tried where the error arises, a
few rounds long; then choices between two forms, and approximations about a point where everything cancels. What nothing
mends in float32 is evaluated in float64 ("wide"). Everything is bounded by counts of work, never by time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice

from symgrad.accuracy.approximate import Target, is_readable, near, readings
from symgrad.accuracy.cancellation import cancelling, cancelling_terms, erring_places, intervals_where_it_errs
from symgrad.accuracy.candidates import APPROXIMATED, JOINED, Candidate, Choice, Effort
from symgrad.accuracy.cost import price, total
from symgrad.accuracy.equality import Check
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Environment, Format
from symgrad.accuracy.exponentials import rational_forms
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.measure import ALLOWED, Judge
from symgrad.accuracy.pool import MOST_WIDE, USELESS, Pool, operands
from symgrad.accuracy.regimes import joined
from symgrad.accuracy.rewrite import Rewriter, Step, by_operation, rewrite, single_steps
from symgrad.accuracy.rewrite import replace as replaced
from symgrad.accuracy.sampling import moderate
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import rebuild, substitute, topological, transform
from symgrad.rules import ALTERNATIVES, CANCELLED, CHEAPER, KINKS, RECOGNISE, STABILISE

__all__ = ["RESPELLED", "choose", "directed", "recognise"]

RESPELLED = "respelled"
"""The name of the step to a spelling of SymPy's."""

_ROUNDS = 4
_BEAM = 3  # forms that are developed in each round
_EFFORT = 5000  # nodes times forms tried: bounds the time spent on a large formula
_LEAST_TRIED, _MOST_TRIED = 24, 250
_APPROXIMATION = 50_000  # of it for one approximation
_SATURATED = 40  # of a variable: where functions of two exponentials have reached their limits
_LARGEST = 800  # operands of a formula beyond which only the directed rules are tried
_MOST_RESPELLED_POINTS = 40
_MOST_JOINED = 16
_MOST_MEASURED = 6
_MOST_READINGS = 3
_MOST_APPROXIMATED = 2  # parts of a form
_MOST_PROMISING = 16
_MOST_CHEAPER = 24
_MOST_CASES = 3  # conditions by which a form is taken apart
_MOST_SAVINGS = 8  # steps, each of which saves something
_MOST_MASKED = 3  # forms in which products with masks are 0
_LEAST_POINTS = 12  # at which a branch is chosen, for a search of its own
_POINTS = (Fraction(0), Fraction(1), Fraction(-1), None)  # None is infinity

_DIRECTED = (*RECOGNISE, *KINKS, *STABILISE)
_CANCELLED_FIRST = (*CANCELLED, *_DIRECTED)
_ALTERNATIVES = by_operation(ALTERNATIVES)
_CHEAPER = by_operation(CHEAPER)


def directed(formula: Expr, check: Check | None = None) -> tuple[Expr, tuple[Step, ...]]:
    """Apply all directed rules."""
    return rewrite(formula, _DIRECTED, check)


def recognise(formula: Expr, points: Sequence[Environment] = ()) -> tuple[Expr, tuple[Step, ...]]:
    """Apply the rules that introduce stable atoms, before differentiation."""
    return rewrite(formula, (*RECOGNISE, *KINKS), Check(points))


def choose(
    formula: Expr,
    judge: Judge,
    within: Callable[[Expr], Expr] = lambda form: form,
    *,
    may_widen: bool = True,
    may_be_infinite: bool = True,
    effort: Effort | None = None,
    other: Expr | None = None,
    is_value: bool = True,
    fixed: frozenset[Expr] = frozenset(),
) -> Choice:
    """The best form of `formula` that the rules reach, measured by `judge` and as its precision wants it.

    It is evaluated in float64 only if it `may_widen`.

    With `may_be_infinite` it keeps the limits of the formula at infinite variables, too, where that is cheap.
    `within` simplifies a form by what is known of its variables. `effort` is what this search may spend.
    `other` is another spelling to begin with: of a derivative, that of the form that was chosen for the value.
    `is_value` says that this is no derivative: its form must be NaN wherever the formula is. `fixed` are the variables
    that are never differentiated.
    """
    search = _Search(formula, judge, within, effort or Effort(), is_value, fixed)
    return search.choice(may_widen, may_be_infinite, other)


class _Search(Pool):
    """The measures that are taken, from the cheap ones to the dear ones."""

    def __init__(
        self,
        formula: Expr,
        judge: Judge,
        within: Callable[[Expr], Expr],
        effort: Effort,
        is_value: bool,
        fixed: frozenset[Expr],
    ) -> None:
        super().__init__(formula, judge, effort, is_value)
        self.within = within
        self.fixed = fixed
        self.direct = Rewriter(_DIRECTED)

    def choice(self, may_widen: bool, may_be_infinite: bool, other: Expr | None = None) -> Choice:
        """Search until accurate, from the cheap measures to the dear ones."""
        pick = self.narrow_or_wide if may_widen and self.precision.widens else self.cheapest
        self.search(other)
        chosen = self.smooth(pick)
        if self.is_hopeless(chosen) and self.respell():
            if self.is_hopeless(self.smooth(pick)):
                self.refine(self.develop, self.join)
            chosen = self.smooth(pick)
        chosen = self.with_digits(chosen)
        if may_be_infinite and operands(chosen.form) <= _LARGEST:
            chosen = self.with_limits(chosen)
        chosen = self.under_one_root(chosen)
        return Choice(self.formula, chosen, self.shown(chosen), self.origin[chosen.form], self.cheap(chosen))

    def search(self, other: Expr | None) -> None:
        """Measure what the rules reach, until a form is accurate."""
        self.measure(self.formula)
        form, steps = directed(self.formula, self.judge.check)
        self.add(form, steps)
        has_cases = other is not None and any(n.op == "where" for n in topological(other))
        if other is not None and not has_cases:
            self.add_other(other)
        if operands(self.formula) <= _LARGEST:
            self.cancel()
            self.exponentials(form, steps)
            self.saturate(form, steps)
            self.refine(self.take_apart, self.develop, self.divide_first, self.join, self.approximate, self.join)
        if other is not None and has_cases and not self.settled:  # dear, and seldom needed
            self.add_other(other)
            self.refine(self.join)
        if not self.settled:
            self.mask()
            self.search_branches(other)

    def mask(self) -> None:
        """Measure forms in which a product with a factor that is never differentiated is 0 where that is 0, whatever
        overflows beside it: what is masked."""
        if not self.best.float32.nonfinite:
            return
        for form in (c.form for c in (self.best, *self.promising(_MOST_MASKED))):
            mapped: dict[Expr, Expr] = {}
            for node in topological(form):
                rebuilt = rebuild(node, [mapped[a] for a in node.args])
                mapped[node] = node if node.is_boolean else self.masked(rebuilt)
            if mapped[form] is not form:
                step = Step("masked", form, mapped[form], "nothing, whatever is masked")
                self.add(mapped[form], (*self.origin[form], step))

    def masked(self, node: Expr) -> Expr:
        """A product with a mask beside what overflows as a choice; any other node as it is."""
        mask = next((f for f in node.args if f in self.fixed), None) if node.op == "mul" else None
        if mask is None:
            return node
        beside = machine_form(ex.mul(*(f for f in node.args if f is not mask)))
        if all(map(math.isfinite, self.judge.sample.simulation(FLOAT32, FLOAT32)(beside))):
            return node
        return truth.where(truth.compare("eq", mask, 0), ex.ZERO, node)

    def search_branches(self, other: Expr | None) -> None:
        """Measure the formula with the best form of each of its branches, searched for by itself where it is chosen."""
        formula = self.formula
        if formula.op != "where" or formula.args[0].is_static:
            return
        condition, *branches = formula.args
        others = other.args[1:] if other is not None and other.op == "where" else (None, None)
        found, steps = list[Expr](), list[Step]()
        for test, branch, spelling in zip((condition, truth.logical("not", condition)), branches, others, strict=True):
            sample = self.judge.sample.where(test)
            if branch.is_static or min(map(len, sample.points.values())) < _LEAST_POINTS:
                found.append(branch)
                continue
            judge = Judge(branch, sample, self.precision)
            inside = _Search(branch, judge, self.within, self.effort, self.is_value, self.fixed)
            inside.search(spelling)
            found.append(inside.best.form)
            steps += inside.origin[inside.best.form]
        self.add(truth.where(condition, *found), tuple(steps))

    def add_other(self, other: Expr) -> None:
        """Measure another spelling of the formula, with and without what divisors cancel."""
        first = Step("derivative-of-form", self.formula, other, "the derivative of the form of the value")
        for rules in (_CANCELLED_FIRST, _DIRECTED):
            form, steps = rewrite(other, rules, self.judge.check)
            self.add(form, (first, *steps))

    def refine(self, *measures: Callable[[], None]) -> None:
        """Take measures until the best form is accurate, and make it cheaper."""
        for measure in measures:
            if self.settled:
                break
            measure()
        self.cheapen()

    def cancel(self) -> None:
        """The formula without terms that cancel at every point, however differently they are written, and over one
        denominator."""

        def visit(node: Expr) -> Expr:
            return ex.add(*self.remaining(node.args)) if node.op == "add" and not node.is_static else node

        form = transform(self.formula, visit)
        if form is not self.formula:
            settled, steps = self.direct(form)
            self.add(settled, (Step("cancelled", self.formula, form, "terms of equal size cancel"), *steps))
        if not self.settled:
            self.add(*rewrite(self.formula, _CANCELLED_FIRST, self.judge.check))

    def remaining(self, terms: Sequence[Expr]) -> list[Expr]:
        """The terms of a sum but for pairs that are the negative of each other."""
        left: dict[tuple[float, ...], Expr] = {}
        for term in terms:
            column = tuple(self.judge.sample.truth(FLOAT64).floats(term))
            opposite = tuple(-value for value in column)
            if opposite in left and any(column):
                del left[opposite]
            else:
                left[(*column, len(left)) if column in left or math.nan in column else column] = term
        return list(left.values())

    # ------------------------------------------------------------------------------------------ one exponential
    def exponentials(self, form: Expr, steps: tuple[Step, ...]) -> None:
        """The form as a cancelled fraction in one exponential."""
        for rational, identity in rational_forms(form):
            why = "one exponential for all, and terms cancel exactly"
            name = "rational-in-exp" if identity else "rational-in-bounded-exp"
            self.add(rational, (*steps, Step(name, form, rational, why)))

    def saturate(self, form: Expr, steps: tuple[Step, ...]) -> None:
        """The form with its variable bounded, where it overflows beyond the point at which it has its limit."""
        floats = [s for s in self.formula.tensors if s["kind"] == "tensor"]
        if len(floats) != 1 or not self.measure(form).float32.nonfinite:
            return
        bounds = (-ex.OO, ex.num(-_SATURATED), ex.num(_SATURATED), ex.OO)
        for low, high in (bounds[1:3], bounds[::2], bounds[1::2]):
            bounded = substitute(form, {floats[0]: ex.make("clamp", floats[0], low, high)})
            why = "beyond the bounds it has reached its limit, in every format"
            self.add(bounded, (*steps, Step("saturated", form, bounded, why)))

    def take_apart(self) -> None:
        """A choice inside the best form as one between two forms, in each of which the rules see what was chosen."""
        best = self.best.form
        inside = (n.args[0] for n in topological(best) if n.op == "where" and n is not best)
        for condition in list(dict.fromkeys(c for c in inside if not c.is_static))[:_MOST_CASES]:
            cases = [self.direct(substitute(best, {condition: case})) for case in (ex.TRUE, ex.FALSE)]
            form = truth.where(condition, *(case for case, _ in cases))
            steps = dict.fromkeys(step for _, taken in cases for step in taken)
            why = "each case for itself"
            self.add(form, (*self.origin[best], Step("cases", best, form, why), *steps))

    def respell(self) -> bool:
        """Add SymPy's spellings of the formula that may be chosen; whether there are any. Only this imports SymPy.

        A proof takes longer than a measurement, so what is no better than what is there is not proven.
        """
        from symgrad.symbolic.spellings import spellings

        before = len(self.measured)
        points = moderate(self.judge.sample.points, _MOST_RESPELLED_POINTS)
        for spelling in spellings(self.formula, points):
            if self.best.accurate:
                break
            form = spelling.form
            settled, steps = self.direct(form)
            least = self.leading(MOST_WIDE)[-1].key
            new = [f for f in dict.fromkeys((form, settled)) if f not in self.measured and f not in self.rejected]
            keys = [self.measure(f).key for f in new]
            if min(keys, default=least) < least and spelling.is_proven():
                first = Step(RESPELLED, self.formula, form, f"SymPy's {spelling.simplifier}, proven equal")
                self.origin |= {f: (first,) if f is form else (first, *steps) for f in new}
                continue
            for f in new:
                del self.measured[f]
                self.rejected.add(f)
        return len(self.measured) > before

    # ------------------------------------------------------------------------------------------ single rewrites
    def develop(self) -> None:
        """Rewrite the best forms where they err, a few rounds long."""
        developed: set[Expr] = set()
        effort = max(_LEAST_TRIED, min(_MOST_TRIED, _EFFORT // len(topological(self.formula))))
        for _ in range(_ROUNDS):
            before = len(self.measured) + len(self.rejected)
            beam = [c for c in (self.best, *self.promising(_BEAM + len(developed))) if c.form not in developed][:_BEAM]
            beam = list(dict.fromkeys(beam))
            for candidate in beam:
                developed.add(candidate.form)
                self.neighbours(candidate, effort)
            effort -= len(self.measured) + len(self.rejected) - before
            if not beam or effort <= 0 or self.settled:
                break

    def neighbours(self, candidate: Candidate, most: int) -> None:
        """Measure the forms one alternative away from a form, followed by the directed rules."""
        places = erring_places(candidate.form, self.judge)
        for form, step in single_steps(candidate.form, _ALTERNATIVES, places)[:most]:
            settled, steps = self.direct(form)
            self.add(settled, (*self.origin[candidate.form], step, *steps))

    # ------------------------------------------------------------------------------------------ two forms in one
    def join(self) -> None:
        """Choices between two measured forms, each where it is accurate."""
        half = _MOST_JOINED // 2
        forms = list(dict.fromkeys(c.form for c in (*self.leading(half), *self.promising(half))))
        attempts: list[tuple[tuple[Format, ...], Mapping[Format, float]]] = [
            ((FLOAT32, FLOAT64), ALLOWED),
            ((FLOAT32,), ALLOWED),
        ]
        if self.best.float32.nonfinite:
            attempts.append(((FLOAT32,), {FLOAT32: USELESS}))  # rather few digits than none
        for formats, allowed in attempts:
            found = list(joined(forms, self.judge, formats, allowed))
            found.sort(key=lambda choice: total(self.measured[f].cost for f in choice[1:]))
            for condition, below, above in found[:_MOST_MEASURED]:
                form = truth.where(condition, below, above)
                steps = dict.fromkeys((*self.origin[below], *self.origin[above]))
                why = "each form where it is accurate"
                known = all(self._equal[f] for f in (below, above))
                self.add(form, (*steps, Step(JOINED, self.formula, form, why)), approximate=known)
            if found:
                break

    # ------------------------------------------------------------------------------------------ approximations
    def approximate(self) -> None:
        """Rational approximations of the parts that cancel, about the point where they do; of several in turn."""
        done: set[Expr] = set()
        for _ in range(_MOST_APPROXIMATED):
            promising = self.promising(_MOST_PROMISING)
            whole = (c for c in promising if is_readable(c.form))
            forms = [c.form for c in dict.fromkeys((self.best, *promising[:2], *islice(whole, 1)))]
            if not any(self.improved_by_one(form) for form in forms if form not in done) or self.settled:
                break
            done.update(forms)

    def improved_by_one(self, form: Expr) -> bool:
        """Whether an approximation of a part of a form gives a better one than all that are known."""
        best = self.best.key
        for place in ((part, part, ex.ZERO) for part in cancelling(form, self.judge)):
            for _ in self.approximations(form, place):
                if self.settled:
                    return True
        for place in cancelling_terms(form, self.judge) if self.best.key == best else ():
            if any(self.settled or self.best.key < best for _ in self.approximations(form, place)):
                break
        return self.best.key < best

    def approximations(self, form: Expr, place: tuple[Expr, Expr, Expr]) -> Iterator[None]:
        """Try the readings of a part about one point after the other."""
        for factor, variable, function in readings(place[1])[:_MOST_READINGS]:
            for point in _POINTS:
                self._try(form, place, factor, Target.about(point, function, variable))
                yield

    def _try(self, form: Expr, place: tuple[Expr, Expr, Expr], factor: Expr, target: Target) -> None:
        """Add the form with some terms of a sum (the sum, these, the other ones) approximated about a point."""
        node, part, rest = place
        intervals = intervals_where_it_errs(form, target, self.judge)
        found = (near(target, interval, factor, part) for interval in intervals)
        inside = next((i for i in found if i is not None), None)
        self.effort.spend(_APPROXIMATION * bool(intervals))
        if inside is None:
            return
        why = "a rational approximation where everything cancels"
        result = replaced(form, node, rest + inside)
        self.add(result, (*self.origin[form], Step(APPROXIMATED, part, inside, why)), approximate=True)

    # ------------------------------------------------------------------------------------------ cost
    def cheapen(self) -> None:
        """Factor the best form where that saves operations and costs no accuracy."""
        for _ in range(_MOST_SAVINGS):
            best = self.best
            for form, step in single_steps(best.form, _CHEAPER)[:_MOST_CHEAPER]:
                settled, steps = self.direct(form)
                settled = self.within(settled)
                if price(settled) < best.cost:
                    self.add(settled, (*self.origin[best.form], step, *steps))
            if self.best is best:
                break
