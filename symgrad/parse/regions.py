"""Large pointwise formulas, divided into regions of bounded size.

Within a region a partial derivative is one symbolic formula, which grows with the square of the region, and forms are
searched for the region as a whole. So a formula of many operations is divided: a `boundary` is the identity as a tensor
operation, at which a cotangent is accumulated before it goes on. It is gone from what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.analysis.integers import is_integer
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import rebuild, topological
from symgrad.ops.tensors import TENSOR_OPS

__all__ = ["divided"]

_LARGEST = 40  # operations of a region that is left whole: larger than any activation or loss that people write
_PIECE = 16  # operations of a part of one that is not
_LEAST = 4  # operations that a boundary is worth


def divided(root: Expr) -> Expr:
    """The formula with boundaries where its pointwise regions are too large."""
    leaves = frozenset(n for n in topological(root) if n.op in TENSOR_OPS or n.is_static)
    order = topological(root, leaves=leaves)
    if sum(_weight(node) for node in order if node not in leaves) <= _LARGEST:
        return root
    mapped: dict[Expr, Expr] = {}
    weights: dict[Expr, int] = {}  # operations of a part down to the boundaries in it; shared ones count twice
    for node in order:
        args = () if node in leaves else tuple(mapped[a] for a in node.args)
        args = _bounded(node.op, args, weights)
        mapped[node] = rebuild(node, args) if args else node
        own = 0 if node in leaves else _weight(node)
        weights[mapped[node]] = own + sum(weights.get(a, 0) for a in dict.fromkeys(args))
    return mapped[root]


def _weight(node: Expr) -> int:
    return max(len(node.args) - 1, 1) if node.args else 0


def _bounded(op: str, args: Sequence[Expr], weights: dict[Expr, int]) -> tuple[Expr, ...]:
    """The operands, the heaviest of them behind boundaries, so that all together are no more than a piece."""
    found = list(args)
    if op in ("add", "mul"):
        found = _grouped(op, found, weights)
    while sum(weights.get(a, 0) for a in dict.fromkeys(found)) + len(found) > _PIECE:
        candidates = [a for a in found if weights.get(a, 0) >= _LEAST and _may_stand_alone(a)]
        if not candidates:
            break
        heaviest = max(candidates, key=lambda a: weights[a])
        found = [_boundary(a, weights) if a is heaviest else a for a in found]
    return tuple(found)


def _grouped(op: str, args: list[Expr], weights: dict[Expr, int]) -> list[Expr]:
    """The operands of a long sum or product, in groups behind boundaries; a number stays where it is."""
    while len(args) > _PIECE:
        groups: list[Expr] = []
        for start in range(0, len(args), _PIECE // 2):
            some = args[start : start + _PIECE // 2]
            numbers = [a for a in some if a.is_static]
            tensors = [a for a in some if not a.is_static]
            tensors = list(_bounded("", tensors, weights))
            if len(tensors) > 1:
                group = make(op, *tensors)
                weights[group] = _weight(group) + sum(weights.get(a, 0) for a in tensors)
                tensors = [_boundary(group, weights)]
            groups += [*numbers, *tensors]
        if len(groups) == len(args):
            break
        args = groups
    return args


def _boundary(value: Expr, weights: dict[Expr, int]) -> Expr:
    alone = make("boundary", value)
    weights[alone] = 0
    return alone


def _may_stand_alone(value: Expr) -> bool:
    return not (value.is_boolean or value.is_static or is_integer(value))
