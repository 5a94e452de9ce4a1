"""What depends on the order of elements: the largest so far, the largest few, medians; and questions of all."""

from __future__ import annotations

from typing import Any

from symgrad.ir.expr import HALF, ONE, ZERO, Expr, make, power
from symgrad.ir.truth import compare, where
from symgrad.ops.tensors.along import PICKS_ONE, PICKS_SEVERAL, fields, indices
from symgrad.ops.tensors.extent import Extent, ShapeConflict, along, place_along, reduced, unknown
from symgrad.ops.tensors.reductions import DIMS, total, var
from symgrad.ops.tensors.row import DIM, KEEPDIM, LAST, Attribute, TensorOp, pushforward
from symgrad.ops.tensors.slices import resized


# ------------------------------------------------------------------------------------------------ largest so far
def _running_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    """Each element has the cotangents of all places at which it is the largest so far."""
    return (make("add_along", g, indices(node), node.args[0], dim=node["dim"]),)


_RUNNING: dict[str, Any] = {
    "vjp": _running_vjp,
    "jvp": pushforward(lambda node, own: make("gather", own, indices(node), dim=node["dim"])),
}


# ------------------------------------------------------------------------------------------------ largest few
def _top_shape(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    place, k = place_along(node["dim"], of), node["k"]
    if place is None:
        return unknown(node)
    size = of.dims[place]
    if isinstance(size, int) and isinstance(k, int) and k > size:
        raise ShapeConflict(f"topk of {k} among {size} elements")
    return resized(of, place, k if isinstance(k, int) else ("size", k))


# ------------------------------------------------------------------------------------------------ one element
def _place(values: str) -> Any:
    def definition(x: Expr, dim: Any = None, keepdim: Any = False) -> Expr:
        if dim is None:
            if keepdim is not False:
                raise ValueError("keepdim needs a dimension beside it")
            x, dim = make("flatten", x, start_dim=0, end_dim=-1), 0
        return make(values, x, dim=dim, keepdim=keepdim)

    return definition


# ------------------------------------------------------------------------------------------------ questions
def _count(condition: Expr, dim: Any, keepdim: Any) -> Expr:
    return total(where(condition, ONE, ZERO), dim, keepdim)


def _std(x: Expr, dim: Any = None, correction: Any = 1, keepdim: Any = False, unbiased: Any = None) -> Expr:
    """The root of the variance; as in torch, its derivative is 0 where that is 0."""
    variance = var(x, dim, correction, keepdim, unbiased)
    equal = compare("eq", variance, ZERO)
    return where(equal, ZERO, power(where(equal, ONE, variance), HALF))


CUMMAX = fields("cummax", (DIM,), _RUNNING, extent=along, cost=4.0)
CUMMIN = fields("cummin", (DIM,), _RUNNING, extent=along, cost=4.0)
TOPK = fields(
    "topk",
    (Attribute("k", "int", required=True, least=1), LAST, Attribute("largest", "bool", True)),
    PICKS_SEVERAL,
    extent=_top_shape,
    cost=20.0,
    recompute=False,
)
# Of an expanded tensor torch's own is not even one of its elements.
MEDIAN = fields("median", (DIM, KEEPDIM), PICKS_ONE, "{0}.contiguous()", extent=reduced, cost=20.0, recompute=False)

ROWS = (
    CUMMAX[0],
    CUMMIN[0],
    TOPK[0],
    MEDIAN[0],
    TensorOp("argmax", attributes=(Attribute("dim", "dim"), KEEPDIM), definition=_place("max_indices")),
    TensorOp("argmin", attributes=(Attribute("dim", "dim"), KEEPDIM), definition=_place("min_indices")),
    TensorOp(
        "any",
        attributes=DIMS,
        definition=lambda x, dim, keepdim: compare("gt", _count(compare("ne", x, ZERO), dim, keepdim), ZERO),
    ),
    TensorOp(
        "all",
        attributes=DIMS,
        definition=lambda x, dim, keepdim: compare("eq", _count(compare("eq", x, ZERO), dim, keepdim), ZERO),
    ),
    TensorOp(
        "count_nonzero",
        attributes=DIMS,
        definition=lambda x, dim, keepdim: _count(compare("ne", x, ZERO), dim, keepdim),
    ),
    TensorOp(
        "std",
        attributes=(DIMS[0], Attribute("correction", "int", 1), KEEPDIM, Attribute("unbiased", "bool")),
        floats=True,
        definition=_std,
    ),
)

INTERNAL = (*CUMMAX[1:], *CUMMIN[1:], *TOPK[1:], *MEDIAN[1:])
