"""The dtype that torch gives to a formula: values without dimensions do not count beside those that have some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from symgrad.expr import Expr
from symgrad.shapes import extent
from symgrad.tensor_ops import TENSOR_OPS, data_arguments, is_index
from symgrad.tensor_ops.extent import SCALAR


@dataclass(frozen=True)
class Total:
    """A value without dimensions, whatever those of the operands that it is reduced from."""

    of: Operands


Operands: TypeAlias = "frozenset[Expr | Total]"


def promoted(root: Expr) -> Operands:
    """What the dtype of a formula is promoted from: tensors, and totals of tensors."""
    operands = _operands(root)
    if _is_total(operands):
        (only,) = operands
        assert isinstance(only, Total)
        return only.of
    tensors = _flat(operands)
    return operands if len(tensors) > 1 else tensors


def _operands(root: Expr) -> Operands:
    found: set[Expr | Total] = set()
    seen: set[Expr] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in seen or node.is_boolean or node.is_static:
            continue
        seen.add(node)
        if node.op == "sym":
            found.add(node)
        elif is_index(node):
            continue  # integers leave the dtype to others
        elif node.op in TENSOR_OPS:
            # What cancelled out of a formula still has a part in its dtype.
            read = node.args if node.op == "expand" else data_arguments(node)
            inner = frozenset[Expr | Total]().union(*map(_operands, read))
            found |= {Total(inner)} if inner and extent(node) == SCALAR and not _is_total(inner) else inner
        elif node.op == "where" and all(a.is_static for a in node.args[1:]):
            found |= {s for s in node.args[0].tensors if s["kind"] == "tensor"}  # numbers, as the condition's operands
        else:
            stack += node.args[1:] if node.op == "where" else node.args
    return frozenset(found)


def _flat(operands: Operands) -> frozenset[Expr]:
    """All tensors, also those in totals."""
    parts = (_flat(o.of) if isinstance(o, Total) else frozenset({o}) for o in operands)
    return frozenset[Expr]().union(*parts)


def _is_total(operands: Operands) -> bool:
    return len(operands) == 1 and all(isinstance(o, Total) for o in operands)


def printed(operands: Operands, names: Mapping[Expr, str]) -> str:
    """The dtype as source."""
    alone = _alone(operands)
    if len(alone) == 2:
        return f"torch.promote_types({', '.join(f'{names[t]}.dtype' for t in sorted(alone, key=names.__getitem__))})"
    texts = sorted(_operand(o, names) for o in operands)
    return f"_result_dtype({', '.join(texts)})"


def _alone(operands: Operands) -> frozenset[Expr]:
    """The tensors whose dtypes decide alone: there are none but totals, of each of these and perhaps of several."""
    totals = [o.of for o in operands if isinstance(o, Total)]
    alone = frozenset(t for of in totals if len(of) == 1 for t in of if isinstance(t, Expr))
    return alone if len(totals) == len(operands) and all(of <= alone for of in totals) else frozenset()


def _operand(operand: Expr | Total, names: Mapping[Expr, str]) -> str:
    if isinstance(operand, Total):
        return f"torch.empty((), dtype={printed(operand.of, names)})"
    return names[operand]


def cancelled_cast(formula: Expr, names: Mapping[Expr, str]) -> str:
    """The cast of a result, of which a part has cancelled out, to the dtype that it has with that part."""
    operands = promoted(formula) if formula.op == "expand" else frozenset()
    return f".to({printed(operands, names)})" if len(operands) > 1 else ""
