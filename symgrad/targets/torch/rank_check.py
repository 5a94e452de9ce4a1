"""The check of hyperparameters that are dimensions at a call, where the rank of what they belong to is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from symgrad.compiler.operation import Variant
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS, Ref
from symgrad.ops.tensors.shapes import extent, shape_sources
from symgrad.targets.torch.layout import Layout


def rank_checks(layout: Layout, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each hyperparameter that is a dimension whatever the others are, and the number of dimensions, as source.

    `names` are those of the arguments in the function that checks.
    """
    optional = {t.name for t in layout.spec.tensors if t.default is not None}
    present = {name: local for name, local in names.items() if name not in optional}
    first, *rest = (list(_checks(v, present)) for v in layout.variants)
    shared = [check for check in first if all(check in others for others in rest)]
    return [(names[dimension], rank) for dimension, rank in dict.fromkeys(shared)]


def _checks(variant: Variant, present: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for node in topological(*variant.formulas.values()):
        row = TENSOR_OPS.get(node.op)
        rank = _rank(node.args[0], present) if row else ""
        for attribute in row.attributes if row and rank else ():
            value = node.get(attribute.name) if attribute.kind in ("dim", "dims") else None
            parts = value if isinstance(value, tuple) else (value,)
            yield from ((part.name, rank) for part in parts if isinstance(part, Ref))


def _rank(value: Expr, present: Mapping[str, str]) -> str:
    """The number of dimensions of a value as source; empty where no argument tells it."""
    known, sources = extent(value), shape_sources(value)
    if known.exact:
        return str(len(known.dims))
    if any(s.op != "sym" or s.name not in present for s in sources):
        return ""
    ranks = sorted(f"rt.rank({present[s.name]})" for s in sources)
    return ranks[0] if len(ranks) == 1 else f"max({', '.join(ranks)})"
