"""Large pointwise formulas, divided into regions of bounded size.

Within a region a partial derivative is one symbolic formula, which grows with the square of the region, and forms are
searched for the region as a whole. So a formula of many operations is divided: a `boundary` is the identity as a tensor
operation, at which a cotangent is accumulated before it goes on. It is gone from what is computed.

Where partials of whole regions would still take several times autograd's operations, for many tensors read a region or
many operations read a value, each name and each value that is shared is taken `apart`: that is reverse mode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from symgrad.accuracy.machine import machine
from symgrad.analysis.integers import is_integer
from symgrad.differentiate.modes import region_leaves, vjp
from symgrad.differentiate.symbols import cotangent
from symgrad.ir.expr import Expr, make
from symgrad.ir.order import renamed
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS

__all__ = ["Divider", "by_autograd", "multiplies"]

_LARGEST = 40  # operations of a region that is left whole: larger than any activation or loss that people write
_PIECE = 16  # operations of a part of one that is not
_LEAST = 4  # operations that a boundary is worth
_EXCESS = 2.5  # times the operations of autograd, beyond which derivatives are accumulated at every shared value
_WORTH = 24  # operations more than autograd's that are worth it
_FEW, _FEW_TENSORS = 16, 4  # operations and tensors of a formula that is searched as a whole


def multiplies(outputs: Iterable[Expr], tensors: Collection[Expr]) -> bool:
    """Whether the derivatives of whole regions take several times the operations that autograd takes."""
    outputs = list(outputs)
    forward = frozenset(topological(*machine(outputs)))
    if len(tensors) <= _FEW_TENSORS and sum(1 for n in forward if n.args and not n.is_static) <= _FEW:
        return False
    gradients = [g for k, root in enumerate(outputs) for g in vjp({root: cotangent(str(k))}, tensors).values()]
    own = [n for n in topological(*machine(gradients)) if n not in forward and n.args and not n.is_static]
    ours = sum(TENSOR_OPS[n.op].cost > 0 if n.op in TENSOR_OPS else 1 for n in own)
    theirs = by_autograd(forward, frozenset(tensors))
    return ours > _EXCESS * theirs and ours > theirs + _WORTH


def by_autograd(forward: Collection[Expr], tensors: frozenset[Expr]) -> int:
    """The operations of autograd's backward: one for each varying operand, but of sums, and one where paths meet."""
    varying: dict[Expr, int] = {}
    found = 0
    for node in sorted(forward, key=lambda n: n.size):
        own = [a for a in node.args if a in varying]
        if node in tensors or (own and not node.is_boolean):
            varying[node] = 0
            found += 0 if node.op in ("add", "sub") else len(own)
            for argument in own:
                varying[argument] += 1
    return found + sum(uses - 1 for uses in varying.values() if uses)


class Divider:
    """Divides formulas that are built of each other, one after the other, looking at each tensor operation once.

    `by_name`: there are boundaries around what is shared in a formula, around arguments of functions that are computed
    from several values, and around what is the `whole` of a name.
    """

    def __init__(self, by_name: bool = False) -> None:
        self._by_name = by_name
        self._known: set[Expr] = set()
        self.divides = False  # whether a region was too large
        self.orders: dict[Expr, tuple[Expr, ...]] = {}  # of sums, also of those with boundaries in them

    def __call__(self, root: Expr, *, whole: bool = False) -> Expr:
        """The formula with boundaries where its pointwise regions have too many operations."""
        sizes = (_PIECE, _PIECE // 2) if self._by_name else (_LARGEST, _PIECE)
        root = self._apart(root, whole) if self._by_name else root
        changed: dict[Expr, Expr] = {}
        for node in topological(root, leaves=self._known):
            if node.op in TENSOR_OPS and node not in self._known:
                new = rebuild(node, [_divided(_replaced(a, changed), *sizes) for a in node.args])
                if new is not node:
                    changed[node] = new
        result = _divided(_replaced(root, changed), *sizes)
        self.divides = self.divides or result is not root
        self._known.update(n for n in topological(result, leaves=self._known) if n.op in TENSOR_OPS)
        return result

    def _apart(self, root: Expr, whole: bool) -> Expr:
        order = topological(root, leaves=self._known)
        users = Counter(argument for node in order for argument in dict.fromkeys(node.args))
        shared = {node for node, count in users.items() if count > 1} | ({root} if whole else set())
        inner = {node.args[0] for node in order if node.op in FUNCTIONS and len(node.args) == 1}
        mapped: dict[Expr, Expr] = {}
        for node in order:
            value = node if node in self._known else rebuild(node, [mapped[a] for a in node.args])
            renamed(self.orders, node, mapped, value)
            stands = value.args and value.op not in TENSOR_OPS and _may_stand_alone(value)
            several = node in inner and len(region_leaves(value)) > 1
            mapped[node] = make("boundary", value) if stands and (several or node in shared) else value
        return mapped[root]


def _replaced(region: Expr, changed: Mapping[Expr, Expr]) -> Expr:
    """A region on tensor operations whose operands were divided."""
    leaves = region_leaves(region)
    if changed.keys().isdisjoint(leaves):
        return region
    return substitute(region, {leaf: changed.get(leaf, leaf) for leaf in leaves})


def _divided(region: Expr, largest: int, piece: int) -> Expr:
    """A region with boundaries, about as many operations as `piece` apart, if it has more than the `largest`."""
    order = topological(region, leaves=frozenset(region_leaves(region)))
    if sum(map(_weight, order)) <= largest:
        return region
    mapped: dict[Expr, Expr] = {}
    weights: dict[Expr, int] = {}  # operations of a part down to the boundaries in it; shared ones count twice
    for node in order:
        args = () if _is_leaf(node) else tuple(mapped[a] for a in node.args)
        args = _bounded(node.op, args, weights, piece)
        mapped[node] = rebuild(node, args) if args else node
        weights[mapped[node]] = _weight(node) + sum(weights.get(a, 0) for a in dict.fromkeys(args))
    return mapped[region]


def _is_leaf(node: Expr) -> bool:
    return node.op in TENSOR_OPS or node.is_static or not node.args


def _weight(node: Expr) -> int:
    return 0 if _is_leaf(node) else max(len(node.args) - 1, 1)


def _bounded(op: str, args: Sequence[Expr], weights: dict[Expr, int], piece: int) -> tuple[Expr, ...]:
    """The operands, the heaviest of them behind boundaries, so that all together are no more than a piece."""
    found = list(args)
    if op in ("add", "mul"):
        found = _grouped(op, found, weights, piece)
    while sum(weights.get(a, 0) for a in dict.fromkeys(found)) + len(found) > piece:
        candidates = [a for a in found if weights.get(a, 0) >= _LEAST and _may_stand_alone(a)]
        if not candidates:
            break
        heaviest = max(candidates, key=lambda a: weights[a])
        found = [_boundary(a, weights) if a is heaviest else a for a in found]
    return tuple(found)


def _grouped(op: str, args: list[Expr], weights: dict[Expr, int], piece: int) -> list[Expr]:
    """The operands of a long sum or product, in groups behind boundaries; a number stays where it is."""
    while len(args) > piece:
        groups: list[Expr] = []
        for start in range(0, len(args), piece // 2):
            some = args[start : start + piece // 2]
            numbers = [a for a in some if a.is_static]
            tensors = [a for a in some if not a.is_static]
            tensors = list(_bounded("", tensors, weights, piece))
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
