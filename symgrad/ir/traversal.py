"""Walks over an expression: in topological order, rebuilt from the bottom up, with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, update_wrapper
from typing import Generic, ParamSpec, TypeVar, cast

from symgrad.ir.expr import COMPARISONS, LOGICAL, Expr, add, make, mul, power
from symgrad.ir.truth import compare, logical, where

P = ParamSpec("P")
T = TypeVar("T")

_REBUILD: dict[str, Callable[..., Expr]] = {"add": add, "mul": mul, "pow": power, "where": where}


def rebuild(node: Expr, args: Iterable[Expr]) -> Expr:
    """The node's operation on new arguments, through its normalising constructor."""
    args = tuple(args)
    if args == node.args:
        return node
    if node.op in _REBUILD:
        return _REBUILD[node.op](*args)
    if node.op in COMPARISONS:
        return compare(node.op, *args)
    if node.op in LOGICAL:
        return logical(node.op, *args)
    return make(node.op, *args, **dict(node.attrs))


def topological(*roots: Expr, leaves: Collection[Expr] = frozenset()) -> list[Expr]:
    """All nodes below the roots, arguments before users, each once; does not look below `leaves`."""
    order: list[Expr] = []
    seen: set[int] = set()  # of identities: to ask a node for its hash takes as long as all the rest
    see, count = seen.add, 0
    stack: list[Expr | None] = [*reversed(roots)]  # None stands before a node whose arguments have been visited
    pop = stack.pop
    while stack:
        node = pop()
        if node is None:
            order.append(cast("Expr", pop()))
            continue
        see(id(node))
        if len(seen) > count:  # for the first time
            count += 1
            if not node.args or (leaves and node in leaves):
                order.append(node)
            else:
                stack += (node, None)
                stack += node.args[::-1]
    return order


_FORGET: list[Callable[[], None]] = []


class PerNode(Generic[T]):
    """A function of a node that may ask the same of the node's arguments: computed once a node, without deep recursion.

    What was found belongs to the function, and is kept until `forget_nodes`.
    """

    def __init__(self, compute: Callable[[Expr], T]) -> None:
        self._compute = compute
        self._found: dict[Expr, T] = {}
        _FORGET.append(self._found.clear)
        update_wrapper(self, compute)

    def __call__(self, root: Expr) -> T:
        found = self._found
        pending = [] if root in found else [root]
        while pending:
            node = pending[-1]
            below = [] if node in found else [a for a in node.args if a not in found]
            if below:
                pending += below
                continue
            pending.pop()
            if node not in found:
                found[node] = self._compute(node)
        return found[root]


@PerNode
def operations(node: Expr) -> frozenset[str]:
    """The names of all operations of an expression."""
    below = [operations(a) for a in node.args]
    largest: frozenset[str] = max(below, key=len, default=frozenset())
    found = largest.union((node.op,), *(own for own in below if own is not largest))
    return largest if len(found) == len(largest) else found


def kept(compute: Callable[P, T]) -> Callable[P, T]:
    """A function of nodes alone, whose results are kept until `forget_nodes`."""
    cached = cache(compute)
    _FORGET.append(cached.cache_clear)
    return cast("Callable[P, T]", cached)


def forget_nodes() -> None:
    """Drop what functions of nodes have found, and with it the nodes that nothing else needs."""
    for forget in _FORGET:
        forget()


def transform(root: Expr, visit: Callable[[Expr], Expr]) -> Expr:
    """Rebuild bottom-up: `visit` maps each node, whose arguments are already mapped, to its replacement."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(root):
        mapped[node] = visit(rebuild(node, (mapped[a] for a in node.args)))
    return mapped[root]


def substitute(root: Expr, replacements: Mapping[Expr, Expr]) -> Expr:
    """`root` with whole subexpressions replaced; replaced ones are not searched further."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(root, leaves=replacements):
        replaced = replacements.get(node)
        mapped[node] = replaced if replaced is not None else rebuild(node, (mapped[a] for a in node.args))
    return mapped[root]
