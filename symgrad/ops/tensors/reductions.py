"""Reductions over dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from symgrad.ir.expr import ONE, OO, ZERO, Expr, make, num, power, symbol
from symgrad.ir.truth import compare, where
from symgrad.ops.tensors.extent import extent, reduced, same
from symgrad.ops.tensors.row import KEEPDIM, TENSOR_OPS, Attribute, Ref, TensorOp, pushforward, same_of_tangent
from symgrad.ops.tensors.shapes import covers, shape_sources
from symgrad.ops.tensors.shaping import count, expand, restore, unsqueeze
from symgrad.spec.interval import Interval

_EPS = num(Fraction(1, 10**8))
DIMS = (Attribute("dim", "dims"), KEEPDIM)
# Those that a fused pass makes while it reads a row.
OF_ROWS = frozenset({"sum", "mean", "amax", "amin", "var", "norm", "logsumexp"})

Slope = Callable[[Expr], Expr]


def total(value: Expr, dim: Any, keepdim: Any) -> Expr:
    """The sum over dimensions."""
    return make("sum", value, dim=dim, keepdim=keepdim)


def _weighted(slope: Slope) -> dict[str, Any]:
    """vjp and jvp of a reduction whose derivative by each element is `slope(node)`, of the operand's shape.

    What the slope is made of may cancel, and with it the shape: so what it multiplies has it too.
    """

    def pull(node: Expr, g: Expr) -> tuple[Expr]:
        x, spread = node.args[0], restore(g, node)
        has_partials = bool(x.args) and x.op not in TENSOR_OPS
        return ((expand(spread, x) if has_partials else spread) * slope(node),)

    def push(node: Expr, own: Expr) -> Expr:
        product = own * slope(node)
        if not covers(shape_sources(product), shape_sources(node.args[0])):
            product = expand(own, node.args[0]) * slope(node)
        return total(product, node["dim"], node["keepdim"])

    return {"vjp": pull, "jvp": pushforward(push)}


# ------------------------------------------------------------------------------------------------ slopes
def _ties(node: Expr) -> tuple[Expr, Expr]:
    """Where the operand is the extremum, and how often."""
    x = node.args[0]
    equal = compare("eq", x, restore(node, node))
    return equal, total(where(equal, ONE, ZERO), node["dim"], keepdim=node["dim"] is not None)


def _extremum_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    """Ties share the cotangent equally."""
    equal, ties = _ties(node)
    return (where(equal, restore(g, node), ZERO) / ties,)


def _extremum_jvp(node: Expr, own: Expr) -> Expr:
    """The mean of the tangents of the ties."""
    equal = compare("eq", node.args[0], restore(node, node))
    dim, keepdim = node["dim"], node["keepdim"]
    return total(where(equal, own, ZERO), dim, keepdim) / total(where(equal, ONE, ZERO), dim, keepdim)


def _norm_slope(node: Expr) -> Expr:
    """The derivative of a norm: 0 where the norm is 0, by a division that is never 0 / 0."""
    x, p = node.args[0], node["p"]
    length = restore(node, node)
    direction = x / where(compare("eq", length, 0), ONE, length)
    if p == 2:
        return direction
    return make("sign", x) * power(make("abs", direction), as_number(p) - 1)


def _var_slope(node: Expr) -> Expr:
    x = node.args[0]
    centred = x - make("mean", x, dim=node["dim"], keepdim=node["dim"] is not None)
    return 2 * centred / (count(node) - as_number(node["correction"]))


def as_number(attribute: int | Ref) -> Expr:
    """An attribute that a formula calculates with."""
    return symbol(attribute.name, "int") if isinstance(attribute, Ref) else num(attribute)


def _others(node: Expr) -> Expr:
    return make("others", node.args[0], dim=node["dim"])


# ------------------------------------------------------------------------------------------------ definitions
def _norm(x: Expr, p: Any = 2, dim: Any = None, keepdim: Any = False) -> Expr:
    """torch's vector norm."""
    if p == "inf":
        return make("amax", make("abs", x), dim=dim, keepdim=keepdim)
    if p == 1:
        return total(make("abs", x), dim, keepdim)
    if isinstance(p, int) and p < 1:
        raise ValueError("the order 'p' of a norm is oo or at least 1")
    return make("norm", x, p=p, dim=dim, keepdim=keepdim)


def _prod(x: Expr, dim: Any = None, keepdim: Any = False) -> Expr:
    """torch multiplies along one dimension at a time."""
    if not isinstance(dim, tuple):
        return make("prod", x, dim=dim, keepdim=keepdim)
    for d in dim:
        x = make("prod", x, dim=d, keepdim=True)
    return x if keepdim is True else total(x, dim, keepdim)  # a sum over dimensions of size 1


def var(x: Expr, dim: Any = None, correction: Any = 1, keepdim: Any = False, unbiased: Any = None) -> Expr:
    """`unbiased` is the older spelling of the correction."""
    if isinstance(unbiased, Ref):
        raise ValueError("'unbiased' must be True or False; a hyperparameter can be the 'correction'")
    return make("var", x, dim=dim, correction=correction if unbiased is None else int(unbiased), keepdim=keepdim)


