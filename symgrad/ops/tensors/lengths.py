"""Sizes of values as numbers that are calculated of the sizes of the tensors that are given."""

from __future__ import annotations

from symgrad.ir.expr import ONE, Expr, add, make
from symgrad.ir.traversal import topological
from symgrad.ops.tensors.extent import extent
from symgrad.ops.tensors.row import TENSOR_OPS, is_number

_CUT = frozenset({"between", "place", "slice", "chunk"})


def length(x: Expr, dim: int) -> Expr:
    """The size of a dimension: of a value the sum or difference of those that it is made of, where that is known."""
    known = _length(x, dim)
    return make("count", x, dim=(dim,)) if known is None else known


def known_length(x: Expr, dim: int) -> Expr | None:
    """The same where only tensors that are given have to be asked; None elsewhere."""
    found = _length(x, dim)
    counted = [] if found is None else [n.args[0] for n in topological(found) if n.op == "count"]
    return found if all(of.op == "sym" for of in counted) else None


def _length(x: Expr, dim: int) -> Expr | None:
    dim = _from_end(x, dim)
    if x.op == "sym":
        return make("count", x, dim=(dim,))
    along = _from_end(x, x["dim"]) if x.op in _CUT or x.op == "cat" else dim
    if (along < 0) != (dim < 0):
        return None
    if x.op in _CUT and along == dim:
        bounds = x.args[1:]
        if x.op == "between" and not any(_may_be_negative(b) for b in bounds):
            return bounds[1] - bounds[0]
        return ONE if x.op == "place" else None
    if x.op == "cat" and along == dim:
        lengths = [_length(a, dim) for a in x.args]
        return None if None in lengths else add(*(n for n in lengths if n is not None))
    if x.op in _CUT or x.op == "cat":
        return _length(x.args[0], dim)
    if x.op == "unflatten" and x["dim"] == -1 and -len(x.args) < dim < 0:
        return x.args[dim] if x.args[dim].number != -1 else None
    row = TENSOR_OPS.get(x.op)
    if row is not None:
        return None if row.shape_of is None else _length(x.args[row.shape_of], dim)
    return _of_operands(x, dim)


def _from_end(x: Expr, dim: int) -> int:
    """A dimension from the end, where the number of them is known."""
    known = extent(x)
    return dim - len(known.dims) if known.exact and dim >= 0 else dim


def _of_operands(x: Expr, dim: int) -> Expr | None:
    """The size of a pointwise operation: that of its only operand, or of one that has the dimension by its name."""
    operands = [a for a in x.args if not is_number(a)]
    if len(operands) == 1:
        return _length(operands[0], dim)
    own = extent(x).dims
    named = own[dim] if -len(own) <= dim < 0 and isinstance(own[dim], str) else None
    same = [a for a in operands if named and -len(extent(a).dims) <= dim and extent(a).dims[dim] == named]
    return _length(same[0], dim) if same else None


def _may_be_negative(bound: Expr) -> bool:
    return any(n.get("kind") == "int" or n.op == "where" for n in topological(bound)) or (
        bound.number is not None and bound.number < 0
    )


def stand_in(x: Expr) -> Expr:
    """A tensor that has surely the shape of a value that is cut and joined of it alone, else the value itself."""
    order = topological(x, leaves=frozenset(n for n in topological(x) if n.op == "count"))
    tensors = [n for n in order if n.op == "sym" and not n.is_static]
    moved = [n for n in order if n.op in _CUT or n.op == "cat"]
    plain = all(n.op not in TENSOR_OPS or n in moved or n.op == "count" for n in order)
    if len(tensors) != 1 or not plain or any(known_length(x, d) is not _length(tensors[0], d) for d in _dims(moved)):
        return x
    return tensors[0]


def _dims(moved: list[Expr]) -> set[int]:
    return {node["dim"] for node in moved}
