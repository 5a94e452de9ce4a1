"""The rewriting engine: applies rules, checks every result against the original at high precision, keeps a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from symgrad.evaluate import Check
from symgrad.expr import Expr, rebuild, topological
from symgrad.rules import Rule

_MOST_REWRITES = 400  # per expression: rules are directed, this only bounds a mistake in the table


@dataclass(frozen=True)
class Step:
    """One rule that fired: on what, with what result, and why."""

    rule: str
    before: Expr
    after: Expr
    why: str


def rewrite(root: Expr, rules: Sequence[Rule], check: Check | None = None) -> tuple[Expr, tuple[Step, ...]]:
    """Apply the rules until none matches; returns the result and the steps.

    A rule whose result `check` finds different from the original is left out: over the reals every rule holds on
    its domain, but a formula may use a function outside it.
    """
    active = list(rules)
    while True:
        result, steps = _fixpoint(root, active)
        if not steps or check is None or check(root, result):
            return result, steps
        culprit = next((s.rule for s in steps if not check(s.before, s.after)), steps[-1].rule)
        active = [r for r in active if r.name != culprit]


def _fixpoint(root: Expr, rules: Sequence[Rule]) -> tuple[Expr, tuple[Step, ...]]:
    """Outermost first, then inside, then the rebuilt node again."""
    steps: list[Step] = []
    done: dict[Expr, Expr] = {}
    written: set[tuple[str, Expr]] = set()  # by which family

    def at(node: Expr) -> Expr:
        while len(steps) < _MOST_REWRITES and node.args:
            for rule in rules:
                after = None if (rule.family, node) in written else rule.apply(node)
                if after is not None:
                    steps.append(Step(rule.name, node, after, rule.why))
                    if rule.family:
                        written.update((rule.family, part) for part in topological(after))
                    node = after
                    break
            else:
                break
        return node

    def visit(node: Expr) -> Expr:
        if node in done:
            return done[node]
        top = at(node)
        inside = rebuild(top, [visit(a) for a in top.args])
        result = inside if inside is top else at(inside)
        if result is not inside and inside is not top:
            result = visit(result)
        done[node] = result
        return result

    return visit(root), tuple(steps)


def single_steps(root: Expr, rules: Sequence[Rule]) -> list[tuple[Expr, Step]]:
    """Every result of applying one rule at one place of the expression."""
    found: list[tuple[Expr, Step]] = []
    for node in topological(root):
        for rule in rules:
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
