"""Cotangents that go the same way through a formula: added up where they meet, and pulled back once.

The gradients of several outputs are derived one by one, since each cotangent may be absent. Where two of them are one
linear map of different values, `C(a)` and `C(b)`, their sum is `C(a + b)`: `a + b` is the cotangent of the value where
their ways meet, as autograd accumulates it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from symgrad.ir import expr as ex
from symgrad.ir.expr import ONE, ZERO, Expr, make, split_coefficient, symbol
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.tensors import TENSOR_OPS, data_arguments
from symgrad.ops.tensors.extent import Extent, extent
from symgrad.ops.tensors.shapes import declared_shape, same_shape, shape_sources
from symgrad.ops.tensors.shaping import expand
from symgrad.plan.hoist import hoisted

Estimate = Callable[[Sequence[Expr]], float]
"""What forms cost together, in passes over memory."""

_PREFIX = "met"  # of the names of sums: no output is called so, for its cotangent is `grad_...`
_WORTH = 1.0  # passes that a sum has to spare beside its own
_AT_ONCE = 3  # sums that one map may read
_PAIRS = 256  # terms of two sums that are compared
_NEAR = 4  # maps that a gradient is compared with


@dataclass(frozen=True)
class Meeting:
    """The sum of what several cotangents are where their ways meet.

    `terms` are what each gives, by its name: that of a cotangent (`grad_y`), or of an earlier sum.
    """

    symbol: Expr
    terms: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Accumulated:
    """Gradients with cotangents added up where their ways meet.

    First the sums, in order, of which one may read those before it; then what each cotangent or sum gives to the
    gradient of each tensor.
    """

    meetings: tuple[Meeting, ...]
    gradients: Mapping[tuple[str, str], Expr]

    @staticmethod
    def apart(gradients: Mapping[tuple[str, str], Expr]) -> Accumulated:
        """The gradients by output and tensor, none of them added up before, without those that are 0."""
        return Accumulated((), {(f"grad_{o}", t): g for (o, t), g in gradients.items() if g is not ZERO})

    @property
    def forms(self) -> list[Expr]:
        """All that is computed: what the sums are of, and the gradients."""
        return [*(form for m in self.meetings for _, form in m.terms), *self.gradients.values()]

    def with_forms(self, forms: Iterable[Expr]) -> Accumulated:
        """The same of other forms, without gradients that are 0 then."""
        new = iter(forms)
        meetings = tuple(Meeting(m.symbol, tuple((name, next(new)) for name, _ in m.terms)) for m in self.meetings)
        return Accumulated(meetings, {key: g for key, g in zip(self.gradients, new, strict=True) if g is not ZERO})

    def renamed(self, names: Sequence[str]) -> Accumulated:
        """The same with other names for the sums."""
        new = {
            m.symbol: symbol(name, "cotangent", m.symbol.get("shape"))
            for m, name in zip(self.meetings, names, strict=True)
        }
        called = {old.name: own.name for old, own in new.items()}
        whole = self.with_forms([substitute(form, new) for form in self.forms])
        meetings = tuple(
            Meeting(new[m.symbol], tuple((called.get(name, name), form) for name, form in m.terms))
            for m in whole.meetings
        )
        return Accumulated(meetings, {(called.get(name, name), t): g for (name, t), g in whole.gradients.items()})

    def readers(self, meeting: Meeting) -> list[str]:
        """The tensors whose gradients read a sum."""
        return list(dict.fromkeys(t for (_, t), g in self.gradients.items() if meeting.symbol in self._below(g)))

    def _below(self, form: Expr) -> frozenset[Expr]:
        """The symbols in a form and in the sums that it reads."""
        found = form.symbols
        for meeting in reversed(self.meetings):
            if meeting.symbol in found:
                found = found.union(*(term.symbols for _, term in meeting.terms))
        return found

    def of(self, tensor: str) -> list[tuple[str, Expr]]:
        """What contributes to a tensor's gradient, by the name of the cotangent or of the sum."""
        return [(name, form) for (name, t), form in self.gradients.items() if t == tensor]

    def sources(self, name: str) -> frozenset[str]:
        """The cotangents in what has a name."""
        terms = next((m.terms for m in self.meetings if m.symbol.name == name), None)
        return frozenset([name]) if terms is None else frozenset().union(*(self.sources(own) for own, _ in terms))

    def total(self, tensor: str) -> Expr:
        """The gradient of a tensor where every cotangent is there."""
        whole = ex.add(*(form for _, form in self.of(tensor)))
        for meeting in reversed(self.meetings):
            whole = substitute(whole, {meeting.symbol: ex.add(*(form for _, form in meeting.terms))})
        return whole


