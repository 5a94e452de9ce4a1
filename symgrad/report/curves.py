"""How large errors are over each input: of the emitted forms, and of autograd on the formula as written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from symgrad.accuracy.autograd import Autograd
from symgrad.accuracy.candidates import Choice
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Environment
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.measure import PRECISIONS, Judge
from symgrad.accuracy.simulate import Simulation
from symgrad.compiler.hyperparameters import usual_value
from symgrad.compiler.operation import Operation, Variant
from symgrad.ir.expr import Expr
from symgrad.spec.model import Tensor

__all__ = ["Panel", "panels", "quantity_name"]

_POINTS = 140  # of a curve
_LEAST, _MOST = 1e-4, 1e4  # magnitudes that an unbounded input goes through
_MODERATE = (0.8203125, 1.37890625, -0.4296875, 2.1015625, -0.6328125)  # what the other inputs are
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Axis:
    """Values of an input with their places from 0 to 1, and where to write which."""

    values: tuple[float, ...]
    places: tuple[float, ...]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Curve:
    """Errors in ulp of float32 by point, infinite where the result is not finite; None where there is no truth."""

    name: str
    errors: tuple[float | None, ...]


@dataclass(frozen=True)
class Panel:
    """The errors of one quantity over one input; `others` says what the other inputs are."""

    quantity: str
    by: str
    axis: Axis
    curves: tuple[Curve, ...]
    others: str


def panels(operation: Operation, variant: Variant, quantity: tuple[str, str | None, Choice, Expr]) -> Iterator[Panel]:
    """A panel for each float input of a quantity that is pointwise: output, tensor or None, choice, emitted form."""
    for own in operation.program.spec.tensors:
        if own.dtype == "float" and operation.program.symbols[own.name] in quantity[2].formula.symbols:
            yield _panel(operation, variant, quantity, own)


def quantity_name(output: str, tensor: str | None) -> str:
    """An output, or its derivative."""
    return output if tensor is None else f"∂{output}/∂{tensor}"


def _panel(
    operation: Operation, variant: Variant, quantity: tuple[str, str | None, Choice, Expr], own: Tensor
) -> Panel:
    output, tensor, choice, form = quantity
    program = operation.program
    symbol = program.symbols[own.name]
    axis = _axis(own)
    fixed = _others(operation, symbol)
    written = variant.formulas[output]
    needed = choice.formula.symbols | form.symbols | written.symbols
    points: list[Environment] = [{**{s: fixed.get(s, 1.0) for s in needed}, symbol: value} for value in axis.values]
    precision = PRECISIONS[program.spec.options.precision]
    judge = Judge(choice.formula, {FLOAT32: points, FLOAT64: points[:1]}, precision)
    emitted = judge.measure(form, FLOAT32, choice.chosen.wide).errors
    if tensor is None:
        composite = Simulation(points, FLOAT32)(machine_form(written))
    else:
        composite = Autograd(written, points, FLOAT32)(program.symbols[tensor])
    theirs = judge.errors_of(composite, FLOAT32).errors
    count = range(len(points))
    shown = [f"{s.name} = {_short(fixed[s])}" for s in sorted(needed - {symbol}, key=lambda s: s.name) if s in fixed]
    return Panel(
        quantity_name(output, tensor),
        own.name,
        axis,
        (
            Curve("autograd of the formula as written", tuple(theirs.get(k) for k in count)),
            Curve("symgrad", tuple(emitted.get(k) for k in count)),
        ),
        ", ".join(shown),
    )


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, bool | str) else f"{value:.4g}"


def _others(operation: Operation, by: Expr) -> dict[Expr, Any]:
    """Values of everything but one input: moderate ones, and defaults."""
    program = operation.program
    found: dict[Expr, Any] = {}
    for k, tensor in enumerate(program.spec.tensors):
        symbol = program.symbols[tensor.name]
        if symbol is by:
            continue
        if tensor.dtype == "bool":
            found[symbol] = True
        elif tensor.dtype == "int":
            found[symbol] = 1.0
        else:
            found[symbol] = FLOAT32.round(_inside(tensor, k))
    for h in program.spec.hyperparameters:
        found[program.symbols[h.name]] = usual_value(program.spec, h)
    return found


def _inside(tensor: Tensor, k: int) -> float:
    low, high = _bounds(tensor)
    value = _MODERATE[k % len(_MODERATE)]
    if math.isfinite(low) and math.isfinite(high):
        return low + (high - low) * (0.3 + 0.1 * (k % 5))
    if math.isfinite(low):
        return low + abs(value)
    return high - abs(value) if math.isfinite(high) else value


def _bounds(tensor: Tensor) -> tuple[float, float]:
    domain = tensor.domain
    return (-math.inf, math.inf) if domain is None else (domain.lower, domain.upper)


def _axis(tensor: Tensor) -> Axis:
    """A linear axis in bounded domains, else magnitudes from small to large on each side of what the domain leaves."""
    low, high = _bounds(tensor)
    shares = [(k + 0.1 + 0.8 * (k * _GOLDEN % 1.0)) / _POINTS for k in range(_POINTS)]
    if math.isfinite(low) and math.isfinite(high):
        pairs = [(low + (high - low) * share, share) for share in shares]
        ticks = [(share, f"{low + (high - low) * share:.3g}") for share in (0, 0.25, 0.5, 0.75, 1)]
    elif math.isfinite(low) or math.isfinite(high):
        edge, way = (low, 1) if math.isfinite(low) else (high, -1)
        pairs = [(edge + way * _LEAST * (_MOST / _LEAST) ** share, share) for share in shares]
        sizes = [10.0**n for n in (-4, -2, 0, 2, 4)]
        ticks = [(k / 4, f"{edge + way * size:g}") for k, size in enumerate(sizes)]
    else:
        pairs = []
        for share in shares:
            size = _LEAST * (_MOST / _LEAST) ** abs(2 * share - 1)
            pairs.append((math.copysign(size, share - 0.5), share))
        ticks = [((1 + s * k / 4) / 2, f"{s * 10.0 ** (2 * k - 4):g}") for s in (-1, 1) for k in (1, 2, 3, 4)]
        ticks.append((0.5, "0"))
    rounded = {FLOAT32.round(value): place for value, place in pairs}
    inside = {v: p for v, p in rounded.items() if tensor.domain is None or v in tensor.domain}
    return Axis(tuple(inside), tuple(inside.values()), tuple(sorted(ticks)))
