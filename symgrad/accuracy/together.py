"""Forms that are chosen together: of those nearly as accurate as the best, the set that costs least in all.

Each value and partial has a form of its own when this begins. What may replace one are forms that its search measured,
and the same form with a part of it written as another value or partial writes it: what they then share is computed
once. Accuracy comes first: no form errs by more than 2 ulp beyond the one that was chosen alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from symgrad.accuracy.candidates import LENIENT, WIDE, Candidate, Choice
from symgrad.accuracy.cost import cost, guarding, in_registers, price
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, UNDEFINED, Environment, Exact
from symgrad.accuracy.measure import Judge
from symgrad.accuracy.rewrite import Step
from symgrad.accuracy.sampling import moderate
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import substitute, topological

__all__ = ["Member", "Worth", "together"]

_SLACK = 2.0  # ulp that a form may err beyond the one that is best by itself
_LEAST = 0.05  # passes that a form must spare
_ROUNDS = 3
_MOST_TWINS = 6  # parts of one form that are written as another form writes them
_MOST_NODES = 1500  # of all forms, beyond which parts are not compared
_EFFORT = 30_000  # nodes of all forms times forms that are tried in a round: what one costs is asked of all together
_LEAST_TRIED = 16
_POINTS = 10
_BITS = 120


@dataclass(frozen=True)
class Member:
    """A value or partial: how its form was chosen, and what its variables are called where all are compared.

    Of one that `may_be_infinite` a form keeps the limits that the chosen one has.
    """

    choice: Choice
    judge: Judge
    names: Mapping[Expr, Expr]
    is_value: bool
    may_be_infinite: bool = True

    def placed(self, form: Expr) -> Expr:
        """A form in the variables of all."""
        return substitute(form, self.names) if self.names else form

    def own(self, form: Expr) -> Expr:
        """A form of all variables in those of the choice."""
        return substitute(form, {v: k for k, v in self.names.items()}) if self.names else form

    def allows(self, found: Candidate) -> bool:
        """Whether a form is nearly as accurate as the one that was chosen, acceptable if that is, as right at
        infinity, and as fit to be differentiated once more."""
        best, acceptable = self.choice.chosen, self.judge.precision.acceptable
        if found.float32.failures > best.float32.failures or found.float64.failures > best.float64.failures:
            return False
        pairs = (found.float32.ulp, best.float32.ulp, 1.0), (found.float64.ulp, best.float64.ulp, LENIENT)
        if not all(own <= max(least, min(least + _SLACK * unit, acceptable * unit)) for own, least, unit in pairs):
            return False
        if not found.wide and self.judge.loses(found.form, best.form):
            return False
        if self.judge.is_noise(found.form) and not self.judge.is_noise(best.form):
            return False
        if self.judge.misses_pole(found.form) and not self.judge.misses_pole(best.form):
            return False
        if not self.is_value and self.judge.smoothness.loses(found.form, best.form):
            return False
        limits = self.judge.limits
        return not self.may_be_infinite or limits.missed(found.form) <= limits.missed(best.form)


@dataclass(frozen=True)
class Worth:
    """What forms cost together, shared operations counted once; `fused` says that one pass does all at once."""

    fused: bool

    def __call__(self, members: Sequence[Member], forms: Sequence[Candidate]) -> float:
        """Passes over memory of forward and backward, on an average of two ways: backward finds saved what it shares
        with forward, or computes it again. Fused passes cost what they compute in registers as well.
        """
        both = list(zip(members, forms, strict=True))
        values, slopes = ([pair for pair in both if pair[0].is_value is kind] for kind in (True, False))
        apart = [self._of_pass(p, alone=True) for p in (values, slopes)]
        return (self._of_pass(both, alone=False) + sum(apart)) / 2

    def _of_pass(self, pairs: Sequence[tuple[Member, Candidate]], *, alone: bool) -> float:
        """What is in float64 shares nothing with what is not. A pass with a form that is wrong at far points costs what
        one would give for its being right there, too."""
        found = 0.0
        for wide in (False, True):
            own = list(dict.fromkeys(m.placed(c.form) for m, c in pairs if c.wide is wide))
            if own:
                in_all = cost(*own) + sum(map(guarding, own)) + (in_registers(own) if alone and self.fused else 0)
                found += in_all * (WIDE if wide else 1)
        return found * max((c.far_worth for _, c in pairs if c.price > c.cost), default=1.0)


def together(members: Sequence[Member], worth: Worth) -> list[Choice]:
    """The choices of the members, agreed on: what spares most is replaced first.

    A form is only ever replaced where all forms together then cost less.
    """
    best = [m.choice.chosen for m in members]
    chosen, steps = list(best), [m.choice.steps for m in members]
    if len({m.placed(m.choice.chosen.form) for m in members}) < 2:
        return [m.choice for m in members]
    least = worth(members, chosen)
    nodes = len(topological(*(m.placed(c.form) for m, c in zip(members, chosen, strict=True))))
    most = max(_LEAST_TRIED, _EFFORT // nodes)
    for _ in range(_ROUNDS):
        offers: list[tuple[float, int, int, Candidate, tuple[Step, ...]]] = []
        for k, form, own in islice(_options(members, chosen, steps), most):
            offer = replace(chosen[k], form=form, cost=price(form) * (WIDE if best[k].wide else 1))
            total = worth(members, [*chosen[:k], offer, *chosen[k + 1 :]])
            if total < least - _LEAST:
                offers.append((total, len(offers), k, offer, own))
        before = list(chosen)
        for _, _, k, offer, own in sorted(offers, key=lambda o: o[:2]):
            if chosen[k] is not before[k]:
                continue  # it was derived from another form
            total = worth(members, [*chosen[:k], offer, *chosen[k + 1 :]])
            if total < least - _LEAST:
                found = _measured(members[k], offer)
                total = worth(members, [*chosen[:k], found, *chosen[k + 1 :]])  # which may be wrong at far points
                if total < least - _LEAST and members[k].allows(found):
                    chosen[k], steps[k], least = found, own, total
        if chosen == before:
            break
    return [
        m.choice if c is b else replace(m.choice, chosen=c, candidates=(*m.choice.candidates, c), steps=s)
        for m, c, b, s in zip(members, chosen, best, steps, strict=True)
    ]


def _measured(member: Member, offer: Candidate) -> Candidate:
    """The figures of a form, which counts as not finite where it is not equal to the formula."""
    judge, formula = member.judge, member.choice.formula
    narrow, double = judge.score(offer.form, FLOAT32, wide=offer.wide), judge.score(offer.form, FLOAT64)
    is_equal = any(judge.agrees(offer.form, other) for other in (formula, member.choice.chosen.form))
    if not is_equal or (member.is_value and judge.continues(offer.form)):
        narrow = replace(narrow, nonfinite=narrow.nonfinite + 1)
    return replace(offer, float32=narrow, float64=double)


def _options(
    members: Sequence[Member], chosen: Sequence[Candidate], steps: Sequence[tuple[Step, ...]]
) -> Iterator[tuple[int, Expr, tuple[Step, ...]]]:
    """The members by number, the forms that may replace their own, and the steps to them."""
    classes = _classes([m.placed(c.form) for m, c in zip(members, chosen, strict=True)], members)
    for k, member in enumerate(members):
        form = chosen[k].form
        yield from ((k, other, own) for other, own in member.choice.others if other is not form)
        for part, twin in _twins(member, form, classes):
            result = substitute(form, {part: twin})
            if result is not form:
                yield k, result, (*steps[k], Step("shared", part, twin, "as another value or derivative has it"))


def _twins(
    member: Member, form: Expr, classes: Mapping[Expr, Sequence[tuple[int, Expr]]]
) -> Iterator[tuple[Expr, Expr]]:
    """Parts of a form, the largest first, and what is equal to them in other forms."""
    known = frozenset(topological(member.placed(form)))
    variables = frozenset(member.choice.formula.symbols)
    found = 0
    for part in reversed(topological(form)):
        for sign, twin in classes.get(member.placed(part), ()):
            own = member.own(twin)
            if found == _MOST_TWINS:
                return
            if twin not in known and own.symbols <= variables and part not in topological(own):
                found += 1
                yield part, own if sign > 0 else -own


def _classes(forms: Iterable[Expr], members: Sequence[Member]) -> dict[Expr, list[tuple[int, Expr]]]:
    """The parts of forms that are worth the same at some points, up to their sign: candidates, to be proven equal."""
    forms = list(dict.fromkeys(forms))
    nodes = [n for n in topological(*forms) if n.args and not n.is_static and not n.is_boolean]
    everywhere = frozenset[Expr].intersection(*(frozenset(topological(f)) for f in forms))
    if len(nodes) > _MOST_NODES or all(n in everywhere for n in nodes):
        return {}
    points = _points(members)
    values = Exact(points, _BITS)
    found: dict[tuple[float, ...], list[tuple[int, Expr]]] = {}
    for node in nodes:
        try:
            column = [float(value) for value in values.balls(node)]
        except UNDEFINED:
            continue
        leading = next((v for v in column if v), 0.0)
        if points and leading and all(abs(v) < 1e300 for v in column):
            sign = 1 if leading > 0 else -1
            found.setdefault(tuple(sign * v for v in column), []).append((sign, node))
    return {
        node: [(sign * other, twin) for other, twin in group if twin is not node]
        for group in found.values()
        if len(group) > 1
        for sign, node in group
    }


def _points(members: Sequence[Member]) -> list[Environment]:
    """Some points at which nothing is extreme, of all variables: each has values that it has in a sample."""
    columns: dict[Expr, list[object]] = {}
    for member in members:
        points = moderate(member.judge.sample.points, _POINTS)
        for own in sorted(member.choice.formula.symbols, key=lambda s: s.name) if points else ():
            columns.setdefault(member.names.get(own, own), [p[own] for p in points])
    count = min(map(len, columns.values()), default=0)
    return [{s: column[k] for s, column in columns.items()} for k in range(count)]
