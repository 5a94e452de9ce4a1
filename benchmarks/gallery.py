"""The gallery of the site: every spec with its formula, derivatives, curves, error, bytes and speed.

python benchmarks/gallery.py > docs/gallery.md

Values and derivatives are drawn as the generated Function computes them, in float64. Speed is that of
docs/measurements.md.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import torch

from symgrad.compiler.compile import compile_operation
from symgrad.compiler.operation import Operation, Variant
from symgrad.explain.derivation import AccuracyRow
from symgrad.explain.derive import derivation
from symgrad.explain.equations import equations
from symgrad.ir.expr import make
from symgrad.ir.traversal import substitute
from symgrad.parse import parse_formulas
from symgrad.report import mathml
from symgrad.spec import Spec, load_spec
from symgrad.testing.review import generated_subject
from symgrad.testing.samples import bound, draw, listed

ROOT = Path(__file__).parents[1]
SPECS = sorted((ROOT / "specs").glob("*.yaml"))

HEAD = """\
# Gallery

What the specs of this repository become. Curves are drawn as the generated Function computes them: value,
<span class="first">first</span> and <span class="second">second derivative</span> of one element, where the others are
fixed. Errors are the largest in ulp of float32 where forms are measured, up to 1e30, less what half an ulp in each
input would change; bytes are those kept for backward, for each element of the largest tensor. Times are backward's as a
ratio to the composite's under autograd ([measurements](measurements.md)); below 1 is faster.

