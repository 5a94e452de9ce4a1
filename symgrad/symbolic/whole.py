"""Claims about whole tensors, judged element by element at small explicit sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from symgrad.accuracy.evaluate import Environment
from symgrad.compiler.workbench import hyperparameter_values
from symgrad.errors import SymgradError
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, symbol
from symgrad.parse import Program
from symgrad.spec.interval import Interval
from symgrad.spec.model import Tensor
from symgrad.symbolic.elements import Elements, contract
from symgrad.symbolic.field import Undecided
from symgrad.symbolic.prove import Claim, Verdict, judge

if TYPE_CHECKING:
    import numpy

__all__ = ["of_whole_tensors"]

_WITNESSES = 6
_MOST_ELEMENTS = 64
_SIZES = ((2, 3), (1, 2))  # of dimensions; the shape of tensors whose shape a spec leaves open
_GOLDEN = (math.sqrt(5) - 1) / 2
_WORST = ("refuted", "unjudged", "agrees", "approximates", "partly", "proven")


def of_whole_tensors(claim: Claim, program: Program) -> Verdict:
    """The worst verdict on the elements of a claim, at a small size of every dimension.

    What is too large for a proof there is proven at a smaller one.
    """
    first = _at_size(claim, program, _SIZES[0])
    if first.outcome != "agrees":
        return first
    second = _at_size(claim, program, _SIZES[1])
    if second.outcome != "proven":
        return second if second.outcome == "refuted" else first
    return replace(second, detail=f"at the smallest sizes; at others it agrees at {first.points} points to 50 digits")


def _at_size(claim: Claim, program: Program, sizes: tuple[int, int]) -> Verdict:
    try:
        parts = _of_elements(claim, program, sizes)
        symbols = [s for part in parts for e in (part.formula, part.emitted) for s in e.symbols]
        points = _witnesses(list(dict.fromkeys(symbols)), program)
        verdicts = [judge(part, points) for part in parts]
    except SymgradError as error:
        return Verdict(claim.subject, "unjudged", str(error))
    worst = min(verdicts, key=lambda v: _WORST.index(v.outcome))
    regimes = max(v.regimes for v in verdicts)
    return Verdict(claim.subject, worst.outcome, worst.detail, regimes, worst.points)


def _of_elements(claim: Claim, program: Program, smallest: tuple[int, int]) -> list[Claim]:
    arrays = _arrays(program, smallest)
    values = {h.name: hyperparameter_values(program.spec, h)[0] for h in program.spec.hyperparameters}
    elements = Elements(arrays, values)
    formula = elements(claim.formula)
    if claim.by is None:
        emitted = _broadcast(elements(claim.emitted), formula.shape)
        pairs = zip(formula.ravel(), emitted.ravel(), strict=True)
        return [Claim(claim.subject, a, b) for a, b in pairs]
    own = arrays[claim.by]
    seeds = _named("seed", formula.shape, "cotangent")
    weighted = contract(seeds, formula)
    if claim.factor["kind"] == "cotangent":
        emitted = _broadcast(Elements({**arrays, claim.factor: seeds}, values)(claim.emitted), own.shape)
        pairs = zip(own.ravel(), emitted.ravel(), strict=True)
        return [Claim(claim.subject, weighted, b, x) for x, b in pairs]
    found = []
    for k, x in enumerate(own.ravel()):
        direction = _filled(own.shape, ex.ZERO)
        direction.flat[k] = ex.ONE
        pushed = _broadcast(Elements({**arrays, claim.factor: direction}, values)(claim.emitted), formula.shape)
        found.append(Claim(claim.subject, weighted, contract(seeds, pushed), x))
    return found


def _broadcast(found: numpy.ndarray, shape: tuple[int, ...]) -> numpy.ndarray:
    import numpy as np

    return np.broadcast_to(found, shape)


def _filled(shape: tuple[int, ...], value: Expr) -> Any:
    import numpy as np

    found = np.empty(shape, dtype=object)
    for place in np.ndindex(*shape):
        found[place] = value
    return found


def _named(name: str, shape: tuple[int, ...], kind: str) -> Any:
    import numpy as np

    found = np.empty(shape, dtype=object)
    for place in np.ndindex(*shape):
        found[place] = symbol("_".join([name, *map(str, place)]), kind)
    return found


def _arrays(program: Program, some: tuple[int, int]) -> dict[Expr, Any]:
    """Symbols for the elements of every tensor; dimensions without a size have one of `some` in turn."""
    sizes: dict[str, int] = {}
    arrays: dict[Expr, Any] = {}
    for tensor in program.spec.tensors:
        own = program.symbols[tensor.name]
        arrays[own] = _named(tensor.name, _shape(tensor, sizes, some), own["kind"])
    return arrays


def _shape(tensor: Tensor, sizes: dict[str, int], some: tuple[int, int]) -> tuple[int, ...]:
    if tensor.shape is None:
        return some
    found: list[int] = []
    for dim in tensor.shape:
        if isinstance(dim, int):
            found.append(dim)
        elif dim == "...":
            found.append(some[0])
        else:
            found.append(sizes.setdefault(str(dim), some[len(sizes) % 2]))
    if math.prod(found) > _MOST_ELEMENTS:
        raise Undecided(f"{tensor.name} has {math.prod(found)} elements")
    return tuple(found)


def _witnesses(symbols: list[Expr], program: Program) -> list[Environment]:
    """Points: for every element a value that its domain allows, and that no other has."""
    domains: Mapping[str, Interval | None] = {t.name: t.domain for t in program.spec.tensors}
    scalars = {program.symbols[h.name]: hyperparameter_values(program.spec, h)[0] for h in program.spec.hyperparameters}
    points: list[Environment] = []
    for k in range(_WITNESSES):
        point: dict[Expr, Any] = dict(scalars)
        for j, s in enumerate(symbols):
            if s in scalars:
                continue
            share = ((k * len(symbols) + j + 1) * _GOLDEN) % 1.0
            name = s.name if s.name in domains else s.name.rstrip("_0123456789")
            point[s] = _placed(share, s["kind"], domains.get(name))
        points.append(point)
    return points


def _placed(share: float, kind: str, domain: Interval | None) -> Any:
    if kind == "bool_tensor":
        return share < 0.5
    low, high = (-2.0, 2.0) if domain is None else (domain.lower, domain.upper)
    if not math.isfinite(low) and not math.isfinite(high):
        low, high = -2.0, 2.0
    elif not math.isfinite(high):
        low, high = low + 0.1, low + 3.0
    elif not math.isfinite(low):
        low, high = high - 3.0, high - 0.1
    value = low + (high - low) * (0.02 + 0.96 * share)
    return float(round(value)) if kind == "int_tensor" else float(f"{value:.4f}")
