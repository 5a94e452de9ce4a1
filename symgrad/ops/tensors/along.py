"""Operations along one dimension that keep the shape, and those that pick elements by their index."""

from __future__ import annotations

import math
from typing import Any

from symgrad.ir.expr import Expr, make
from symgrad.ops.tensors.extent import along, reduced
from symgrad.ops.tensors.indexing import put, take
from symgrad.ops.tensors.reductions import total
from symgrad.ops.tensors.row import DIM, KEEPDIM, LAST, Attribute, TensorOp, pushforward, same_of_tangent
from symgrad.ops.tensors.shaping import drop, restore
from symgrad.spec.interval import Interval


# ------------------------------------------------------------------------------------------------ softmax
def _softmax(y: Expr, v: Expr) -> Expr:
    """The Jacobian of softmax, which is symmetric, times `v`."""
    return y * (v - total(y * v, y["dim"], keepdim=True))


def _log_softmax_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    return (g - make("exp", node) * total(g, node["dim"], keepdim=True),)


def _log_softmax_jvp(node: Expr, own: Expr) -> Expr:
    return own - total(make("exp", node) * own, node["dim"], keepdim=True)


# ------------------------------------------------------------------------------------------------ indices
def indices(node: Expr) -> Expr:
    """The indices that belong to a node of values."""
    return make(node.op.replace("values", "indices"), *node.args, **dict(node.attrs))


def _one_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    return (put(restore(g, node), restore(indices(node), node), node.args[0], node["dim"]),)


def _one_jvp(node: Expr, own: Expr) -> Expr:
    return drop(take(own, restore(indices(node), node), node["dim"]), node)


PICKS_ONE: dict[str, Any] = {"vjp": _one_vjp, "jvp": pushforward(_one_jvp)}
PICKS_SEVERAL: dict[str, Any] = {
    "vjp": lambda node, g: (put(g, indices(node), node.args[0], node["dim"]),),
    "jvp": pushforward(lambda node, own: take(own, indices(node), node["dim"])),
}
"""Derivatives of what picks elements along a dimension: one, whose dimension may be gone, or different ones."""
_MOVED: dict[str, Any] = {"whole": True, "same": True, "exact": True}


def fields(
    name: str, attributes: tuple[Attribute, ...], values: dict[str, Any], operand: str = "{0}", **both: Any
) -> tuple[TensorOp, ...]:
    """The row that users write and the two rows of its results."""
    call = f"torch.{name}({operand}, {{attributes}})"
    names = (("values", f"{name}_values"), ("indices", f"{name}_indices"))
    return (
        TensorOp(name, attributes=attributes, fields=names, **both),
        TensorOp(
            f"{name}_values", attributes=attributes, torch=f"{call}.values", saves="i", **_MOVED, **values, **both
        ),
        TensorOp(f"{name}_indices", attributes=attributes, torch=f"{call}.indices", differentiable=False, **both),
    )


_SORTING = (LAST, Attribute("descending", "bool", False), Attribute("stable", "bool", False))

MAX = fields("max", (DIM, KEEPDIM), PICKS_ONE, extent=reduced, cost=2.0)
MIN = fields("min", (DIM, KEEPDIM), PICKS_ONE, extent=reduced, cost=2.0)
SORT = fields("sort", _SORTING, PICKS_SEVERAL, extent=along, cost=40.0, recompute=False)

ALONG: dict[str, Any] = {"attributes": (DIM,), "extent": along, "shape_of": 0}

ROWS = (
    TensorOp(
        "softmax",
        torch="torch.softmax({0}, {attributes})",
        within=Interval(0, 1, False, False),
        vjp=lambda node, g: (_softmax(node, g),),
        jvp=pushforward(_softmax),
        floats=True,
        cost=5.0,
        saves="y",
        **ALONG,
    ),
    TensorOp(
        "log_softmax",
        rounds_inside=True,
        torch="torch.log_softmax({0}, {attributes})",
        within=Interval(-math.inf, 0, True, False),
        vjp=_log_softmax_vjp,
        jvp=pushforward(_log_softmax_jvp),
        floats=True,
        cost=5.0,
        saves="y",
        **ALONG,
    ),
    TensorOp(
        "cumsum",
        whole=True,
        rounds_inside=True,
        torch="{0}.cumsum({attributes})",
        vjp=lambda node, g: (make("cumsum_back", g, dim=node["dim"]),),
        jvp=same_of_tangent,
        linear=True,
        cost=2.0,
        **ALONG,
    ),
    MAX[0],
    MIN[0],
    SORT[0],
)

INTERNAL = (
    *MAX[1:],
    *MIN[1:],
    *SORT[1:],
    TensorOp(  # the sum of an element and all that follow it
        "cumsum_back",
        torch="rt.cumsum_backward({0}, {dim})",
        vjp=lambda node, g: (make("cumsum", g, dim=node["dim"]),),
        jvp=same_of_tangent,
        linear=True,
        cost=4.0,
        **ALONG,
    ),
)