The page is made by `python benchmarks/gallery.py > docs/gallery.md`, and `symgrad report` makes one with more of each.
Of a specification with branches one is shown."""

_POINTS = 61
_WIDTH, _HEIGHT, _EDGE = 250, 120, 8
_LONG = 6000  # characters of one equation


def speeds(page: Path = ROOT / "docs" / "measurements.md") -> dict[str, str]:
    """Backward's time beside the composite's, by operation, as the page of measurements has it."""
    found = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 12 and re.fullmatch(r"[\d.]+", cells[7]):
            found[cells[1]] = cells[7]
    return found


def entry(spec: Spec, speed: Mapping[str, str]) -> str:
    """The part of the page about an operation."""
    operation = compile_operation(parse_formulas(spec))
    path, variant = operation.variants()[0]
    case = f" where {' and '.join(path)}" if path else ""
    parts = [f"## {spec.op}", ""]
    parts += [f"{escape(spec.summary)}{case and f' Shown{case}.'}", ""] if spec.summary or case else []
    maths = "".join(_equations(operation, variant))
    drawn = "".join(_svg(by, ys, k) for k, (by, ys) in enumerate(curves(spec)))
    parts.append(f'<div class="operation"><div class="maths">{maths}</div><div class="curves">{drawn}</div></div>')
    return "\n".join([*parts, "", *_figures(operation, variant, speed), ""])


def _equations(operation: Operation, variant: Variant) -> Iterator[str]:
    """The formula as written, then the derivatives as they are computed."""
    program = operation.program
    for formula in (*program.spec.let, *(o.formula for o in program.spec.outputs)):
        value = program.lets.get(formula.name, program.outputs.get(formula.name))
        if value is not None:
            known = {v: k for k, v in program.lets.items() if k != formula.name and v.args}
            named = substitute(value, {v: make("sym", name=k, kind="tensor") for v, k in known.items()})
            yield _shown(mathml.name(formula.name), named, f"{formula.name} = {formula.line}")
    for label, value, _ in equations(variant, program):
        yield _shown(mathml.quantity(label), value, label)


def _shown(left: str, value: Any, text: str) -> str:
    """An equation on one line of HTML; its text where it would be too long."""
    found = " ".join(mathml.equation(left, value).split())
    return found if len(found) <= _LONG else f"<p><code>{escape(text)}</code></p>"


def _figures(operation: Operation, variant: Variant, speed: Mapping[str, str]) -> Iterator[str]:
    rows = [r for r in derivation(operation).accuracy if not r.local]
    plan, op = variant.plan, operation.program.spec.op
    yield "| | symgrad | autograd |"
    yield "| --- | --- | --- |"
    for row in rows:
        yield f"| error of {row.subject.replace('|', ' ')}, ulp | {row.ulp32:.2g} | {_of_autograd(row)} |"
    yield f"| bytes kept | {plan.bytes:g} | {plan.composite_bytes:g} |"
    if op in speed:
        yield f"| time of backward | {speed[op]} | 1 |"


def _of_autograd(row: AccuracyRow) -> str:
    return "not finite" if row.composite_nonfinite else f"{row.composite_ulp32:.2g}"


# ------------------------------------------------------------------------------------------------ curves
def curves(spec: Spec) -> list[tuple[str, list[list[float]]]]:
    """Over each of the first two tensors: its name, then places, values, first and second derivatives."""
    subject = generated_subject(spec)
    function = bound(subject.call, subject.settings[0])
    found = []
    for place in subject.places[:2]:
        own = subject.inputs[place]
        given = [t if t is None else t.detach() for t in draw(subject)]
        if given[place] is None or not given[place].numel():
            continue
        low, high = max(own.low, own.domain[0] + 1e-3), min(own.high, own.domain[1] - 1e-3)
        places = [low + (high - low) * k / (_POINTS - 1) for k in range(_POINTS)]
        rows = [_at(subject, function, given, place, value) for value in places]
        found.append((own.name, [places, *map(list, zip(*rows, strict=True))]))
    return found


def _at(subject: Any, function: Any, given: Sequence[Any], place: int, value: float) -> tuple[float, float, float]:
    """The first element of the first output, and its derivatives in the first element of a tensor; NaN for none."""
    x = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    rest = given[place].flatten()[1:]
    tensors = [*given]
    tensors[place] = torch.cat((x.reshape(1), rest)).reshape(given[place].shape)
    y = listed(subject, function(*tensors))[subject.live[0]].flatten()[0]
    try:
        (first,) = torch.autograd.grad(y, x, create_graph=True, materialize_grads=True)
        (second,) = torch.autograd.grad(first, x, materialize_grads=True) if first.requires_grad else (x * 0,)
    except RuntimeError:  # a spec without second derivatives
        return y.item(), first.item(), math.nan
    return y.item(), first.item(), second.item()


def _svg(by: str, columns: list[list[float]], number: int) -> str:
    """Three curves in one picture, on a common scale that leaves out the outermost values."""
    places, *curves = columns
    finite = sorted(y for curve in curves for y in curve if math.isfinite(y))
    low, high = (finite[len(finite) // 50], finite[-1 - len(finite) // 50]) if finite else (0.0, 1.0)
    low, high = (low - 0.5, high + 0.5) if high - low < 1e-9 else (low, high)

    def x(value: float) -> float:
        return _EDGE + (value - places[0]) / (places[-1] - places[0] or 1) * (_WIDTH - 2 * _EDGE)

    def y(value: float) -> float:
        share = (min(max(value, low - (high - low)), high + (high - low)) - low) / (high - low)
        return _HEIGHT - _EDGE - share * (_HEIGHT - 2 * _EDGE)

    parts = [f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="over {escape(by)}">']
    if low <= 0 <= high:
        parts.append(f'<line class="zero" x1="{_EDGE}" x2="{_WIDTH - _EDGE}" y1="{y(0):.0f}" y2="{y(0):.0f}"/>')
    for kind, curve in zip(("second", "first", "value"), reversed(curves), strict=True):
        dots, down = [], False
        for place, level in zip(places, curve, strict=True):
            if math.isfinite(level):
                dots.append(f"{'L' if down else 'M'}{x(place):.0f} {y(level):.1f}")
            down = math.isfinite(level)
        parts.append(f'<path class="{kind}" d="{"".join(dots)}"/>')
    range_ = f"over {escape(by)} from {places[0]:.3g} to {places[-1]:.3g}; height from {low:.3g} to {high:.3g}"
    return "".join([*parts, f"</svg><figcaption>{range_}</figcaption></figure>"])


def main(paths: Sequence[Path] = SPECS) -> None:
    """Print the page."""
    known = speeds()
    print(HEAD)
    for path in paths:
        print()
        print(entry(load_spec(path), known).rstrip(), flush=True)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or SPECS)
