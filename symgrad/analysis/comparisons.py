"""What conditions compare: of a value that is compared with zero the sign alone is asked, which rounding keeps."""

from __future__ import annotations

from symgrad.ir.expr import ZERO, Expr
from symgrad.ir.traversal import topological

__all__ = ["measured"]


def measured(value: Expr, leaves: frozenset[Expr]) -> frozenset[Expr]:
    """The leaves that a value is made of by more than their signs."""
    nodes = topological(value, leaves=leaves)
    signs = {n for n in nodes if n.is_boolean and ZERO in n.args}
    return frozenset(a for n in nodes if n not in signs and n not in leaves for a in n.args if a in leaves)
