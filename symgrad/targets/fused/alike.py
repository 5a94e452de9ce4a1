"""Whether outputs come from the elements of one shape, as the results of one pass do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.ops.tensors.extent import Dim
from symgrad.ops.tensors.shapes import Extent, common_extent, covers, extent, shape_sources
from symgrad.targets.fused.elements import Elements
from symgrad.targets.fused.model import Result
from symgrad.targets.fused.row_forms import REDUCED
from symgrad.targets.fused.terms import ROW_OPS, Value
from symgrad.targets.fused.totals import pass_shape

__all__ = ["are_alike", "has_pass_shape"]


def are_alike(
    formulas: Sequence[Expr],
    results: Sequence[Result],
    values: Sequence[Value],
    late: Sequence[bool],
    *,
    one_shape: bool,
) -> bool:
    """Whether outputs come from elements of one shape: a declared one, or that of tensors all of one shape. Sums
    from which some follow are over the shape of the pass."""
    rows = pass_shape(formulas)
    known = {Extent(rows)} if any(late) and rows is not None else set[Extent]()
    outputs = zip(formulas, results, values, strict=True)
    for formula, result, value in compress(outputs, [not after for after in late]):
        own = value.over if value.total else extent(formula)
        if own is not None and (value.dropped or result.row):
            own = _extent_in_rows(formula, own, rows, one_shape)
        if own is None or result.reduced:
            return False
        known.add(own)
    if not known:
        return True
    exact = {e.exact for e in known}
    return len({e.dims for e in known}) == 1 and (exact == {True} or (one_shape and exact == {False}))


def _extent_in_rows(formula: Expr, own: Extent, rows: tuple[Dim, ...] | None, one_shape: bool) -> Extent | None:
    """The extent of the elements that a value for each row, of extent `own`, is made of; None where it is not known."""
    if rows is not None:
        return Extent(rows) if own.dims[: len(rows) - 1] == rows[:-1] else None
    sources = shape_sources(formula)
    if not (one_shape and sources) or any(s.get("dim") not in (-1, (-1,)) or s.op not in REDUCED for s in sources):
        return None
    return common_extent(s.args[0] for s in sources)


def has_pass_shape(elements: Elements, formula: Expr) -> bool:
    """Whether a value has the shape of its pass: what is reduced in it does not add to its shape."""
    sources = shape_sources(formula)
    reduced = frozenset(s for s in sources if any(n.op in ROW_OPS for n in topological(elements(s).expr)))
    if not reduced or extent(formula) == Extent(elements.shape or ()):
        return True
    others = sources - reduced
    return common_extent(others).dims[-1:] not in ((), (1,)) and covers(others, reduced)
