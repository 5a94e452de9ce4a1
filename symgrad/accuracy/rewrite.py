"""The rewriting engine: applies rules, checks every result against the original at high precision, keeps a trace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from symgrad.accuracy.equality import Check
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import rebuild, topological
from symgrad.rules import Rule, Transformation

__all__ = ["Rewriter", "Step", "by_operation", "replace", "rewrite", "single_steps"]

AnyRule: TypeAlias = Rule | Transformation

_MOST_REWRITES = 400  # per expression: rules are directed, this only bounds a mistake in the table


@dataclass(frozen=True)
class Step:
    """One rule that fired: on what, with what result, and why."""

    rule: str
    before: Expr
    after: Expr
    why: str

    def mapped(self, change: Callable[[Expr], Expr]) -> Step:
        """The same step on other expressions."""
        return Step(self.rule, change(self.before), change(self.after), self.why)


def rewrite(root: Expr, rules: Sequence[AnyRule], check: Check | None = None) -> tuple[Expr, tuple[Step, ...]]:
    """Apply the rules until none matches; returns the result and the steps.

    A rule whose result `check` finds different from the original is left out: over the reals every rule holds on
    its domain, but a formula may use a function outside it.
    """
    active = list(rules)
    while True:
        result, steps = Rewriter(active)(root)
        if not steps or check is None or check(root, result):
            return result, steps
        culprit = next((s.rule for s in steps if not check(s.before, s.after)), steps[-1].rule)
        active = [r for r in active if r.name != culprit]


def by_operation(rules: Iterable[AnyRule]) -> Mapping[str, Sequence[AnyRule]]:
    """The rules by the operation at whose nodes they can match."""
    found: dict[str, list[AnyRule]] = {}
    for rule in rules:
        found.setdefault(rule.operation, []).append(rule)
    return found


class Rewriter:
    """Applies rules outermost first, then inside, then to the rebuilt node again; remembers what it has done.

    It does not recurse, for formulas may be deep.
    """

    def __init__(self, rules: Iterable[AnyRule]) -> None:
        self._rules = by_operation(rules)
        self._steps: list[Step] = []
        self._written: set[tuple[str, Expr]] = set()  # by which family
        self._done: dict[Expr, Expr] = {}

    def __call__(self, root: Expr) -> tuple[Expr, tuple[Step, ...]]:
        """The rewritten expression, and the steps to it."""
        self._steps = []
        done = self._done
        if root in done:
            return done[root], ()
        frames = [(root, self._at(root))]
        while frames:
            node, top = frames[-1]
            missing = next((a for a in top.args if a not in done), None)
            if missing is not None:
                # A replacement may contain its own pattern: then the same node is on the stack twice, and the inner
                # one stays as it is.
                frames.append((missing, self._at(missing)))
                continue
            inside = rebuild(top, (done[a] for a in top.args))
            result = inside if inside is top else self._at(inside)
            if result is inside:
                done[node] = done[top] = inside
                frames.pop()
            else:
                frames[-1] = (node, result)
        return done[root], tuple(self._steps)

    def _at(self, node: Expr) -> Expr:
        """The node after all rules that match at its root."""
        matched = True
        while matched and len(self._steps) < _MOST_REWRITES:
            matched = False
            for rule in self._rules.get(node.op, ()):
                after = None if (rule.family, node) in self._written else rule.apply(node)
                if after is not None:
                    self._steps.append(Step(rule.name, node, after, rule.why))
                    if rule.family:
                        self._written.update((rule.family, part) for part in topological(after))
                    node, matched = after, True
                    break
        return node


def single_steps(
    root: Expr, rules: Mapping[str, Sequence[AnyRule]], at: Collection[Expr] | None = None
) -> list[tuple[Expr, Step]]:
    """Every result of applying one rule (of those `by_operation`) at one place, or at the places `at` only."""
    found: list[tuple[Expr, Step]] = []
    for node in topological(root):
        if at is not None and node not in at:
            continue
        for rule in rules.get(node.op, ()):
            after = rule.apply(node)
            if after is not None:
                result = replace(root, node, after)
                if result is not root:
                    found.append((result, Step(rule.name, node, after, rule.why)))
    return found


def replace(root: Expr, old: Expr, new: Expr) -> Expr:
    """`root` with every occurrence of `old` replaced."""
    mapped: dict[Expr, Expr] = {old: new}
    for node in topological(root, leaves=frozenset({old})):
        if node is not old:
            mapped[node] = rebuild(node, (mapped[a] for a in node.args))
    return mapped[root]
