"""What declared domains decide: conditions, and functions with a kink, of a variable that lies on one side of it."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.expr import COMPARISONS, FALSE, MINUS_ONE, ONE, TRUE, Expr, rebuild, topological
from symgrad.spec.interval import Interval

__all__ = ["within_domains"]


def within_domains(root: Expr, domains: Mapping[Expr, Interval]) -> Expr:
    """`root` for variables inside their domains: `x == 0` is false and `abs(x)` is x where x is positive."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(root):
        rebuilt = rebuild(node, (mapped[a] for a in node.args))
        mapped[node] = _decided(rebuilt, domains)
    return mapped[root]


def _decided(node: Expr, domains: Mapping[Expr, Interval]) -> Expr:
    if not node.args or node.args[0] not in domains:
        return node
    x, domain = node.args[0], domains[node.args[0]]
    if node.op in COMPARISONS and node.args[1].number is not None:
        return _compared(node, float(node.args[1].number), domain)
    if node.op in _BY_SIGN and domain.lower >= 0 and not (domain.lower == 0 and not domain.lower_open):
        return _BY_SIGN[node.op][0] or x
    if node.op in _BY_SIGN and domain.upper <= 0 and not (domain.upper == 0 and not domain.upper_open):
        return _BY_SIGN[node.op][1] or -x
    return node


# For a positive and for a negative variable; None stands for its size.
_BY_SIGN: dict[str, tuple[Expr | None, Expr | None]] = {"abs": (None, None), "sign": (ONE, MINUS_ONE)}


def _compared(node: Expr, bound: float, domain: Interval) -> Expr:
    """A comparison of a variable with a number."""
    above = domain.lower > bound or (domain.lower == bound and domain.lower_open)
    below = domain.upper < bound or (domain.upper == bound and domain.upper_open)
    if not above and not below:
        return node
    return TRUE if node.op in ("ne", "gt" if above else "lt", "ge" if above else "le") else FALSE
