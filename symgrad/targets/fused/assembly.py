"""From what a pass writes to the pass: in as few exponentials and divisions as accuracy allows, with what it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from symgrad.accuracy.machine import machine
from symgrad.accuracy.measure import ALLOWED
from symgrad.accuracy.widening import WIDEN
from symgrad.compiler.verify import verified
from symgrad.compiler.workbench import Workbench
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological
from symgrad.targets.fused import rows
from symgrad.targets.fused.elements import Elements
from symgrad.targets.fused.forms import rational_forms, with_equal_arguments, with_reciprocals, with_row_values
from symgrad.targets.fused.model import Kernel, Operand, Result
from symgrad.targets.fused.narrow import narrowed
from symgrad.targets.fused.parts import Grid
from symgrad.targets.fused.picks import require_rows, require_whole_numbers, with_values_of_rows
from symgrad.targets.fused.terms import (
    PICKS,
    PLACE,
    REDUCTIONS,
    ROW_OPS,
    Unsupported,
    View,
    is_count,
    is_total,
    is_whole,
    length,
)
from symgrad.targets.torch.layout import Layout

__all__ = ["Assembly", "CanSpell"]

CanSpell = Callable[[Expr], bool]  # whether a language has the operation of a machine node

_MOST_RESULTS = 24  # of one pass, which are bits of a number together with what it keeps of rows


@dataclass(frozen=True)
class Assembly:
    """Makes passes of an operation; `alike` are the places of the tensors that have to have the shape of each."""

    layout: Layout
    can_spell: CanSpell
    grid: Grid | None
    alike: tuple[int, ...]

    def __call__(
        self,
        name: str,
        elements: Elements,
        operands: tuple[Operand, ...],
        results: Sequence[Result],
        views: tuple[View, ...],
        wide: bool,
    ) -> Kernel:
        """The pass that writes these results; all in float64 if it is `wide`. Raises Unsupported."""
        if len(results) > _MOST_RESULTS:
            raise Unsupported(f"more than {_MOST_RESULTS} results")
        forms = self.rational([r.value for r in results], wide)
        narrow = (
            narrowed(forms, self.layout)
            if wide and not self.grid and self.can_spell(make(WIDEN, results[0].value))
            else None
        )
        forms, wide = (narrow, False) if narrow is not None else (forms, wide)
        forms = with_row_values(with_reciprocals(forms))
        if any(n.op in REDUCTIONS for n in topological(*forms)):
            alone = [o.leaf for o in operands if _is_of_row(elements, o.leaf)]
            forms = with_values_of_rows(forms, alone)
        results = [replace(r, value=form) for r, form in zip(results, forms, strict=True)]
        verified("passes", forms)
        lowered = machine(forms)
        order = topological(*lowered)
        for node in order:
            if not self.can_spell(node):
                raise Unsupported(node.op)
        scalars = [self.layout.symbol(h.name) for h in self.layout.spec.hyperparameters]
        read = frozenset().union(*(r.value.symbols for r in results)) | frozenset(s for n in lowered for s in n.symbols)
        if any(s["kind"] == "str" for s in read):
            raise Unsupported("a text")
        numbers = tuple(s for s in (*scalars, *sorted(filter(is_count, read), key=lambda s: s.name)) if s in read)
        require_whole_numbers(order)
        whole = tuple(o for o in operands if is_whole(o.leaf))
        if any(length(View(elements.views[o.leaf].tensor, o.dims)) != 1 for o in whole):
            raise Unsupported("a tensor of integers")
        placed = any(n.op in PICKS or n is PLACE for n in order)
        single = self.grid is not None and self.grid.single
        if single and any(_is_longer(elements.views[o.leaf]) for o in operands):
            raise Unsupported("parts of one element beside longer rows")
        written_by_row = any(r.row for r in results) and not single
        own_rows = placed or bool(whole) or any(n.op in ROW_OPS for n in order) or written_by_row
        by_row = own_rows or any(map(is_total, order))
        if by_row and any(r.reduced for r in results):
            raise Unsupported("a reduction of a reduction")
        require_rows(elements.lengths, views, lowered)
        read_by_element = tuple(o for o in operands if o not in whole)
        spans = rows.spans(order, read_by_element, views)
        own = Kernel(name, read_by_element, numbers, tuple(results), views, wide, by_row, spans=spans)
        return replace(own, whole=whole, placed=placed, alike=self.alike, any_rows=by_row and not own_rows)

    def rational(self, values: Sequence[Expr], wide: bool) -> list[Expr]:
        """The values in as few exponentials as accuracy allows; in float64 for smaller inputs anything is accurate."""
        apart, together = rational_forms(values), rational_forms(with_equal_arguments(values))
        if together == apart or wide:
            return together
        bench = Workbench(self.layout.operation.program)
        for before, after in zip(apart, together, strict=True):
            if before is not after:
                if any(n.op in ROW_OPS for n in topological(before)):  # which are not measured
                    return apart
                judge = bench.judge(before)
                for format_, bound in ALLOWED.items():
                    old, new = judge.score(before, format_), judge.score(after, format_)
                    if new.nonfinite > old.nonfinite or new.ulp > max(old.ulp, bound):
                        return apart
        return together


def _is_of_row(elements: Elements, leaf: Expr) -> bool:
    """Whether a tensor of floats surely has one element for each row."""
    view = elements.views[leaf]
    primal = View(elements.like(view.tensor), view.dims)
    return leaf["kind"] not in ("int_tensor", "bool_tensor") and length(primal) == 1


def _is_longer(view: View) -> bool:
    """Whether a tensor that is given may have more than one element along a row."""
    return not view.tensor.is_differential and length(view) != 1
