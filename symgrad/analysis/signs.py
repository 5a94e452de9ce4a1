"""What signs of values follow from signs of others and from declared domains, and who reads more than a sign."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.ir import expr as ex
from symgrad.ir.expr import ZERO, Expr
from symgrad.ir.traversal import topological
from symgrad.spec.interval import Interval

__all__ = ["measured", "positive", "same_sign"]

Domains = Mapping[Expr, Interval]

# Functions that are positive everywhere, and that are numbers and have the sign of their argument everywhere.
_POSITIVE = frozenset({"exp", "sigmoid", "softplus", "cosh", "erfc", "erfcx"})
_ODD = frozenset({"expm1", "sinh", "tanh", "asinh", "atan", "erf", "sign"})
_CONSTANTS = {"pi", "E", "EulerGamma", "GoldenRatio", "Catalan"}


def positive(node: Expr, domains: Domains) -> bool:
    """Whether a value is surely greater than 0."""
    if node.number is not None:
        return node.number > 0
    if node in domains:
        low = domains[node]
        return low.lower > 0 or (low.lower == 0 and low.lower_open)
    if node.op in _POSITIVE:
        return True
    if node.op == "const":
        return node["name"] in _CONSTANTS
    if node.op == "pow":
        return positive(node.args[0], domains)
    if node.op in ("add", "mul"):
        return all(positive(a, domains) for a in node.args)
    return False


def same_sign(node: Expr, domains: Domains) -> Expr:
    """The simplest value found that is positive, zero, negative or no number wherever `node` is."""
    while True:
        if node.op == "mul":
            factors = [f for f in node.args if not positive(f, domains)]
            negative = sum(f.number is not None for f in factors)  # a number that is not positive: -1 keeps its sign
            rest = [same_sign(f, domains) for f in factors if f.number is None]
            found = ex.mul(*([-1] * negative), *rest)
        elif node.op in _ODD or (node.op == "pow" and _is_odd(node.args[1])):
            found = node.args[0]
        else:
            return node
        if found is node or found.number is not None:
            return node
        node = found


def _is_odd(exponent: Expr) -> bool:
    n = exponent.integer
    return n is not None and n > 0 and n % 2 == 1


def measured(value: Expr, leaves: frozenset[Expr]) -> frozenset[Expr]:
    """The leaves that a value is made of by more than their signs, which rounding keeps.

    Of what a condition compares with zero the sign alone is asked.
    """
    nodes = topological(value, leaves=leaves)
    signs = {n for n in nodes if n.is_boolean and ZERO in n.args}
    return frozenset(a for n in nodes if n not in signs and n not in leaves for a in n.args if a in leaves)
