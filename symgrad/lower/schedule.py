"""From expressions to statements: shared values become temporaries, each computed only where it is needed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import TypeAlias

from symgrad.accuracy.machine import machine, machine_form
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, all_of, any_of, code
from symgrad.lower.growth import with_bounded_divisors
from symgrad.lower.naming import VAGUE, Names
from symgrad.lower.program import Assign, Condition, If, Program, Statement, given
from symgrad.lower.temporaries import choose_temporaries
from symgrad.ops.tensors import data_arguments, results
from symgrad.plan.fusion import fuse

Printing: TypeAlias = (
    "Callable[[Mapping[Expr, str | Code], Mapping[Expr, Code], Mapping[Expr, Code]], Callable[[Expr], Code]]"
)
"""How a target prints expressions, given names of values and, of others, shapes and dtypes."""

Case: TypeAlias = "tuple[Condition, ...]"
"""Conditions that hold together: a gradient is wanted, and a cotangent is there."""


@dataclass(frozen=True)
class Target:
    """A value to compute, under a name or by a statement of its own; in one of some cases, or always."""

    name: str
    value: Expr
    cases: tuple[Case, ...] = ()
    statement: Callable[[Code], Statement] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is the assignment of a local name, which a temporary may have in its place."""
        return self.statement is None and not self.cases

    def written(self, value: Code) -> Statement:
        """The statement for the code of the value."""
        return Assign(self.name, value) if self.statement is None else self.statement(value)


@dataclass
class Scope:
    """The Python names in scope of a method, by value; and the shapes and dtypes of tensors that are not.

    `partly` holds the known values that may be None, each with the conditions under one of which it is there;
    `shared` the values that get a name wherever they are computed; `lets` names that the spec gives to values.
    """

    names: Names
    known: dict[Expr, str | Code] = field(default_factory=dict)
    shapes: dict[Expr, Code] = field(default_factory=dict)
    dtypes: dict[Expr, Code] = field(default_factory=dict)
    partly: dict[Expr, frozenset[Condition]] = field(default_factory=dict)
    shared: frozenset[Expr] = frozenset()
    lets: Mapping[Expr, str] = field(default_factory=dict)


def statements(
    targets: Sequence[Target],
    scope: Scope,
    printing: Printing,
    *,
    fused: bool = False,
    in_forward: bool = False,
    certain: bool = True,
    divisors: frozenset[Expr] = frozenset(),
) -> Program:
    """A program that computes the targets in order, given the values that `scope` knows.

    Shared values are computed once, before their first use, in all cases of their uses. `fused` uses torch's one-pass
    operations, as derivatives do, and `in_forward` few of them; formulas are left as they read. Of the cases of all
    targets together at least one holds, if that is `certain`. `divisors` are targets that later statements only divide
    by.
    """
    schedule = _scheduled(targets, scope, fused=fused, in_forward=in_forward, certain=certain, divisors=divisors)
    printers = [schedule.printer(place, printing, scope) for place in range(len(schedule.sequence))]
    values = schedule.written(printers)
    return _grouped(schedule.blocks(values), [c for t in targets for c in t.cases], certain)


Cases: TypeAlias = "frozenset[Case] | None"
"""Of all targets that need a value, at least one of which holds; None for a value that is always needed."""


