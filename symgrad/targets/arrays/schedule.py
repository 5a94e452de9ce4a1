"""From expressions to statements of a pure function: what is used more than once becomes a temporary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from symgrad.accuracy.machine import machine, machine_form
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, code, source
from symgrad.lower.growth import with_bounded_divisors
from symgrad.lower.naming import Names
from symgrad.lower.program import Assign, If, Program, Statement, given
from symgrad.ops.tensors import data_arguments, is_number
from symgrad.targets.arrays.printer import Printer

__all__ = ["Scope", "Target", "statements"]

_LONGEST = 72  # characters of one printed expression, beyond which its largest part gets a name


@dataclass(frozen=True)
class Target:
    """A value to compute: its statement, and what has to be given for it, if that names something."""

    value: Expr
    statement: Callable[[Code], Statement]
    given: str = ""


@dataclass
class Scope:
    """The names that are free, those that values have already, and those that the spec gives to intermediates.

    `kept` are the values that are kept for the derivative, with templates of how they are marked.
    """

    names: Names
    known: dict[Expr, str | Code]
    lets: Mapping[Expr, str] = field(default_factory=dict)
    kept: Mapping[Expr, str] = field(default_factory=dict)


def statements(
    targets: Sequence[Target],
    scope: Scope,
    printer: Callable[[Mapping[Expr, str | Code]], Printer],
    *,
    differentiated: bool = False,
) -> Program:
    """A program that computes the targets in order; one that is `differentiated` again has bounded divisors.

    What only targets under one condition need stands under that condition, too; all else before, since compilers
    drop what nobody reads.
    """
    known = list(scope.known)
    marked = sorted(scope.kept, key=lambda v: v.order)
    print_ = printer(names := dict[Expr, str | Code]())
    lowered = machine([print_.opened(v) for v in (*(t.value for t in targets), *known, *marked)])
    roots, count = lowered[: len(targets)], len(targets)
    if differentiated:
        roots = with_bounded_divisors(roots, frozenset(lowered[count:]))
    names.update(zip(lowered[count:], scope.known.values(), strict=False))
    kept = dict(zip(lowered[count + len(known) :], (scope.kept[v] for v in marked), strict=True))
    lets = {machine_form(print_.opened(form)): name for form, name in scope.lets.items()}
    conditions = _conditions(roots, targets, frozenset(names))
    chosen = _temporaries(roots, conditions, names, frozenset(kept.keys() - names.keys()))

    def assign(node: Expr) -> Statement:
        name = scope.names.for_value(node, names, lets)
        made = Assign(name, code(kept.get(node, "{0}"), print_(node)))
        names[node] = name
        return made

    program = [assign(node) for node in conditions if node in chosen and len(conditions[node]) != 1]
    pairs = zip(roots, targets, strict=True)
    for needed, group in groupby(pairs, key=lambda pair: pair[1].given):
        body: list[Statement] = []
        for root, target in group:
            below = frozenset(topological(root))
            body += [assign(n) for n in conditions if n in chosen and n in below and n not in names]
            body.append(target.statement(print_(root)))
        program += [If(given(needed).code, tuple(body))] if needed else body
    return tuple(program)


def _conditions(
    roots: Sequence[Expr], targets: Sequence[Target], leaves: frozenset[Expr]
) -> dict[Expr, frozenset[str]]:
    """Every value that is computed, arguments first, with what its uses ask for; none for what is always used."""
    found: dict[Expr, set[str] | None] = {}
    for root, target in zip(roots, targets, strict=True):
        for node in _computed([root], leaves):
            own = found.setdefault(node, set())
            if not target.given:
                found[node] = None
            elif own is not None:
                own.add(target.given)
    order = (n for n in topological(*roots, leaves=leaves) if n in found)
    return {n: frozenset(found[n] or ()) for n in order}


def _computed(roots: Sequence[Expr], leaves: frozenset[Expr]) -> set[Expr]:
    """The values whose data the roots read."""
    reached: set[Expr] = set()
    pending = [*roots]
    while pending:
        node = pending.pop()
        if node not in reached and node not in leaves:
            reached.add(node)
            pending += data_arguments(node)
    return reached


def _temporaries(
    roots: Sequence[Expr], order: Mapping[Expr, object], named: Mapping[Expr, str | Code], kept: frozenset[Expr]
) -> set[Expr]:
    """Values that are used more than once or kept, and parts that keep a statement readable."""
    uses: dict[Expr, int] = {}
    for node in order:
        for argument in data_arguments(node):
            uses[argument] = uses.get(argument, 0) + 1
    for root in roots:
        uses[root] = uses.get(root, 0) + 1
    own = [n for n in order if n.args and not is_number(n)]
    chosen = {n for n in own if (uses.get(n, 0) > 1 and n.op not in ("T", "mT")) or n in kept}
    width: dict[Expr, int] = {}

    def wide(node: Expr) -> int:
        if node in named:
            own = named[node]
            return len(own if isinstance(own, str) else source(own))
        return 6 if node in chosen else width.get(node, 4)

    for node in order:
        width[node] = len(node.op) + 2 + sum(map(wide, node.args))
        if width[node] > _LONGEST:
            widest = max(node.args, key=wide)
            if widest in width and widest.args and not is_number(widest):
                chosen.add(widest)
                width[node] = len(node.op) + 2 + sum(map(wide, node.args))
    return chosen
