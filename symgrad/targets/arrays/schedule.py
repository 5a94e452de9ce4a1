"""From expressions to statements of a pure function: what is used more than once becomes a temporary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from symgrad.accuracy.machine import machine, machine_form
from symgrad.compiler.operation import Body, Variant
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import data_arguments, is_number
from symgrad.targets.arrays.printer import Printer
from symgrad.targets.arrays.source import Line, nested
from symgrad.targets.naming import Names

__all__ = ["Target", "branches", "statements"]

_LONGEST = 72  # characters of one printed expression, beyond which its largest part gets a name


@dataclass(frozen=True)
class Target:
    """A value to compute: the statement, with its `{value}` or as an `{atom}`, and what else that reads.

    It is under the condition that `given` is not None, if that names something.
    """

    value: Expr
    template: str
    reads: tuple[str, ...] = ()
    given: str = ""
    ends: bool = False  # whether it is what the function returns


@dataclass
class Scope:
    """The names that are free, those that values have already, and those that the spec gives to intermediates.

    `kept` are the values that are kept for the derivative: the template is how they are marked.
    """

    names: Names
    known: dict[Expr, str]
    lets: Mapping[Expr, str] = field(default_factory=dict)
    kept: frozenset[Expr] = frozenset()
    template: str = "{value}"


def statements(
    targets: Sequence[Target], scope: Scope, printer: Callable[[Mapping[Expr, str]], Printer]
) -> Iterator[Line]:
    """The lines that compute the targets in order.

    What only targets under one condition need stands under that condition, too; all else before, since compilers
    drop what nobody reads.
    """
    known = list(scope.known)
    lowered = machine([*(t.value for t in targets), *known, *sorted(scope.kept, key=lambda v: v.order)])
    roots, count = lowered[: len(targets)], len(targets)
    names = dict(zip(lowered[count:], scope.known.values(), strict=False))
    kept = frozenset(lowered[count + len(known) :]) - names.keys()
    lets = {machine_form(form): name for form, name in scope.lets.items()}
    conditions = _conditions(roots, targets, frozenset(names))
    chosen = _temporaries(roots, conditions, names, kept)
    print_ = printer(names)

    def assign(node: Expr) -> Line:
        name = scope.names.for_value(node, names, lets)
        line = print_.line(f"{name} = {scope.template if node in kept else '{value}'}", node)
        names[node] = name
        return line

    for node in conditions:
        if node in chosen and len(conditions[node]) != 1:
            yield assign(node)
    yield from _blocks(roots, targets, [n for n in conditions if n in chosen], names, print_, assign)


def _blocks(
    roots: Sequence[Expr],
    targets: Sequence[Target],
    temporaries: Sequence[Expr],
    names: Mapping[Expr, str],
    print_: Printer,
    assign: Callable[[Expr], Line],
) -> Iterator[Line]:
    """The statements of each condition in turn."""
    previous = ""
    for root, target in zip(roots, targets, strict=True):
        if target.given and target.given != previous:
            yield Line(f"if {target.given} is not None:", frozenset([target.given]), fixed=True)
        previous = target.given
        below = frozenset(topological(root))
        own = [assign(node) for node in temporaries if node in below and node not in names]
        own.append(replace(print_.line(target.template, root, *target.reads), fixed=target.ends))
        yield from nested(own) if target.given else own


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
    roots: Sequence[Expr], order: Mapping[Expr, object], named: Mapping[Expr, str], kept: frozenset[Expr]
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
        return len(named[node]) if node in named else 6 if node in chosen else width.get(node, 4)

    for node in order:
        width[node] = len(node.op) + 2 + sum(map(wide, node.args))
        if width[node] > _LONGEST:
            widest = max(node.args, key=wide)
            if widest in width and widest.args and not is_number(widest):
                chosen.add(widest)
                width[node] = len(node.op) + 2 + sum(map(wide, node.args))
    return chosen


def branches(body: Body, leaf: Callable[[Variant], list[Line]], condition: Callable[[Expr], Line]) -> list[Line]:
    """The lines of each variant under Python's conditions; all of them end with a return.

    What both sides begin with stands before the condition, and a condition without consequences is dropped.
    """
    if isinstance(body, Variant):
        return leaf(body)
    then, otherwise = (branches(b, leaf, condition) for b in (body.then, body.otherwise))
    if then == otherwise:
        return then
    shared = 0
    for a, b in zip(then, otherwise, strict=False):
        if a != b or a.fixed or a.depth:
            break
        shared += 1
    return [*then[:shared], condition(body.condition), *nested(then[shared:]), *otherwise[shared:]]
