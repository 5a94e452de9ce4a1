"""What gradients read where some values are at hand, and what computing the rest costs."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.accuracy.cost import is_product, scaled_cost, total
from symgrad.accuracy.machine import machine
from symgrad.analysis.sizes import Sizes
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import PerNode, topological
from symgrad.ops.tensors import TENSOR_OPS, data_arguments
from symgrad.plan.fusion import fuse

RANDOM = "random_bits"


@PerNode
def carries_data(node: Expr) -> bool:
    """Whether the value depends on the data of a tensor of forward (not on a cotangent, nor on shapes alone)."""
    if node.is_differential:
        return False
    return bool(node.tensors) if node.op == "sym" else any(carries_data(a) for a in data_arguments(node))


@PerNode
def is_drawn(node: Expr) -> bool:
    """Whether a value is made of random numbers, which are in float32 at least."""
    return node.op == RANDOM or any(map(is_drawn, data_arguments(node)))


def read_by(gradients: Sequence[Expr], kept: frozenset[Expr]) -> set[Expr]:
    """The values whose data the gradients read when `kept` values are at hand."""
    found: set[Expr] = set()
    stack = [*gradients]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            if node not in kept:
                stack += data_arguments(node)
    return found


def readable_from(kept: frozenset[Expr], values: Sequence[Expr]) -> bool:
    """Whether the values can be computed from what is kept, cotangents and tangents."""
    return all(n in kept for n in read_by(values, kept) if n.op == "sym" and carries_data(n))


def remaining_cost(
    gradients: Sequence[Expr], saved: frozenset[Expr], sizes: Sizes | None = None, *, everything: bool = True
) -> float:
    """What computing the gradients costs in eager operations when `saved` values are at hand, in passes.

    Without `everything` what autograd does alike does not count: products, and sums over what was broadcast.
    """
    lowered = machine([*gradients, *saved])
    at_hand = frozenset(lowered[len(gradients) :])
    roots = fuse(lowered[: len(gradients)], at_hand)
    sizes, read = sizes or Sizes.of(gradients), read_by(roots, at_hand)
    spent = (n for n in topological(*roots, leaves=at_hand) if n in read and n not in at_hand)
    return total(scaled_cost(n, sizes) for n in spent if everything or not (is_product(n) or _is_view(n)))


def repeated_cost(gradients: Sequence[Expr], base: frozenset[Expr], extras: frozenset[Expr], sizes: Sizes) -> float:
    """What is computed twice where the extras are recomputed: for themselves, and beside them."""
    if not extras:
        return 0.0
    lowered = machine([*gradients, *(v for part in (base, extras) for v in sorted(part, key=lambda v: v.order))])
    roots, kept, own = (
        lowered[a:b] for a, b in ((0, len(gradients)), (len(gradients), -len(extras)), (-len(extras), None))
    )
    beside = read_by(roots, frozenset((*kept, *own))) - frozenset(own)
    again = (n for n in topological(*own, leaves=frozenset(kept)) if n in beside and n not in kept)
    return total(scaled_cost(n, sizes) for n in again)


def _is_view(node: Expr) -> bool:
    return node.op in TENSOR_OPS and TENSOR_OPS[node.op].view


def repeated(gradients: Sequence[Expr], kept: frozenset[Expr]) -> list[Expr]:
    """The products and the like that backward computes once more where `kept` values are at hand."""
    return [n for n in read_by(gradients, kept) if n not in kept and is_product(n) and carries_data(n)]