def _cdist(a: Expr, b: Expr, p: Any = 2) -> Expr:
    """The norms of all differences of rows, and not torch's products of them, in which close points cancel."""
    known = extent(a), extent(b)
    if not all(of.exact and len(of.dims) >= 2 for of in known):
        raise ValueError("cdist needs tensors of declared shapes, [..., N, D] and [..., M, D]")
    same(known[0].dims[-1], known[1].dims[-1], f"cdist of {known[0]} and {known[1]}")
    return _norm(unsqueeze(a, -2) - unsqueeze(b, -3), p, -1)


def _cosine_similarity(a: Expr, b: Expr, dim: Any = 1, eps: Expr = _EPS) -> Expr:
    """torch's: no norm is less than `eps`."""
    one, other = (make("maximum", _norm(v, 2, dim), eps) for v in (a, b))
    return total(a * b, dim, keepdim=False) / (one * other)


def _logsumexp_slope(node: Expr) -> Expr:
    """Shares, which sum to 1 where exponents are computed as they were for the sum: they stay one operand."""
    return _share(node.args[0], restore(node, node))


def _share(exponent: Expr, level: Expr) -> Expr:
    """exp(exponent - level); 0 where a mask made the exponent -oo, also where all are and so the level is."""
    if exponent.op == "where" and -OO in exponent.args[1:]:
        condition, *branches = exponent.args
        return where(condition, *(ZERO if b is -OO else _share(b, level) for b in branches))
    several = len([f for f in exponent.factors if not f.is_static]) > 1
    apart = several or exponent.op in ("add", "pow")  # as a region of its own it has the form that was summed
    whole = make("boundary", exponent) if apart else exponent
    return make("exp", whole - level)


_EXTREMUM: dict[str, Any] = {
    "attributes": DIMS,
    "vjp": _extremum_vjp,
    "jvp": pushforward(_extremum_jvp),
    "extent": reduced,
    "saves": "xy",
    "whole": True,
    "same": True,
    "exact": True,
}

_NONNEGATIVE = Interval(0, math.inf, False, True)

ROWS = (
    TensorOp(
        "sum",
        whole=True,
        attributes=DIMS,
        torch="{0}.sum({attributes})",
        vjp=lambda node, g: (expand(restore(g, node), node.args[0]),),
        jvp=same_of_tangent,
        extent=reduced,
        linear=True,
    ),
    TensorOp(
        "mean",
        same=True,
        attributes=DIMS,
        torch="{0}.mean({attributes})",
        vjp=lambda node, g: (expand(restore(g, node) / count(node), node.args[0]),),
        jvp=same_of_tangent,
        extent=reduced,
        floats=True,
        linear=True,
    ),
    TensorOp(
        "prod",
        whole=True,
        fixes=(ZERO, ONE),
        rounds_inside=True,
        attributes=DIMS,
        torch="{0}.prod({attributes})",
        **_weighted(_others),
        extent=reduced,
        saves="xy",
        definition=_prod,
    ),
    TensorOp("amax", torch="{0}.amax({attributes})", **_EXTREMUM),
    TensorOp("amin", torch="{0}.amin({attributes})", **_EXTREMUM),
    TensorOp(
        "var",
        attributes=(DIMS[0], Attribute("correction", "int", 1), KEEPDIM, Attribute("unbiased", "bool")),
        torch="{0}.var({attributes})",
        within=_NONNEGATIVE,
        **_weighted(_var_slope),
        extent=reduced,
        floats=True,
        cost=2.5,
        saves="x",
        definition=var,
    ),
    TensorOp(
        "logsumexp",
        rounds_inside=True,
        attributes=DIMS,
        torch="{0}.logsumexp({attributes})",
        **_weighted(_logsumexp_slope),
        extent=reduced,
        cost=5.0,
        saves="xy",
    ),
    TensorOp(
        "norm",
        fixes=(ZERO,),
        attributes=(Attribute("p", "order", 2), *DIMS),
        torch="torch.linalg.vector_norm({0}, {attributes})",
        within=_NONNEGATIVE,
        **_weighted(_norm_slope),
        extent=reduced,
        floats=True,
        saves="xy",
        definition=_norm,
    ),
    TensorOp(
        "cosine_similarity",
        operands=("x1", "x2"),
        attributes=(Attribute("dim", "dim", 1), Attribute("eps", "number", _EPS)),
        floats=True,
        definition=_cosine_similarity,
    ),
    TensorOp("cdist", operands=("x1", "x2"), attributes=(Attribute("p", "order", 2),), floats=True, definition=_cdist),
)


# ------------------------------------------------------------------------------------------------ internal
def _others_slope(node: Expr, h: Expr) -> Expr:
    """The matrix of second derivatives of a product is symmetric: vjp and jvp are the same sum."""
    return make("others_slope", node.args[0], h, dim=node["dim"])


INTERNAL = (
    TensorOp(  # for each element the product of all others along the dimension
        "others",
        attributes=(Attribute("dim", "dim"),),
        torch="rt.others({0}, {dim})",
        vjp=lambda node, h: (_others_slope(node, h),),
        jvp=pushforward(_others_slope),
        shape_of=0,
        cost=5.0,
        saves="x",
    ),
    TensorOp(
        "others_slope",
        operands=("input", "grad"),
        attributes=(Attribute("dim", "dim"),),
        torch="rt.others_slope({0}, {1}, {dim})",
        shape_of=0,
        cost=20.0,
    ),
)