def accumulated(
    gradients: Mapping[tuple[str, str], Expr], values: Mapping[Expr, Expr], estimate: Estimate
) -> Accumulated:
    """Add up cotangents where their ways meet and that spares work, by `estimate`.

    `gradients` are by output and tensor; `values` have the shapes of the cotangents.
    """
    plain = Accumulated.apart(gradients)
    if len({o for o, _ in gradients}) < 2:
        return plain
    sizes = {name: max(g.size for (own, _), g in plain.gradients.items() if own == name) for name, _ in plain.gradients}
    maps = _Maps(values, sorted(sizes, key=lambda name: (-sizes[name], name)))
    joined: dict[tuple[str, str], Expr] = {}
    for tensor in dict.fromkeys(t for _, t in gradients):
        groups = maps.grouped(plain.of(tensor), estimate)
        for _ in range(2):  # a sum that one term is worth serves others too
            groups = maps.grouped([(name, term) for name, form in groups for term in maps.terms(form)], estimate)
        for name in dict.fromkeys(name for name, _ in groups):
            joined[name, tensor] = hoisted(ex.add(*(form for other, form in groups if other == name)))
    read = frozenset[Expr]().union(*(form.symbols for form in joined.values()))
    kept: list[Meeting] = []
    for meeting in reversed(maps.meetings.values()):
        if meeting.symbol in read:
            kept.append(meeting)
            read = read.union(*(form.symbols for _, form in meeting.terms))
    return Accumulated(tuple(reversed(kept)), joined)


