"""Running products and running log-sum-exps, and the linear recurrence that differentiates both.

`scan(a, b)` is s[k] = a[k]*s[k-1] + b[k] along a dimension, `scan_back(a, b)` is r[k] = b[k] + a[k+1]*r[k+1]: each is
the transposed of the other. What is multiplied is never divided again, so that all derivatives are right at zeros.
"""

from __future__ import annotations

import math
from typing import Any

from symgrad.ir.expr import Expr, make
from symgrad.ops.tensors.along import ALONG
from symgrad.ops.tensors.row import DIM, Attribute, Tangents, TensorOp, pushforward

_STEP = Attribute("step", "int", required=True)


def _scan(a: Expr, b: Expr, node: Expr) -> Expr:
    return make("scan", a, b, dim=node["dim"])


def _scan_back(a: Expr, b: Expr, node: Expr) -> Expr:
    return make("scan_back", a, b, dim=node["dim"])


def _shifted(x: Expr, node: Expr, step: int = 1) -> Expr:
    """Each element one place further (or back, for -1), and 0 where none comes from."""
    return make("shifted", x, dim=node["dim"], step=step)


# ------------------------------------------------------------------------------------------------ products
def _before(node: Expr) -> Expr:
    """The product of all elements before each one, 1 for the first."""
    return make("shifted_from", node, dim=node["dim"], start=1)


def _cumprod_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    return (_before(node) * _scan_back(node.args[0], g, node),)


def _cumprod_jvp(node: Expr, own: Expr) -> Expr:
    return _scan(node.args[0], _before(node) * own, node)


# ------------------------------------------------------------------------------------------------ log-sum-exps
def _kept(node: Expr) -> Expr:
    """exp(y[k-1] - y[k]): what is left of the sum so far, beside the next term; anything for the first."""
    return make("sigmoid", _shifted(node, node) - node.args[0])


def _added(node: Expr) -> Expr:
    """The share of each term in the sum up to itself, of the sum before it: what was rounded there leaves a share."""
    return make("sigmoid", node.args[0] - make("shifted_from", node, dim=node["dim"], start=-math.inf))


def _logcumsumexp_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    return (_added(node) * _scan_back(_kept(node), g, node),)


def _logcumsumexp_jvp(node: Expr, own: Expr) -> Expr:
    return _scan(_kept(node), _added(node) * own, node)


# ------------------------------------------------------------------------------------------------ the recurrence
def _vjp_of_scan(node: Expr, g: Expr) -> tuple[Expr, Expr]:
    pulled = _scan_back(node.args[0], g, node)
    return pulled * _shifted(node, node), pulled


def _jvp_of_scan(node: Expr, t: Tangents) -> Expr | None:
    moved = None if t[0] is None else t[0] * _shifted(node, node)
    pushed = t[1] if moved is None else moved if t[1] is None else t[1] + moved
    return None if pushed is None else _scan(node.args[0], pushed, node)


def _vjp_of_scan_back(node: Expr, g: Expr) -> tuple[Expr, Expr]:
    pushed = _scan(node.args[0], g, node)
    return _shifted(pushed, node) * node, pushed


def _jvp_of_scan_back(node: Expr, t: Tangents) -> Expr | None:
    moved = None if t[0] is None else _shifted(t[0] * node, node, -1)
    pulled = t[1] if moved is None else moved if t[1] is None else t[1] + moved
    return None if pulled is None else _scan_back(node.args[0], pulled, node)


_SHIFT: dict[str, Any] = {
    "vjp": lambda node, g: (_shifted(g, node, -node.get("step", 1)),),
    "jvp": pushforward(lambda node, own: _shifted(own, node, node.get("step", 1))),
    "shape_of": 0,
    "exact": True,
}

ROWS = (
    TensorOp(
        "cumprod",
        whole=True,
        rounds_inside=True,
        torch="{0}.cumprod({attributes})",
        vjp=_cumprod_vjp,
        jvp=pushforward(_cumprod_jvp),
        saves="xy",
        cost=2.0,
        **ALONG,
    ),
    TensorOp(
        "logcumsumexp",
        rounds_inside=True,
        torch="{0}.logcumsumexp({attributes})",
        vjp=_logcumsumexp_vjp,
        jvp=pushforward(_logcumsumexp_jvp),
        floats=True,
        cost=50.0,
        saves="xy",
        **ALONG,
    ),
)

INTERNAL = (
    TensorOp(
        "scan",
        operands=("decay", "input"),
        attributes=(DIM,),
        torch="rt.scan({0}, {1}, {dim})",
        vjp=_vjp_of_scan,
        jvp=_jvp_of_scan,
        shape_of=1,
        cost=10.0,
        saves="xy",
    ),
    TensorOp(
        "scan_back",
        operands=("decay", "input"),
        attributes=(DIM,),
        torch="rt.scan_back({0}, {1}, {dim})",
        vjp=_vjp_of_scan_back,
        jvp=_jvp_of_scan_back,
        shape_of=1,
        cost=10.0,
        saves="xy",
    ),
    TensorOp(
        "shifted",
        attributes=(DIM, _STEP),
        torch="rt.shift({0}, {dim}, {step})",
        linear=True,
        **_SHIFT,
    ),
    TensorOp(
        "shifted_from",
        attributes=(DIM, Attribute("start", "order", required=True)),
        torch="rt.shift({0}, {dim}, 1, {start})",
        **_SHIFT,
    ),
)
