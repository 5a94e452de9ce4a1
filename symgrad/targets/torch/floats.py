"""Tensors of which torch makes floats in a formula as it is written, and not in the functions that stand in its place.

`log(1 + exp(x))` is a float for a tensor of integers, and softplus refuses one; `1 / (1 + exp(x))` is one for unsigned
integers, of which `sigmoid(-x)` negates. What is declared as integers is known when the code is written; other tensors
are asked at the call.
"""

from __future__ import annotations

from collections.abc import Collection

from symgrad.analysis.integers import is_integer
from symgrad.compiler.operation import Operation
from symgrad.ir.expr import Expr, symbol
from symgrad.ir.traversal import substitute, topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.targets.torch.dtypes import is_choice_of_numbers, is_whole

__all__ = ["read_as_floats"]

_REDUCTIONS = frozenset({"softmax", "log_softmax", "norm"})


def read_as_floats(operation: Operation) -> list[tuple[str, ...]]:
    """Names of tensors of which one at least must be a float for a function that no formula of the spec names, or for
    what no formula calculates with whole numbers."""
    program = operation.program
    present = frozenset(topological(*program.outputs.values()))
    named = {node.op for node in present}
    asked = {program.symbols[t.name] for t in program.spec.tensors if t.default is None and t.dtype == "float"}
    groups = (
        tuple(sorted(s.name for s in tensors))
        for _, variant in operation.variants()
        for node in topological(*variant.outputs.values())
        if (tensors := _calculated(node, present) or (_whole_tensors(node) if node.op not in named else frozenset()))
        and tensors <= asked
    )
    return sorted(dict.fromkeys(groups))


def _whole_tensors(node: Expr) -> frozenset[Expr]:
    """The tensors that a function of floats reads, where its operands are whole if these are; else none."""
    if not (node.op in _REDUCTIONS or (node.op in FUNCTIONS and FUNCTIONS[node.op].of_floats)):
        return frozenset()
    operands = [a for a in node.args if not a.is_static]
    return node.tensors if all(map(_may_be_whole, operands)) else frozenset()


def _calculated(node: Expr, present: Collection[Expr]) -> frozenset[Expr]:
    """The tensors of a function that makes floats of whole numbers that are calculated for it alone, or of the
    condition of a choice between numbers that are not whole."""
    if is_choice_of_numbers(node):
        return frozenset() if all(map(is_whole, node.args[1:])) else node.tensors
    operands = [a for a in node.args if not a.is_static]
    new = node.op in FUNCTIONS and any(a.args and a not in present for a in operands)
    return node.tensors if new and all(map(_may_be_whole, operands)) and not _may_be_whole(node) else frozenset()


def _may_be_whole(value: Expr) -> bool:
    whole = {s: symbol(s.name, "int_tensor") for s in value.tensors}
    return is_integer(substitute(value, whole))
