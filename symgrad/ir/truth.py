"""Truth values: comparisons, logical operations and choices, with constants folded."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from symgrad.ir.expr import FALSE, ONE, TRUE, ZERO, Expr, Scalar, as_expr, make, split_coefficient

NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def compare(op: str, left: Scalar, right: Scalar) -> Expr:
    """A comparison, decided where both sides are rational or text constants, or the same whatever they are.

    What depends on no tensor comes second. Whether a multiple of a value is zero is asked of the value, and whether a
    truth value is, of the condition.
    """
    left, right = as_expr(left), as_expr(right)
    if left.op == right.op and left.op in ("num", "text"):
        return TRUE if getattr(operator, op)(left["value"], right["value"]) else FALSE
    if left is right and (op in ("lt", "gt") or not _may_be_nan(left)):
        return TRUE if op in ("le", "ge", "eq") else FALSE
    if (left.op == "num" and right.op != "num") or (left.is_static and not right.is_static):
        return compare(MIRRORED[op], right, left)
    if op in ("eq", "ne") and right is ZERO and left.op == "mul":
        _, left = split_coefficient(left)
    if op in ("eq", "ne") and right is ZERO and left.op == "where" and left.args[1:] == (ONE, ZERO):
        return left.args[0] if op == "ne" else logical("not", left.args[0])
    return make(op, left, right)


def _may_be_nan(value: Expr) -> bool:
    """Whether a value may be unequal to itself: `where(x == x, x, 0)` asks just that."""
    return any(s["kind"] not in ("int_tensor", "bool_tensor") for s in value.tensors)


def logical(op: str, *args: Expr) -> Expr:
    """Conjunction (`and`), disjunction (`or`) or negation (`not`), with constants folded."""
    if op == "not":
        (arg,) = args
        if arg in (TRUE, FALSE):
            return FALSE if arg is TRUE else TRUE
        if arg.op == "not":
            return arg.args[0]
        return make("not", arg)
    neutral, absorbing = (TRUE, FALSE) if op == "and" else (FALSE, TRUE)
    parts: dict[Expr, None] = {}
    for arg in args:
        for part in arg.args if arg.op == op else (arg,):
            parts[part] = None
    parts.pop(neutral, None)
    if absorbing in parts:
        return absorbing
    if not parts:
        return neutral
    kept = _deciding(op, parts)
    return kept[0] if len(kept) == 1 else make(op, *kept)


def exclusive(first: Expr, *others: Expr) -> Expr:
    """Whether an odd number of conditions holds."""
    for other in others:
        both = logical("and", first, other)
        first = logical("and", logical("or", first, other), logical("not", both))
    return first


def _deciding(op: str, parts: Iterable[Expr]) -> list[Expr]:
    """The parts without those that another one implies: `x < 1 or x < 2` is `x < 2`."""
    kept: dict[Any, Expr] = {}
    for part in parts:
        bound = part.args[1].number if part.op in ("lt", "le", "gt", "ge") else None
        key: Any = part if bound is None else (part.op, part.args[0])
        other = kept.setdefault(key, part)
        if bound is not None and (bound < other.args[1]["value"]) is ((op == "and") is (part.op in ("lt", "le"))):
            kept[key] = part
    return list(kept.values())


def as_number(value: Expr) -> Expr:
    """The value as a number: a truth value counts as 1 or 0."""
    return where(value, ONE, ZERO) if value.is_boolean else value


def where(condition: Expr, then: Scalar, otherwise: Scalar) -> Expr:
    """`then` where the condition holds, `otherwise` elsewhere."""
    then, otherwise = as_expr(then), as_expr(otherwise)
    if condition is TRUE or then is otherwise:
        return then
    if condition is FALSE:
        return otherwise
    if condition.op == "not":
        return where(condition.args[0], otherwise, then)
    if condition.op == "and" and all(part.op == "not" for part in condition.args):
        return where(logical("or", *(part.args[0] for part in condition.args)), otherwise, then)
    if then.op == "where" and then.args[0] is condition:
        then = then.args[1]
    if otherwise.op == "where" and otherwise.args[0] is condition:
        otherwise = otherwise.args[2]
    return then if then is otherwise else make("where", condition, then, otherwise)