@dataclass
class _Maps:
    """The linear maps that gradients have in common; `values` have the shapes of cotangents and sums.

    `order` are the cotangents in the order in which they meet, for all tensors: longer ways first, for shorter ones are
    parts of them.
    """

    values: Mapping[Expr, Expr]
    order: list[str]
    meetings: dict[tuple[tuple[str, Expr], ...], Meeting] = field(default_factory=dict)

    def grouped(self, parts: Sequence[tuple[str, Expr]], estimate: Estimate) -> list[tuple[str, Expr]]:
        """The parts of a gradient, with those in one that have a map in common which is worth it."""
        groups: list[tuple[str, Expr]] = []
        for part in sorted(parts, key=lambda part: (self.order.index(part[0]), -part[1].size)):
            place, group = self._joined(groups, part, estimate) or (len(groups), part)
            groups[place : place + 1] = [group]
        return groups

    def terms(self, form: Expr) -> tuple[Expr, ...]:
        """The terms of a gradient, each in the shape of all; the whole where no tensor has that shape."""
        shaped = substitute(form, self.values)
        small = [t for t in form.terms if not same_shape(shape_sources(substitute(t, self.values)), shaped)]
        if not small:
            return form.terms
        like = [s for s in shape_sources(shaped) if s.op == "sym"]
        if len(like) != 1 or not same_shape(frozenset(like), shaped):
            return (form,)
        return tuple(expand(t, like[0]) if t in small else t for t in form.terms)

    def _joined(
        self, groups: Sequence[tuple[str, Expr]], part: tuple[str, Expr], estimate: Estimate
    ) -> tuple[int, tuple[str, Expr]] | None:
        """The last group with which a part has a map in common that is worth it: its place, and what it becomes."""
        for place in range(len(groups) - 1, max(-1, len(groups) - 1 - _NEAR), -1):
            name, form = groups[place]
            if name == part[0]:
                continue
            common = _Common(self.values)
            whole = common.map(form, part[1])
            holes = {pair: hole for pair, hole in common.holes.items() if whole and hole in whole.symbols}
            if whole is None or not 0 < len(holes) <= _AT_ONCE:
                continue
            sums = {hole: _ordered((name, first), (part[0], second)) for (first, second), hole in holes.items()}
            new = [terms for terms in sums.values() if terms not in self.meetings]
            known = {hole: self.meetings[terms].symbol for hole, terms in sums.items() if terms in self.meetings}
            after = estimate([substitute(whole, known), *(term for terms in new for _, term in terms)])
            if estimate([form, part[1]]) - after - len(new) < _WORTH:
                continue
            placed = {hole: self._meeting(terms).symbol for hole, terms in sums.items()}
            return place, (next(iter(placed.values())).name, substitute(whole, placed))
        return None

    def _meeting(self, terms: tuple[tuple[str, Expr], ...]) -> Meeting:
        if terms not in self.meetings:
            value = make("add", *(substitute(term, self.values) for _, term in terms))  # of the shape of all
            own = symbol(f"{_PREFIX}_{len(self.meetings)}", "cotangent", declared_shape(value))
            self.meetings[terms] = Meeting(own, terms)
            self.values = {**self.values, own: value}
            self.order.insert(0, own.name)
        return self.meetings[terms]


Asked: TypeAlias = "tuple[Expr, Expr, Expr, Expr, bool]"
"""Two values, a number for each that it is multiplied by, and whether their shapes may differ."""

Found: TypeAlias = "tuple[Fraction, Expr] | None"
"""A linear map of holes, as a number times a form; None where there is none."""

Search: TypeAlias = "Generator[Asked, Found, Found]"
"""Asks for the maps of operands, and returns that of what is made of them."""