@dataclass(frozen=True)
class _Schedule:
    """What is computed in which order: each temporary (whose target is None) before the first target that needs it.

    `results` are the values of the targets, which may be temporaries too; `names` those of all values that have one,
    `given` of those that were known before; `users` the cases in which a value is needed, `everyone` those of all
    targets if one of them surely holds; `together` the values that one operation has as its results.
    """

    sequence: Sequence[tuple[Expr, Target | None]]
    results: frozenset[Expr]
    names: Mapping[Expr, str | Code]
    given: Mapping[Expr, str | Code]
    partly: Mapping[Expr, frozenset[Condition]]
    users: Mapping[Expr, Cases]
    everyone: frozenset[Case]
    together: Mapping[Expr, tuple[Expr, ...]]

    def printer(self, place: int, printing: Printing, scope: Scope) -> Callable[[Expr], Code]:
        """A printer with the names that surely have a value at a place of the sequence."""
        node, target = self.sequence[place]
        cases = self.users[node] if target is None else frozenset(target.cases) or None
        surely = {n: name for n, name in self.given.items() if _holds(self.partly.get(n), cases)}
        before = {self.names[n]: n for n, t in self.sequence[:place] if t is None}  # by name, for one may be taken over
        surely |= {n: name for name, n in before.items() if _covers(self.users.get(n), cases, self.everyone)}
        there = {n: name for n, name in self.given.items() if n.is_differential and _is_given(name, cases)}
        shapes = {**{n: code("{0}.shape", name) for n, name in there.items()}, **scope.shapes}
        return printing(surely, shapes, scope.dtypes)

    def written(self, printers: Iterable[Callable[[Expr], Code]]) -> list[Code]:
        """The code of each value in the sequence."""
        return [write(node) for write, (node, _) in zip(printers, self.sequence, strict=True)]

    def blocks(self, values: Sequence[Code]) -> Iterator[tuple[Cases, Statement]]:
        """The statements, each in its cases."""
        done: set[Expr] = set()
        for (node, target), value in zip(self.sequence, values, strict=True):
            if target is not None:
                yield frozenset(target.cases) or None, target.written(value)
            elif node in self.together and node not in done:
                done.update(self.together[node])
                assert isinstance(value, ast.Attribute | ast.Subscript)  # a result by its name or place, of all of them
                yield self._cases(node), Assign(tuple(map(self._name, self.together[node])), value.value)
            elif node not in done:
                yield self._cases(node), Assign(self._name(node), value)

    def _name(self, node: Expr) -> str:
        name = self.names[node]
        assert isinstance(name, str)
        return name

    def _cases(self, temporary: Expr) -> Cases:
        """Those that a temporary is computed under."""
        own = self.users[temporary]
        unconditional = len(self.everyone) > 1 and own == self.everyone and _is_there(temporary, self.everyone)
        return None if unconditional else own


def _scheduled(
    targets: Sequence[Target],
    scope: Scope,
    *,
    fused: bool,
    in_forward: bool,
    certain: bool,
    divisors: frozenset[Expr],
) -> _Schedule:
    """Choose the temporaries, their names and their places."""
    lowered = machine([*(t.value for t in targets), *scope.known])
    known = lowered[len(targets) :]
    given = dict(zip(known, scope.known.values(), strict=True))
    partly = {low: scope.partly[n] for low, n in zip(known, scope.known, strict=True) if n in scope.partly}
    leaves = frozenset(given)
    roots = lowered[: len(targets)]
    if fused:
        roots = fuse(with_bounded_divisors(roots, leaves, frozenset(map(machine_form, divisors))), leaves)
    elif in_forward:
        roots = fuse(roots, leaves, in_forward=True)
    order = [n for n in _computed(roots, leaves) if n not in given]
    users = _cases_of_uses(roots, targets, order, leaves)
    together = _computed_together(order, users)
    temporaries = choose_temporaries(roots, order, given) | together.keys()
    temporaries.update(n for n in machine(sorted(scope.shared, key=lambda v: v.order)) if n in order)
    shared = {machine_form(value) for value in scope.shared}
    wished = {
        root: t.name
        for root, t in zip(roots, targets, strict=True)
        if t.is_plain and root in temporaries and root not in shared
    }
    sequence = _sequence(roots, targets, [n for n in order if n in temporaries], users, wished, leaves)
    lets = {machine_form(value): name for value, name in scope.lets.items()}
    fixed = {*wished, *together, *shared, *lets}
    names = given | _named(sequence, wished, fixed, users, scope.names, lets, given)
    everyone = frozenset(c for t in targets for c in t.cases) if certain else frozenset[Case]()
    return _Schedule(sequence, frozenset(roots), names, given, partly, users, everyone, together)


