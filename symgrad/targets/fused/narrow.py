"""Passes that are computed in float64 for their angles alone: in float32, where that is measured to be enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from symgrad.accuracy.evaluate import FLOAT32
from symgrad.accuracy.measure import Score
from symgrad.accuracy.widening import with_wide_angles
from symgrad.compiler.workbench import Workbench
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import substitute, topological
from symgrad.targets.fused.terms import ROW_OPS
from symgrad.targets.torch.layout import Layout

__all__ = ["narrowed"]


def narrowed(values: Sequence[Expr], layout: Layout) -> list[Expr] | None:
    """The values of a pass for float32, with their angles in float64; None if they are not accurate enough so.

    Reductions of rows are not measured: a pass with any stays in float64.
    """
    forms = with_wide_angles(values)
    if forms == list(values) or any(n.op in ROW_OPS for n in topological(*values)):
        return None
    bench = Workbench(layout.operation.program)
    tensors = {t.name: layout.symbol(t.name) for t in layout.spec.tensors}
    for value in values:
        viewed = {s: tensors.get(s.name.partition("[")[0], s) for s in value.symbols if s.tensors}
        for coefficient in _coefficients(substitute(value, viewed)):
            (form,) = with_wide_angles([coefficient])
            judge = bench.judge(coefficient)
            if judge.score(form, FLOAT32) > Score(0, judge.precision.acceptable):
                return None
    return forms


def _coefficients(value: Expr) -> Iterator[Expr]:
    """What stands beside each cotangent or tangent, or beside each two of them that are multiplied.

    As everywhere, accuracy is that of derivatives: a sum of several may cancel.
    """
    linear = sorted((s for s in value.symbols if s.is_differential), key=lambda s: s.name)
    for count in (0, 1, 2):
        found = []
        for chosen in combinations(linear, count):
            form = substitute(value, {s: ex.ONE if s in chosen else ex.ZERO for s in linear})
            if form.tensors:
                found.append(form)
        if found:
            yield from found
            return
