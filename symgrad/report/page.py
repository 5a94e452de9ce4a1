"""The report as one HTML page, which loads nothing from anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from symgrad import __version__
from symgrad.accuracy.candidates import Choice
from symgrad.accuracy.evaluate import FLOAT32
from symgrad.accuracy.measure import Score, ulp_text
from symgrad.compiler.compile import compile_operation
from symgrad.compiler.operation import Operation, Variant
from symgrad.compiler.workbench import Workbench
from symgrad.explain.derive import as_written, derivation
from symgrad.explain.equations import equations
from symgrad.explain.gain import gain
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import substitute
from symgrad.parse import Program, parse_formulas
from symgrad.parse.formula import formula
from symgrad.report import mathml
from symgrad.report.curves import Panel, panels, quantity_name
from symgrad.resources import environment
from symgrad.spec import Spec
from symgrad.targets.torch.figures import pointwise_choices

__all__ = ["html"]

_WIDTH, _HEIGHT = 560, 220
_LEFT, _BOTTOM, _TOP, _RIGHT = 52, 34, 24, 26
_LEAST, _MOST = 0.1, 1e9  # ulp, the ends of the vertical axis
_MOST_STEPS = 40


def html(spec: Spec, *, prove: bool = True, bench: Sequence[Mapping[str, Any]] = ()) -> str:
    """The page about an operation.

    With `prove` SymPy judges every value and derivative, and the page says what it found. `bench` are rows of the JSON
    that `symgrad bench` writes, of which those about the operation are shown.
    Raises SpecError for a spec with mistakes.
    """
    operation = compile_operation(parse_formulas(spec))
    found = derivation(operation, prove=prove)
    variants = [_variant(operation, path, variant) for path, variant in operation.variants()]
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            e=escape,
            spec=spec,
            version=__version__,
            gain=gain(found),
            written=list(_written(operation.program)),
            variants=variants,
            plan=found.plan,
            notes=found.notes,
            proofs=found.proofs,
            prover=found.prover,
            bench=[row for row in bench if row.get("op") == spec.op],
            figure=_figure,
        )
    )


def _written(program: Program) -> Iterator[tuple[str, str]]:
    """Intermediates and outputs as equations by name; of an intermediate that has several results each of these."""
    values = {**program.lets, **program.outputs}
    for own in (*program.spec.let, *(o.formula for o in program.spec.outputs)):
        results = [name for name in program.lets if name.rpartition("_")[0] == own.name]
        for name in [own.name] if own.name in values else results:
            known = {v: k for k, v in program.lets.items() if k != name and v.args}
            named = substitute(values[name], {v: make("sym", name=k, kind="tensor") for v, k in known.items()})
            yield name, mathml.equation(mathml.name(name), named)


# ------------------------------------------------------------------------------------------------ one variant
@dataclass(frozen=True)
class _Step:
    rule: str
    why: str
    text: str
    ulp: str


@dataclass(frozen=True)
class _Quantity:
    """One output or derivative: its steps with their errors, and its panels by input."""

    name: str
    steps: tuple[_Step, ...]
    panels: tuple[tuple[Panel, str], ...]


@dataclass(frozen=True)
class _Variant:
    title: str
    derivatives: tuple[str, ...]
    quantities: tuple[_Quantity, ...]


def _variant(operation: Operation, path: tuple[str, ...], variant: Variant) -> _Variant:
    quantities = [
        _Quantity(
            quantity_name(row[0], row[1]),
            tuple(_steps(operation, variant, row)),
            tuple((panel, _svg(panel)) for panel in panels(operation, variant, row)),
        )
        for row in pointwise_choices(variant)
    ]
    rows = equations(variant, operation.program)
    shown = tuple(mathml.equation(mathml.quantity(label), value) for label, value, _ in rows)
    return _Variant(", ".join(path), shown, tuple(quantities))


def _steps(operation: Operation, variant: Variant, row: tuple[str, str | None, Choice, Expr]) -> Iterator[_Step]:
    """The formula, and what each rule made of the whole of it, with the error in float32.

    Of a derivative first what autograd makes of the formula as written.
    """
    output, tensor, choice, _ = row
    written = variant.formulas[output]
    judge = Workbench(operation.program, operation.memory).judge(choice.formula)

    def step_of(rule: str, why: str, form: Expr, wide: bool = False) -> _Step:
        return _Step(rule, why, formula(form), _off(judge.score(form, FLOAT32, wide)))

    form, steps = choice.formula, choice.steps
    if tensor is None:
        form, steps = written, (*variant.recognitions.get(output, ()), *steps)
        yield step_of("as written", "", form)
    else:
        score = as_written(judge, written, operation.program.symbols[tensor], FLOAT32)
        yield _Step("autograd of the formula as written", "", formula(written), _off(score))
        yield step_of("differentiated", "", form)
    for step in steps[:_MOST_STEPS]:
        after = substitute(form, {step.before: step.after})
        if after is not form:
            form = after
            yield step_of(step.rule, step.why, form)
    if form is not choice.chosen.form or choice.chosen.wide:
        yield step_of("chosen", "in float64" if choice.chosen.wide else "", choice.chosen.form, choice.chosen.wide)


def _off(score: Score) -> str:
    return f"{'not finite at some points, ' if score.failures else ''}{ulp_text(score.ulp)} ulp"


# ------------------------------------------------------------------------------------------------ plots
def _svg(panel: Panel) -> str:
    """Errors over an input: a dot for each point, those that are not finite on the upper edge."""
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    span = math.log10(_MOST / _LEAST)

    def x(place: float) -> float:
        return _LEFT + place * width

    def y(ulp: float) -> float:
        share = math.log10(min(max(ulp, _LEAST), _MOST) / _LEAST) / span
        return _TOP + (1 - share) * height

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="error of {escape(panel.quantity)} over {escape(panel.by)}">'
    ]
    for power in range(0, 9, 2):
        level = y(10.0**power)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{level:.1f}" y2="{level:.1f}"/>')
        label = "1" if power == 0 else f'10<tspan dy="-4" font-size="8">{power}</tspan>'
        parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{level + 3:.1f}" text-anchor="end">{label}</text>')
    for place, text in panel.axis.ticks:
        parts.append(f'<text class="tick" x="{x(place):.1f}" y="{_HEIGHT - 16}" text-anchor="middle">{text}</text>')
    parts.append(f'<text class="tick" x="{_LEFT}" y="10" text-anchor="start">not finite</text>')
    end, middle = _WIDTH - _RIGHT, round(_TOP + height / 2)
    parts.append(f'<text class="tick" x="{end}" y="{_HEIGHT - 3}" text-anchor="end">{escape(panel.by)}</text>')
    turned = f'x="12" y="{middle}" transform="rotate(-90 12 {middle})" text-anchor="middle"'
    parts.append(f'<text class="tick" {turned}>error, ulp</text>')
    for curve, kind in zip(panel.curves, ("theirs", "ours"), strict=True):
        dots = []
        for place, error in zip(panel.axis.places, curve.errors, strict=True):
            if error is not None:
                level = _TOP - 5 if math.isinf(error) else y(error)
                dots.append(f"M{x(place):.1f} {level:.1f}h0")
        parts.append(f'<path class="{kind}" d="{"".join(dots)}"/>')
    return "".join([*parts, "</svg>"])


def _figure(number: float) -> str:
    return f"{number:.3g}"