def _named(
    sequence: Sequence[tuple[Expr, Target | None]],
    wished: Mapping[Expr, str],
    fixed: Collection[Expr],
    users: Mapping[Expr, Cases],
    names: Names,
    lets: Mapping[Expr, str],
    given: dict[Expr, str | Code],
) -> dict[Expr, str | Code]:
    """Names of the temporaries: where a word says little, that of one from which they are computed and which nobody
    reads any more, so that its memory is free.

    Those that are `fixed` are never taken over.
    """
    temporaries = given.keys() | {n for n, target in sequence if target is None}
    last: dict[Expr, int] = {}  # places of the last statements that read temporaries
    behind: dict[Expr, set[Expr]] = {}  # the temporaries from which one is computed
    for place, (node, target) in enumerate(sequence):
        above = [node] if target is not None and node in temporaries else list(node.args)
        read = temporaries.intersection(topological(*above, leaves=temporaries))
        last.update(dict.fromkeys(read, place))
        behind[node] = read.union(*(behind.get(n, ()) for n in read))
    found: dict[Expr, str | Code] = {}
    holders: dict[tuple[str, Cases], list[Expr]] = {}  # of names that may be taken over
    for place, (node, target) in enumerate(sequence):
        if target is not None:
            continue
        word = names.word(node, given | found, lets)
        if node in fixed or word not in VAGUE:
            found[node] = wished.get(node) or names.fresh(word)
            continue
        same = holders.setdefault((word, users[node]), [])
        dead = max((n for n in same if last[n] <= place and n in behind[node]), key=last.__getitem__, default=None)
        if dead is not None:
            same.remove(dead)
        found[node] = names.fresh(word) if dead is None else found[dead]
        same.append(node)
    return found


def _computed_together(order: Sequence[Expr], users: Mapping[Expr, Cases]) -> dict[Expr, tuple[Expr, ...]]:
    """The values of an operation all of whose results are needed, under the same conditions; each with all of them."""
    found = {n: results(n) for n in order}
    return {n: all_ for n, all_ in found.items() if all_ and all(r in found and users[r] == users[n] for r in all_)}


def _sequence(
    roots: Sequence[Expr],
    targets: Sequence[Target],
    temporaries: Sequence[Expr],
    users: Mapping[Expr, Cases],
    wished: Mapping[Expr, str],
    leaves: frozenset[Expr],
) -> list[tuple[Expr, Target | None]]:
    """What is computed in which order: each temporary (None) before the first target that needs it."""
    found: list[tuple[Expr, Target | None]] = []
    done: set[Expr] = set()
    for root, target in zip(roots, targets, strict=True):
        below = frozenset(topological(root, leaves=leaves))
        new = [n for n in temporaries if n in below and n not in done]
        found += [(n, None) for n in _by_condition(new, users, leaves)]
        done.update(new)
        if root not in done or wished.get(root) != target.name:  # else it was needed before, by this name
            found.append((root, target))
    return found


def _by_condition(nodes: Sequence[Expr], users: Mapping[Expr, Cases], leaves: frozenset[Expr]) -> list[Expr]:
    """The nodes, each after those that it reads: those that most targets need first, under few changes of condition."""
    own = set(nodes)
    below = leaves | own
    needs = {n: own.intersection(topological(*n.args, leaves=below)) for n in nodes}
    readers: dict[Expr, list[int]] = {n: [] for n in nodes}
    missing = [len(needs[n]) for n in nodes]
    ready: dict[Cases, list[int]] = {}  # places of nodes, by the cases in which they are needed; the first ones first
    for place, node in enumerate(nodes):
        for read in needs[node]:
            readers[read].append(place)
        if not missing[place]:
            heappush(ready.setdefault(users[node], []), place)
    found: list[Expr] = []
    while ready:
        last = users[found[-1]] if found else None
        cases = last if found and last in ready else max(ready, key=lambda c: (_breadth(c), -ready[c][0]))
        node = nodes[heappop(ready[cases])]
        if not ready[cases]:
            del ready[cases]
        found.append(node)
        for place in readers[node]:
            missing[place] -= 1
            if not missing[place]:
                heappush(ready.setdefault(users[nodes[place]], []), place)
    return found


