"""Reductions over dimensions, and the operations that undo broadcasting and reducing."""

from __future__ import annotations

from symgrad.expr import ZERO, Expr, compare, make, where
from symgrad.tensor_ops.row import Attribute, TensorOp

DIMS = (Attribute("dim", "dims"), Attribute("keepdim", "bool", False))


def expand(value: Expr, like: Expr, node: Expr) -> Expr:
    """`value`, reduced as `node` reduced, broadcast back to the shape of `like`."""
    if node["keepdim"]:
        return make("expand", value, like, dim=None)
    return make("expand", value, like, dim=node["dim"])


def count(node: Expr) -> Expr:
    """How many elements `node` reduced into each of its results: a Python number, known from the shape."""
    return make("count", node.args[0], dim=node["dim"])


def _reduced(node: Expr, tangent: Expr | None) -> Expr | None:
    return None if tangent is None else make(node.op, _full(tangent, node), **dict(node.attrs))


def _full(tangent: Expr, node: Expr) -> Expr:
    """A tangent of the operand; a pointwise one may have lost the operand's broadcast shape."""
    return make("expand", tangent, node.args[0], dim=None)


def _norm_direction(node: Expr) -> Expr:
    """x / norm(x), 0 where the norm is 0."""
    x = node.args[0]
    length = expand(node, x, node)
    return where(compare("eq", length, 0), ZERO, x / length)


def _norm(x: Expr, p: int = 2, dim: object = None, keepdim: bool = False) -> Expr:
    """torch's vector norm for p = 1, 2 and inf."""
    if p == 1:
        return make("sum", make("abs", x), dim=dim, keepdim=keepdim)
    return make("norm", x, dim=dim, keepdim=keepdim)


ROWS = (
    TensorOp(
        "sum",
        attributes=DIMS,
        torch="{0}.sum({reduce})",
        vjp=lambda node, g: (expand(g, node.args[0], node),),
        jvp=lambda node, t: _reduced(node, t[0]),
        linear=True,
    ),
    TensorOp(
        "mean",
        attributes=DIMS,
        torch="{0}.mean({reduce})",
        vjp=lambda node, g: (expand(g / count(node), node.args[0], node),),
        jvp=lambda node, t: _reduced(node, t[0]),
        linear=True,
    ),
    TensorOp(
        "norm",
        attributes=(Attribute("p", "int", 2), *DIMS),
        torch="torch.linalg.vector_norm({0}{, reduce})",
        vjp=lambda node, g: (expand(g, node.args[0], node) * _norm_direction(node),),
        jvp=lambda node, t: make("sum", _full(t[0], node) * _norm_direction(node), **dict(node.attrs)),
        saves="xy",
        definition=_norm,
    ),
)

# Written by the compiler, never by users.
INTERNAL_ROWS = (
    TensorOp(
        "sum_to",
        operands=("input", "like"),
        torch="_sum_to({0}, {1})",
        vjp=lambda node, g: (make("expand", g, node.args[0], dim=None), None),
        linear=True,
        shape_of=1,
        shape_only=frozenset({1}),
    ),
    TensorOp(
        "expand",
        operands=("input", "like"),
        attributes=(Attribute("dim", "dims"),),
        vjp=lambda node, g: (make("sum_to", g, node.args[0]), None),
        linear=True,
        shape_of=1,
        shape_only=frozenset({1}),
    ),
    TensorOp("count", attributes=(Attribute("dim", "dims"),), shape_only=frozenset({0}), differentiable=False),
)
