"""Where the shape of a value comes from.

The shape of a pointwise value is the broadcast of its sources: tensor symbols and results of tensor operations. Two
values with the same sources have the same shape, whatever the sizes turn out to be.
"""

from __future__ import annotations

from symgrad.expr import Expr, topological
from symgrad.tensor_ops import TENSOR_OPS


def shape_sources(root: Expr) -> frozenset[Expr]:
    """The values whose shapes broadcast to the shape of `root`."""
    if "shape_sources" not in root.__dict__:
        for node in topological(root):  # from the bottom up, for chains may be longer than Python's stack
            if "shape_sources" not in node.__dict__:
                node.__dict__["shape_sources"] = _own_sources(node)
    found: frozenset[Expr] = root.__dict__["shape_sources"]
    return found


def _own_sources(node: Expr) -> frozenset[Expr]:
    """The sources of a node whose arguments have theirs."""
    if node.op in TENSOR_OPS:
        preserved = TENSOR_OPS[node.op].shape_of
        return shape_sources(node.args[preserved]) if preserved is not None else frozenset({node})
    if node.op == "sym":
        # A cotangent or tangent has the shape of a value that its user knows and adds.
        own = node.tensors and node["kind"] not in ("cotangent", "tangent")
        return frozenset({node}) if own else frozenset()
    return frozenset().union(*(shape_sources(a) for a in node.args))