@dataclass
class _Common:
    """What two gradients have in common, with `holes` for the values of which it is the same map."""

    values: Mapping[Expr, Expr]
    holes: dict[tuple[Expr, Expr], Expr] = field(default_factory=dict)
    shaped: dict[Expr, Expr] = field(default_factory=dict)  # values without cotangents that have the same shapes

    def map(self, left: Expr, right: Expr) -> Expr | None:
        """The linear map of two values; None where there is none. Formulas may be deeper than Python's stack."""
        for node in topological(left, right):
            inside = (self.shaped[a] for a in node.args)
            self.shaped[node] = self.values[node] if node in self.values else rebuild(node, inside)
        whole: Asked = (left, right, ONE, ONE, False)
        found: dict[Asked, Found] = {}
        searches: list[tuple[Asked, Search]] = [(whole, self._search(*whole))]
        answer: Found = None
        while searches:
            own, search = searches[-1]
            try:
                asked = search.send(answer)
            except StopIteration as end:
                found[own] = answer = end.value
                searches.pop()
                continue
            answer = found.get(asked)
            if asked not in found:
                searches.append((asked, self._search(*asked)))
        result = found[whole]
        return None if result is None else ex.mul(*result)

    def _search(self, left: Expr, right: Expr, first: Expr, second: Expr, free: bool) -> Search:
        """The map of `first * left` and `second * right`, whose factors are numbers.

        Where they are `free` to have different shapes, what reads them element by element has one.
        """
        product = "mul" in (left.op, right.op)
        found = yield from (self._of_products if product else self._of_operands)(left, right, first, second)
        if found is None and (free or self._extent(left) == self._extent(right)):
            ours, theirs = ex.mul(first, left), ex.mul(second, right)
            number = _sign(min(ours, theirs, key=lambda v: (split_coefficient(v)[1].op == "add", v.size, v.digest)))
            pair = (ex.mul(number, ours), ex.mul(number, theirs))
            if pair not in self.holes:
                shape = declared_shape(substitute(left, self.shaped))
                self.holes[pair] = symbol(f"hole {len(self.holes)}", "cotangent", shape)
            found = number, self.holes[pair]
        return found

    def _extent(self, value: Expr) -> Extent:
        return extent(substitute(value, self.shaped))

    def _of_operands(self, left: Expr, right: Expr, first: Expr, second: Expr) -> Search:
        """The map of two results of one operation."""
        if left.op != right.op or left.attrs != right.attrs:
            return None
        free = left.op not in TENSOR_OPS and self._extent(left) == self._extent(right)
        if left.op == "add":
            return (yield from self._of_sums(left, right, first, second, free))
        if len(left.args) != len(right.args):
            return None
        data = [a for a in data_arguments(left) if a.is_differential]
        parts: dict[int, tuple[Fraction, Expr]] = {}
        for place, (a, b) in enumerate(zip(left.args, right.args, strict=True)):
            if a in data and b.is_differential:
                part = yield a, b, first, second, free
                if part is None:
                    return None
                parts[place] = part
            elif a is not b or a in data:
                return None
        if not parts:
            return None
        numbers = {number for number, _ in parts.values()}
        number = numbers.pop() if len(numbers) == 1 else Fraction(1)
        own = {place: ex.mul(factor / number, form) for place, (factor, form) in parts.items()}
        return number, make(left.op, *(own.get(k, a) for k, a in enumerate(left.args)), **dict(left.attrs))

    def _of_sums(self, left: Expr, right: Expr, first: Expr, second: Expr, free: bool) -> Search:
        """The map of two sums: the maps of their terms, and what is left of both."""
        if len(left.args) * len(right.args) > _PAIRS:
            return None
        ours, theirs, parts = list(left.args), list(right.args), list[tuple[Fraction, Expr]]()
        for one in left.args:
            for other in theirs:
                part = yield one, other, first, second, free
                if part is not None and part[1] not in self.holes.values():
                    parts.append(part)
                    ours.remove(one)
                    theirs.remove(other)
                    break
        if not parts or bool(ours) != bool(theirs):
            return None
        if ours:
            part = yield ex.add(*ours), ex.add(*theirs), first, second, free
            if part is None:
                return None
            parts.append(part)
        number = parts[-1 if ours else 0][0]
        return number, ex.add(*(ex.mul(factor / number, form) for factor, form in parts))

    def _of_products(self, left: Expr, right: Expr, first: Expr, second: Expr) -> Search:
        """The map of two products: what they share, of the rest."""
        shared = [f for f in left.factors if not f.is_differential and f in right.factors]
        rest = [[f for f in v.factors if f not in shared] for v in (left, right)]
        numbers = [ex.mul(own, *(f for f in v if f.is_static)) for own, v in zip((first, second), rest, strict=True)]
        others = [ex.mul(*(f for f in v if not f.is_static)) for v in rest]
        if others == [left, right]:
            return None
        free = not all(f.is_static for f in shared) and self._extent(left) == self._extent(right)
        inner = yield others[0], others[1], numbers[0], numbers[1], free
        return None if inner is None else split_coefficient(ex.mul(*shared, *inner))


def _ordered(*terms: tuple[str, Expr]) -> tuple[tuple[str, Expr], ...]:
    """The terms of a sum, the longest first."""
    return tuple(sorted(terms, key=lambda term: (-term[1].size, term[0], term[1].digest)))


def _sign(value: Expr) -> Fraction:
    """The sign of a product, or of the term of a sum that is the first of either sign."""
    number, rest = split_coefficient(value)
    if rest.op == "add":
        number *= min(map(split_coefficient, rest.args), key=lambda part: part[1].digest)[0]
    return Fraction(1 if number > 0 else -1)
