"""Matching expressions against patterns, modulo the order of operands in sums and products.

A pattern is an expression whose wildcards are symbols of kind `wild`; a wildcard matches any expression that its guard
admits. At the root a sum or product may match a part of the operands; the rest is returned beside the bindings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make

Bindings = Mapping[Expr, Expr]

_MOST_OPERANDS = 80  # of a sum or product: pairs of operands are tried, and longer ones are left alone
_COMMUTATIVE = {"add": ex.add, "mul": ex.mul}


def wild(name: str) -> Expr:
    """A wildcard that matches any expression."""
    return make("sym", name=name, kind="wild")


def is_wild(node: Expr) -> bool:
    return node.op == "sym" and node["kind"] == "wild"


def match(pattern: Expr, node: Expr, bindings: Bindings) -> Iterator[Bindings]:
    """All ways to bind the pattern's wildcards so that it equals `node`."""
    if is_wild(pattern):
        bound = bindings.get(pattern)
        if bound is None:
            yield {**bindings, pattern: node}
        elif bound is node:
            yield bindings
    elif pattern is node:
        yield bindings
    elif pattern.op == "mul" and pattern.args[0].op == "num":
        yield from _match_scaled(pattern, node, bindings)
    elif pattern.op == node.op and pattern.attrs == node.attrs and pattern.args:
        if pattern.op in _COMMUTATIVE:
            yield from _match_operands(pattern, node, bindings)
        elif len(pattern.args) == len(node.args):
            yield from _match_all(pattern.args, node.args, bindings)


def _match_operands(pattern: Expr, node: Expr, bindings: Bindings) -> Iterator[Bindings]:
    """All operands of a sum or product; where there are more than in the pattern, one wildcard binds several."""
    if len(pattern.args) == len(node.args):
        for found, rest in _match_subset(node.op, pattern.args, node.args, bindings):
            if not rest:
                yield found
        return
    absorbing = next((p for p in reversed(pattern.args) if is_wild(p) and p not in bindings), None)
    if absorbing is None or len(pattern.args) > len(node.args):
        return
    others = tuple(p for p in pattern.args if p is not absorbing)
    for found, rest in _match_subset(node.op, others, node.args, bindings):
        if absorbing not in found:
            yield {**found, absorbing: _COMMUTATIVE[node.op](*rest)}


def _match_scaled(pattern: Expr, node: Expr, bindings: Bindings) -> Iterator[Bindings]:
    """c * p matches c' * q as p matches (c' / c) * q: the coefficient moves into the wildcard."""
    factor, rest = ex.split_coefficient(pattern)
    if is_wild(rest):
        yield from match(rest, ex.mul(1 / factor, node), bindings)
        return
    other, remaining = ex.split_coefficient(node)
    if other == factor:
        yield from match(rest, remaining, bindings)


def _match_all(patterns: tuple[Expr, ...], nodes: tuple[Expr, ...], bindings: Bindings) -> Iterator[Bindings]:
    if not patterns:
        yield bindings
        return
    for found in match(patterns[0], nodes[0], bindings):
        yield from _match_all(patterns[1:], nodes[1:], found)


def _match_subset(
    op: str, patterns: tuple[Expr, ...], nodes: tuple[Expr, ...], bindings: Bindings
) -> Iterator[tuple[Bindings, tuple[Expr, ...]]]:
    """Match each pattern with a different operand of `op`, the most specific patterns first; yields those left over."""
    if not patterns:
        yield bindings, nodes
        return
    if len(nodes) > _MOST_OPERANDS:
        return
    first = max(range(len(patterns)), key=lambda i: (not is_wild(patterns[i]), patterns[i].size))
    others = patterns[:first] + patterns[first + 1 :]
    for i, node in enumerate(nodes):
        rest = nodes[:i] + nodes[i + 1 :]
        for found in match(patterns[first], node, bindings):
            yield from _match_subset(op, others, rest, found)
        parts = _power_within(patterns[first], node) if op == "mul" else None  # of a sum they would be two terms
        if parts is not None:
            for found in match(patterns[first], parts[0], bindings):
                yield from _match_subset(op, others, (*rest, parts[1]), found)


def _power_within(pattern: Expr, node: Expr) -> tuple[Expr, Expr] | None:
    """`node` as the power of its base that the pattern wants, times a power that is left over."""
    if is_wild(pattern) or node.op != "pow" or pattern.op in ("num", "add"):
        return None
    wanted, given = (ex.split_power(e)[1].number for e in (pattern, node))
    if wanted is None or given is None or not abs(wanted) < abs(given) or wanted * given < 0:
        return None
    base = node.args[0]
    return ex.make_power(base, ex.num(wanted)), ex.make_power(base, ex.num(given - wanted))


def match_root(pattern: Expr, node: Expr) -> Iterator[tuple[Bindings, Expr | None]]:
    """Matches at the root of `node`; for a sum or product also of a part, with what is left over."""
    combine = _COMMUTATIVE.get(pattern.op)
    if combine is None or node.op != pattern.op or len(node.args) <= len(pattern.args):
        if combine is ex.mul and pattern.args[0].op == "num":
            return
        for found in match(pattern, node, {}):
            yield found, None
        return
    for found, rest in _match_subset(node.op, pattern.args, node.args, {}):
        yield found, combine(*rest)
