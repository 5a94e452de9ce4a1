"""Where the shape of a value comes from.

The shape of a pointwise value is the broadcast of its sources: tensor symbols and results of tensor operations. Two
values with the same sources have the same shape, whatever the sizes turn out to be.
"""

from __future__ import annotations

from symgrad.expr import Expr
from symgrad.tensor_ops import TENSOR_OPS


def shape_sources(root: Expr) -> frozenset[Expr]:
    """The values whose shapes broadcast to the shape of `root`."""
    cached: frozenset[Expr] | None = root.__dict__.get("shape_sources")
    if cached is not None:
        return cached
    if root.op in TENSOR_OPS:
        preserved = TENSOR_OPS[root.op].shape_of
        result = shape_sources(root.args[preserved]) if preserved is not None else frozenset({root})
    elif root.op == "sym":
        # A cotangent or tangent has the shape of a value that its user knows and adds.
        own = root.tensors and root["kind"] not in ("cotangent", "tangent")
        result = frozenset({root}) if own else frozenset()
    else:
        result = frozenset().union(*(shape_sources(a) for a in root.args))
    root.__dict__["shape_sources"] = result
    return result