def _breadth(cases: Cases) -> float:
    """How many targets need what is computed in some cases."""
    return inf if cases is None else len(cases)


def _computed(roots: Sequence[Expr], leaves: frozenset[Expr]) -> list[Expr]:
    """The values whose data the roots read, arguments first; also those of which others read the shape."""
    reached: set[Expr] = set()
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node not in reached:
            reached.add(node)
            pending += () if node in leaves else data_arguments(node)
    return [n for n in topological(*roots, leaves=leaves) if n in reached]


def _covers(whole: Cases, part: Cases, everyone: frozenset[Case]) -> bool:
    """Whether one of the cases `whole` is given wherever one of `part` is; None is always."""
    if whole is None or whole == everyone:
        return True
    return part is not None and part <= whole


def _holds(conditions: frozenset[Condition] | None, cases: Cases) -> bool:
    """Whether one of some conditions holds in each of the cases."""
    return conditions is None or (cases is not None and all(conditions.intersection(c) for c in cases))


def _is_given(name: str | Code, cases: Cases) -> bool:
    """Whether a cotangent or tangent is there in each of the cases."""
    return bool(cases) and isinstance(name, str) and all(given(name) in c for c in cases or ())


def _is_there(node: Expr, cases: frozenset[Case]) -> bool:
    """Whether a value can be computed where none of the cases is given: it reads nothing that is None there."""
    tested = frozenset(condition for c in cases for condition in c)
    return not any(given(s.name) in tested for s in node.symbols)


def _cases_of_uses(
    roots: Sequence[Expr], targets: Sequence[Target], order: Sequence[Expr], leaves: frozenset[Expr]
) -> dict[Expr, Cases]:
    """The cases of all targets that need a value; None for a value that is always needed."""
    found: dict[Expr, Cases] = {}
    for root, target in zip(roots, targets, strict=True):
        for node in _computed([root], leaves):
            if not target.cases:
                found[node] = None
            elif found.get(node, frozenset()) is not None:
                found[node] = (found.get(node) or frozenset()) | frozenset(target.cases)
    return {node: found[node] for node in order}


def _grouped(blocks: Iterable[tuple[Cases, Statement]], rank: Sequence[Case], certain: bool) -> Program:
    """Statements in equal cases share one `if`; is it `certain` that one of all cases is given?"""

    def surely(choice: Sequence[Case]) -> bool:
        several = certain and len(choice) > 1
        return () in choice or (several and all(any(set(c) & set(part) for part in choice) for c in rank))

    def test(cases: frozenset[Case]) -> Code:
        """Of what is wanted and what is there, each once: `(wants_x or wants_y) and (a or b)`."""
        partners: dict[Case, list[Case]] = {}
        for case in sorted(cases, key=rank.index):
            partners.setdefault(case[:1], []).append(case[1:])
        sharing: dict[tuple[Case, ...], list[Case]] = {}
        for first, seconds in partners.items():
            sharing.setdefault(tuple(seconds), []).append(first)
        terms = []
        for others, firsts in sharing.items():
            unsure = [c for c in (firsts, others) if not surely(c)] or [firsts if () in others else others]
            terms.append(all_of([any_of([condition.code for (condition,) in choice]) for choice in unsure]))
        return any_of(terms)

    program: list[Statement] = []
    for cases, group in groupby(blocks, key=itemgetter(0)):
        body = tuple(statement for _, statement in group)
        program += body if cases is None else [If(test(cases), body)]
    return tuple(program)
