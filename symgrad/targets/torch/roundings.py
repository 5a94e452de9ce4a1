"""How often torch rounds in half precision: an operation that rounds once needs no wider type."""

from __future__ import annotations

from fractions import Fraction

from symgrad.accuracy.cost import is_product
from symgrad.accuracy.machine import machine
from symgrad.ir.expr import OO, Expr
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS

# Powers that torch rounds once; others are products of rounded products.
_ONE_ROUNDING = (Fraction(2), Fraction(-1), Fraction(1, 2), Fraction(-1, 2))

# Operations that do not round: applied to half precision they need no wider type.
_EXACT = frozenset({"relu", "where", "abs", "neg", "sign", "clamp", "maximum", "minimum", "floor", "ceil", "round"})

_INTEGERS = 256  # in bfloat16


def roundings(form: Expr, at_hand: frozenset[Expr] = frozenset()) -> int:
    """How many operations of a form round, beside those whose values are at hand."""
    lowered, *known = machine([form, *at_hand])
    leaves = frozenset(known)
    return sum(
        2 if _rounds_inside(n) else 1
        for n in topological(lowered, leaves=leaves)
        if n not in leaves and n.args and not n.is_static and not n.is_boolean and not _is_exact(n)
    )


def _rounds_inside(node: Expr) -> bool:
    """Whether torch's operation on half precision rounds more than its result."""
    if node.op == "pow":
        return node.args[1].number not in _ONE_ROUNDING
    if node.op in FUNCTIONS:
        return not FUNCTIONS[node.op].in_half
    row = TENSOR_OPS.get(node.op)
    return (row is not None and row.rounds_inside) or (node.op == "einsum" and len(node.args) > 2)


def _is_narrow(scalar: Expr) -> bool:
    """Whether a Python number is surely one of half precision, too, so that torch does not round it."""
    n = scalar.number
    if n is None:
        return scalar in (OO, -OO)
    return max(abs(n.numerator), n.denominator) <= _INTEGERS and n.denominator & (n.denominator - 1) == 0


def _is_exact(node: Expr) -> bool:
    """Multiplication by a power of two, and operations that only move elements; a sum of products rounds them first.

    A fraction of an integer is a float in torch, and wider than half precision.
    """
    if node.op in _EXACT:
        return all(a.is_boolean or _is_narrow(a) for a in node.args if a.is_static)
    if node.op == "sum_to" and is_product(node.args[0]):
        return False
    row = TENSOR_OPS.get(node.op)
    if row is not None and (row.exact or row.cost == 0):
        return True
    if node.op != "mul":
        return False
    factor = node.args[0].number
    if factor is None or (factor.denominator != 1 and any(t["kind"] == "int_tensor" for t in node.tensors)):
        return False
    return abs(factor.numerator) & (abs(factor.numerator) - 1) == 0
