"""Walks over an expression: in topological order, rebuilt from the bottom up, with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar, cast

from symgrad.ir.expr import COMPARISONS, LOGICAL, Expr, add, make, mul, power
from symgrad.ir.truth import compare, logical, where

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
    seen: set[Expr] = set()
    stack: list[tuple[Expr, Iterator[Expr]]] = []
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        stack.append((root, iter(() if root in leaves else root.args)))
        while stack:
            node, children = stack[-1]
            child = next((c for c in children if c not in seen), None)
            if child is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(child)
                stack.append((child, iter(() if child in leaves else child.args)))
    return order


def remembered(root: Expr, key: str, compute: Callable[[Expr], T]) -> T:
    """`compute(root)`, which may ask the same of the arguments of its node: once a node, and without deep recursion."""
    pending = [root] if key not in root.__dict__ else []
    while pending:
        node = pending[-1]
        below = [a for a in node.args if key not in a.__dict__] if key not in node.__dict__ else []
        if below:
            pending += below
            continue
        pending.pop()
        if key not in node.__dict__:
            node.__dict__[key] = compute(node)
    return cast(T, root.__dict__[key])


def transform(root: Expr, visit: Callable[[Expr], Expr]) -> Expr:
    """Rebuild bottom-up: `visit` maps each node, whose arguments are already mapped, to its replacement."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(root):
        mapped[node] = visit(rebuild(node, (mapped[a] for a in node.args)))
    return mapped[root]


def substitute(root: Expr, replacements: Mapping[Expr, Expr]) -> Expr:
    """`root` with whole subexpressions replaced; replaced ones are not searched further."""
    keys = frozenset(replacements)
    mapped: dict[Expr, Expr] = {}
    for node in topological(root, leaves=keys):
        replaced = replacements.get(node)
        mapped[node] = replaced if replaced is not None else rebuild(node, (mapped[a] for a in node.args))
    return mapped[root]
