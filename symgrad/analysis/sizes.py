"""How large values are: estimates from declared shapes, for what it costs to keep a value and to compute it.

Sizes that no spec knows count as typical ones: only their ratios matter, that of a matrix to one number for each of its
rows above all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from symgrad.analysis.integers import is_whole_tensor
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import kept, topological
from symgrad.ops.tensors import TENSOR_OPS, is_index
from symgrad.ops.tensors.shapes import ShapeConflict, extent

_NAMED = 64.0  # elements of a dimension
_LEADING = 4096.0  # of all dimensions of a tensor of which nothing was declared, and of those before the declared ones
UNKNOWN = 1e12  # of a cotangent or tangent whose shape is not known: as large as can be
_BOOL, _FLOAT, _INT = 1.0, 4.0, 8.0  # bytes


@kept
def elements(node: Expr) -> float:
    """About how many elements a value has."""
    if node.is_static:
        return 1.0
    try:
        known = extent(node)
    except ShapeConflict:
        return _LEADING
    return _count(known.dims) * max((_leading(part, node) for part in known.lead), default=1.0)


def _count(dims: Iterable[Any]) -> float:
    return math.prod(max(d, 1) if isinstance(d, int) else _NAMED for d in dims)


def _leading(part: Any, node: Expr) -> float:
    """Of what stands before the known dimensions: a value, or leading dimensions of some and known ones."""
    if isinstance(part, tuple):
        lead, before = part
        return _count(before) * max((_leading(p, node) for p in lead), default=1.0)
    if part.op not in TENSOR_OPS:
        unknown = part.op == "sym" and part.is_differential and part.get("shape") is None
        return UNKNOWN if unknown else _LEADING
    operands = max((elements(a) for a in part.args if not a.is_static), default=1.0)
    return max(1.0, operands / _NAMED) if _reduces(part) else operands


def _reduces(node: Expr) -> bool:
    return "keepdim" in dict(node.attrs)


@dataclass(frozen=True)
class Sizes:
    """Sizes relative to `largest`, the elements of the largest value of an operation.

    Where they are `narrow`, indices have 32 bits, and signs are kept in a byte: they have no derivative to lose.
    """

    largest: float
    narrow: bool = False

    @staticmethod
    def of(formulas: Iterable[Expr], *, narrow: bool = False) -> Sizes:
        """Relative to the largest value in some formulas, beside what depends on a cotangent or tangent."""
        values = (n for n in topological(*formulas) if not n.is_differential)
        return Sizes(max(map(elements, values), default=1.0), narrow)

    def share(self, value: Expr) -> float:
        """The elements of a value, as a share of the largest value's."""
        return min(1.0, elements(value) / self.largest)

    def bytes(self, value: Expr) -> float:
        """What keeping a value takes, in bytes for each element of the largest value, in float32."""
        item = _BOOL if self.narrow and value.op == "sign" else item_size(value)
        return self.share(value) * (min(item, _FLOAT) if self.narrow else item)


def item_size(value: Expr) -> float:
    """Bytes of one element, in float32."""
    if value.is_boolean:
        return _BOOL
    return _INT if is_index(value) or is_whole_tensor(value) else _FLOAT
