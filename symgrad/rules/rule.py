"""What a rewrite rule is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.ir.pattern import match_root
from symgrad.ir.traversal import operations, substitute

_TAKEN_APART = frozenset({"add", "mul", "pow", "num", "sym"})


def _always(_: Mapping[Expr, Expr]) -> bool:
    return True


@dataclass(frozen=True)
class Rule:
    """`pattern` becomes `replacement`, where `condition` holds of the bindings.

    `why` says what it gains. `domain` bounds the wildcards when the rule is proven (both sides must agree there).
    Rules of one `family` are not applied again to what one of them wrote, for a replacement may contain its pattern.
    One that `saves` operations is tried where nothing is to be gained in accuracy, too.
    """

    name: str
    pattern: Expr
    replacement: Expr
    why: str
    condition: Callable[[Mapping[Expr, Expr]], bool] = _always
    domain: tuple[float, float] = (-4.0, 4.0)
    family: str = ""
    saves: bool = False

    @property
    def operation(self) -> str:
        """The operation at whose nodes it can match."""
        return self.pattern.op

    @cached_property
    def needed(self) -> frozenset[str]:
        """The operations without which nothing matches: all but those that normalising takes apart."""
        return operations(self.pattern) - _TAKEN_APART

    def apply(self, node: Expr) -> Expr | None:
        """The rewritten node, or None where the rule does not match."""
        if not self.needed <= operations(node):
            return None
        for bindings, rest in match_root(self.pattern, node):
            if self.condition(bindings):
                result = substitute(self.replacement, bindings)
                if rest is not None:
                    result = ex.add(result, rest) if node.op == "add" else ex.mul(result, rest)
                if result is not node:
                    return result
        return None


def with_negatives(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules, and for each about a sum that about its negative, which is another sum."""
    found: list[Rule] = []
    for rule in rules:
        found.append(rule)
        if rule.pattern.op == "add":
            negative = ex.add(*(ex.mul(-1, term) for term in rule.pattern.args))
            if all(negative is not other.pattern for other in rules):
                name = f"{rule.name}-negated"
                found.append(replace(rule, name=name, pattern=negative, replacement=-rule.replacement))
    return tuple(found)


@dataclass(frozen=True)
class Transformation:
    """A rule that no pattern can state, because it looks at all operands of a node of one operation at once."""

    name: str
    operation: str
    transform: Callable[[Expr], Expr | None]
    why: str
    family: str = ""
    saves: bool = False

    def apply(self, node: Expr) -> Expr | None:
        """The rewritten node, or None where it does not apply."""
        result = self.transform(node)
        return None if result is node else result
