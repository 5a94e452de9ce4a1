"""What a generated test promises of accuracy: points, true values by mpmath, and how well conditioned they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from symgrad.accuracy.candidates import Choice
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Environment
from symgrad.accuracy.measure import ALLOWED
from symgrad.compiler.operation import Variant
from symgrad.compiler.workbench import Workbench
from symgrad.differentiate.modes import is_tensor_op
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.targets.literals import literal, tuple_of
from symgrad.targets.torch.allowance import allowed
from symgrad.targets.torch.dtypes import floated_in
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.settings import settings, variant_at

__all__ = ["Figure", "figures", "shortest"]

_WORST, _SPREAD = 3, 4  # points of one quantity: the least accurate ones, and others all over the domain


@dataclass(frozen=True)
class Figure:
    """What is promised of one quantity: of an output, "y", or of its derivative in a tensor, "dy/dx"."""

    quantity: str
    rows: tuple[str, ...]
    float32: float
    float64: float


def figures(layout: Layout) -> list[Figure]:
    """The figures of the outputs and derivatives that are pointwise, for every variant."""
    bench = Workbench(layout.operation.program, layout.operation.memory)
    found: list[Figure] = []
    for decisions, variant in decided(layout):
        for output, tensor, choice, form in pointwise_choices(variant):
            wide = variant.is_wide(output, tensor) if tensor else variant.wide_values  # one that is makes all of them
            rows, ulps = _rows(layout, bench, choice, form, variant, decisions, wide)
            if rows:
                quantity = f"d{output}/d{tensor}" if tensor else output
                found.append(Figure(quantity, rows, _upward(ulps[0]), _upward(ulps[1])))
    return found


def decided(layout: Layout) -> Iterator[tuple[dict[str, Any], Variant]]:
    """The variants with values of the hyperparameters that lead to them."""
    hyperparameters = [h.name for h in layout.spec.hyperparameters]
    seen: list[Variant] = []
    for values in settings(layout, every=True):
        variant = variant_at(layout, values)
        if variant is not None and variant not in seen:
            seen.append(variant)
            yield dict(zip(hyperparameters, values, strict=True)), variant


def pointwise_choices(variant: Variant) -> Iterator[tuple[str, str | None, Choice, Expr]]:
    """Choices that are the whole of an output or derivative: those that no tensor operation is part of."""
    pointwise = {n for n, f in variant.formulas.items() if not any(is_tensor_op(e) for e in topological(f))}
    for output, choice in variant.value_choices.items():
        if output in pointwise:
            yield output, None, choice, choice.chosen.form
    for (output, tensor), choice in variant.slope_choices.items():
        if output in pointwise:
            yield output, tensor, choice, variant.partials[output, tensor]


def _rows(
    layout: Layout,
    bench: Workbench,
    choice: Choice,
    form: Expr,
    variant: Variant,
    decisions: dict[str, Any],
    wide: bool,
) -> tuple[tuple[str, ...], tuple[float, float]]:
    """The rows of a table, and the largest errors of the form in float32 and float64."""
    judge = bench.judge(choice.formula)
    points = judge.sample.points[FLOAT32]
    errors = judge.measure(form, FLOAT32, wide).errors
    doubles = judge.double_errors(form)  # the test computes in float64 at the same points
    known = (r for r in judge.references(FLOAT32) if not r.boolean and not r.beside_pole)
    usable = [
        r
        for r in known
        if max(errors[r.index], doubles[r.index]) < (ALLOWED[FLOAT64] if r.far else math.inf)
        and _leads_to(variant, layout, {**decisions, **points[r.index]})
    ]
    worst = sorted(usable, key=lambda r: (-errors[r.index], r.index))[:_WORST]
    spread = [usable[i * len(usable) // _SPREAD] for i in range(_SPREAD)] if usable else []
    chosen = {r.index: r for r in (*worst, *spread)}
    double = max((doubles[k] for k in chosen), default=0.0)
    if floated_in(choice.formula):  # in the default dtype, whatever that of the result
        double = max(
            double, math.ldexp(1 + max((errors[k] for k in chosen), default=0.0), FLOAT64.precision - FLOAT32.precision)
        )
    ulps = judge.score(form, FLOAT32, wide).ulp, max(judge.score(form, FLOAT64).ulp, double)
    rough = judge.rough_errors(form, wide, chosen)
    # A form that errs more with functions which are off by a few ulp is accurate by luck: torch's need not have it.
    steady = [k for k in sorted(chosen) if all(r <= allowed(u) for r, u in zip(rough[k], ulps, strict=True))]
    rows = tuple(_row(layout, points[k], decisions, chosen[k].high, chosen[k].credit * chosen[k].ulp) for k in steady)
    return rows, ulps


def _leads_to(variant: Variant, layout: Layout, found: Mapping[Any, Any]) -> bool:
    """Whether the values of hyperparameters, by symbol or name, are those of a call that comes to the variant."""
    own = [(layout.symbol(h.name), h.name) for h in layout.spec.hyperparameters]
    return variant_at(layout, [found.get(s, found[name]) for s, name in own]) is variant


def _row(layout: Layout, point: Environment, decisions: dict[str, Any], true: float, credit: float) -> str:
    """Tensors, hyperparameters, the true value and the conditioning as literals."""
    cells = []
    for t in layout.spec.tensors:
        value = point.get(layout.symbol(t.name))
        cells.append(repr(bool(value)) if t.dtype == "bool" else "1.0" if value is None else shortest(float(value)))
    for h in layout.spec.hyperparameters:
        value = point.get(layout.symbol(h.name), decisions[h.name])
        cells.append(literal(value))
    return tuple_of([*cells, repr(true), f"{credit:.2g}"])


def shortest(value: float) -> str:
    """The shortest decimal that a float32 is nearest to."""
    for digits in range(1, 10):
        text = repr(float(f"{value:.{digits}g}"))
        if FLOAT32.round(float(text)) == value:
            return text
    return repr(value)


def _upward(figure: float) -> float:
    """A figure with two digits, not below the given one."""
    if not figure:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(figure)) - 1)
    return float(f"{math.ceil(figure / unit) * unit:.3g}")
