"""Which formulas of integers have integers as values, as torch's promotion of dtypes has it."""

from __future__ import annotations

from symgrad.expr import COMPARISONS, LOGICAL, Expr
from symgrad.tensor_ops import TENSOR_OPS, data_arguments, is_index
from symgrad.traversal import topological

__all__ = ["is_integer"]

_INTEGER_KINDS = frozenset({"int_tensor", "bool_tensor", "int", "bool"})
_KEEP = frozenset(
    [
        *("add", "mul", "neg", "where", "abs", "sign", "relu", "clamp", "maximum", "minimum", "floor", "ceil", "round"),
        *("sum", "prod", "amax", "amin", "max_values", "min_values", "sort_values", "cumsum", "matmul", "einsum"),
        *("transpose", "T", "mT", "unsqueeze", "squeeze", "expand"),
    ]
)


def is_integer(root: Expr) -> bool:
    """Whether a value of tensors is an integer: made of integers by operations that keep them so."""
    found: dict[Expr, bool] = {}
    for node in topological(root):
        found[node] = _is_integer(node, found)
    return bool(root.tensors) and found[root]


def _is_integer(node: Expr, found: dict[Expr, bool]) -> bool:
    if node.op == "sym":
        return node["kind"] in _INTEGER_KINDS
    if node.number is not None:
        return node.number.denominator == 1
    if node.op == "pow":
        exponent = node.args[1].number
        return found[node.args[0]] and exponent is not None and exponent > 0 and found[node.args[1]]
    if is_index(node):
        return True
    if node.op in COMPARISONS or node.op in LOGICAL:
        return all(found[a] for a in node.args)
    return node.op in _KEEP and all(found[a] for a in _promoted(node))


def _promoted(node: Expr) -> tuple[Expr, ...]:
    """The arguments from which the dtype is promoted: a number has that of the tensor whose shape it gets."""
    if node.op in TENSOR_OPS and node.op != "expand":
        return data_arguments(node)
    return node.args[1:] if node.op == "where" and node.args[1].tensors | node.args[2].tensors else node.args
