"""Which formulas of integers have integers as values, as torch's promotion of dtypes has it."""

from __future__ import annotations

from symgrad.ir.expr import ONE, ZERO, Expr
from symgrad.ir.traversal import PerNode, topological
from symgrad.ops.tensors import TENSOR_OPS, data_arguments, is_index, is_number, typed_arguments

__all__ = ["WHOLE", "holds_integers", "is_integer", "is_of_truths", "is_whole_tensor", "is_whole_valued"]

_INTEGER_KINDS = frozenset({"int_tensor", "bool_tensor", "int", "bool"})
# Element-wise functions of integers that are integers.
WHOLE = frozenset(
    [
        *("add", "sub", "mul", "neg", "abs", "sign", "relu", "clamp", "maximum", "minimum", "floor", "ceil", "round"),
        *("remainder", "fmod"),
    ]
)


def is_integer(root: Expr) -> bool:
    """Whether a value of tensors is an integer: made of integers by operations that keep them so.

    A choice between numbers by the values of a float tensor is of the type of that tensor.
    """
    return bool(root.tensors) and _is_integer(root)


def is_whole_tensor(value: Expr) -> bool:
    """Whether torch has a value of declared integers as a tensor of integers."""
    return any(t["kind"] == "int_tensor" for t in value.tensors) and is_integer(value)


def is_whole_valued(value: Expr) -> bool:
    """Whether all elements are whole numbers, of whatever type: a count of those of a float tensor, too."""
    return bool(value.tensors) and _is_whole_valued(value)


@PerNode
def _is_whole_valued(node: Expr) -> bool:
    if node.op == "where":
        return all(map(_is_whole_valued, node.args[1:]))
    if node.op in ("floor", "ceil", "round"):
        return True
    if node.op == "expand" or node.op in WHOLE or (node.op in TENSOR_OPS and TENSOR_OPS[node.op].whole):
        return all(map(_is_whole_valued, data_arguments(node)))
    return _is_integer(node)


def is_of_truths(value: Expr) -> bool:
    """Whether all elements are truth values, as 1 and 0: those of a mask that has another shape or order."""
    pending, seen = [value], {value}
    while pending:
        node = pending.pop()
        if node.is_boolean or (node.op == "where" and node.args[1:] == (ONE, ZERO)):
            continue
        row = TENSOR_OPS.get(node.op)
        if row is None or not (row.exact or row.cost == 0):
            return False
        moved = [a for k, a in enumerate(node.args) if k not in row.integer and a in data_arguments(node)]
        read = [a for a in moved if not is_number(a)]
        if not read and not (moved and set(moved) <= {ONE, ZERO}):  # as of ones(N, N)
            return False
        pending += [a for a in read if a not in seen]
        seen.update(read)
    return True


def holds_integers(value: Expr) -> bool:
    """Whether a value is made of declared integers themselves; a choice between numbers by some is of any type."""
    if not is_whole_tensor(value):
        return False
    data = topological(value, leaves=frozenset(n for n in topological(value) if n.is_boolean))
    return any(n.op == "sym" and n["kind"] == "int_tensor" for n in data)


@PerNode
def _is_integer(node: Expr) -> bool:
    if node.op == "sym":
        return node["kind"] in _INTEGER_KINDS
    if node.number is not None:
        return node.integer is not None
    if node.op == "pow":
        exponent = node.args[1].number
        return _is_integer(node.args[0]) and exponent is not None and exponent > 0 and _is_integer(node.args[1])
    if is_index(node):
        return True
    if node.op == "where":
        condition, *branches = node.args
        typed = [t for b in branches for t in b.tensors] or condition.tensors
        return all(t["kind"] in _INTEGER_KINDS for t in typed) and all(map(_is_integer, branches))
    # A number in the shape of a tensor is of that tensor's type.
    read = typed_arguments(node) if node.op in TENSOR_OPS and node.op != "expand" else node.args
    keeps = TENSOR_OPS[node.op].whole if node.op in TENSOR_OPS else node.op in WHOLE
    return keeps and all(map(_is_integer, read))
