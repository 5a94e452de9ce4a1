"""Branches: choices between Python values split an operation into variants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from symgrad.ir import expr as ex
from symgrad.ir.expr import FALSE, TRUE, Expr
from symgrad.ir.traversal import PerNode, substitute, topological

_MOST_VARIANTS = 16

End = TypeVar("End")
Roots: TypeAlias = Mapping[str, Expr]
"""The formulas of one variant, by name."""
Choices: TypeAlias = Mapping[Expr, Sequence[str]]
"""The values that a `str` hyperparameter can have, where they are few."""


@dataclass(frozen=True)
class Split(Generic[End]):
    """`if condition: then else: otherwise`, in Python; at the ends of the tree is one variant each."""

    condition: Expr
    then: Split[End] | End
    otherwise: Split[End] | End


def split(
    roots: Roots, choices: Choices, needed: Collection[Expr] = (), most: int = _MOST_VARIANTS
) -> Split[Roots] | Roots:
    """Split formulas on the Python conditions in them, into `most` variants at most; on those `needed` in any case."""
    return _split(roots, choices, needed, most >> len(needed))


def _split(roots: Roots, choices: Choices, needed: Collection[Expr], most: int) -> Split[Roots] | Roots:
    found = (c for c in _conditions(roots.values()) if most > 1 or c in needed)
    condition = next(found, None)
    if condition is None:
        return roots
    then, otherwise, rest = _decide(condition, choices)
    half = most if condition in needed else most // 2
    return Split(
        condition,
        _split(_under(roots, then), rest, needed, half),
        _split(_under(roots, otherwise), rest, needed, max(half, most - half)),
    )


def ends(tree: Split[Roots] | Roots) -> list[Roots]:
    """The formulas of all variants."""
    return [*ends(tree.then), *ends(tree.otherwise)] if isinstance(tree, Split) else [tree]


def absent(tensor: str) -> Expr:
    """The Python condition that an optional tensor was not given."""
    return ex.symbol(f"{tensor} is None", "bool")


def first_condition(roots: Iterable[Expr]) -> Expr | None:
    """The first undecided Python condition of a choice between tensors."""
    return next(_conditions(roots), None)


def _conditions(roots: Iterable[Expr]) -> Iterator[Expr]:
    """The undecided Python conditions of choices between tensors, in order."""
    for node in topological(*filter(_has_choice, roots)):
        if _is_choice(node):
            yield _atom(node.args[0])


def _is_choice(node: Expr) -> bool:
    return node.op == "where" and node.args[0].is_static and not node.is_static


@PerNode
def _has_choice(node: Expr) -> bool:
    return _is_choice(node) or any(map(_has_choice, node.args))


def _atom(condition: Expr) -> Expr:
    while condition.op in ex.LOGICAL:
        condition = condition.args[0]
    return condition


def _under(roots: Roots, facts: Mapping[Expr, Expr]) -> Roots:
    return {name: substitute(root, facts) for name, root in roots.items()}


def _decide(condition: Expr, choices: Choices) -> tuple[dict[Expr, Expr], dict[Expr, Expr], Choices]:
    """What is known where a condition holds and where it does not, and the choices then left."""
    if condition.op == "eq" and condition.args[1].op == "text":
        symbol, value = condition.args
        rest = [c for c in choices.get(symbol, ()) if c != value["value"]]
        others = {symbol: ex.text(rest[0])} if len(rest) == 1 else {condition: FALSE}
        return {symbol: value}, others, {**choices, symbol: rest}
    return {condition: TRUE}, {condition: FALSE}, choices
