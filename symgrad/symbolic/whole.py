"""Claims about whole tensors, judged element by element at small explicit sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from symgrad.accuracy.evaluate import Environment
from symgrad.analysis.places import places
from symgrad.compiler.hyperparameters import hyperparameter_values, measured_values
from symgrad.errors import SymgradError
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, symbol
from symgrad.ir.traversal import topological
from symgrad.ops.tensors.random import BITS
from symgrad.parse import Program
from symgrad.spec.interval import Interval
from symgrad.spec.model import Tensor
from symgrad.symbolic.element_rules import contract
from symgrad.symbolic.elements import RANDOM_BITS, Elements, NeedsPoint, symbols_of
from symgrad.symbolic.prove import Claim, Verdict, judge
from symgrad.symbolic.rational_functions import Undecided

__all__ = ["of_whole_tensors"]

_WITNESSES = 6
_MOST_ELEMENTS = 64
_SIZES = ((2, 3), (1, 2))  # of dimensions; the shape of tensors whose shape a spec leaves open
_LARGER = (4, 4)  # where slices leave nothing of small ones
_NOTHING = "it has no elements at small sizes"
_GOLDEN = (math.sqrt(5) - 1) / 2
_WORST = ("refuted", "unjudged", "agrees", "approximates", "partly", "proven")


def of_whole_tensors(claim: Claim, program: Program, outputs: Mapping[Expr, Expr]) -> Verdict:
    """The worst verdict on the elements of a claim, at a small size of every dimension.

    What is too large for a proof there is proven at a smaller one. `outputs` are the values whose shapes the
    cotangents in the claim have.
    """
    first = _first_that_fits(claim, program, outputs)
    if first.outcome not in ("agrees", "unjudged"):
        return first
    second = _at_size(claim, program, _Sizes(*_SIZES[1]), outputs)
    if second.outcome != "proven":
        return second if second.outcome == "refuted" else first
    if first.outcome == "unjudged":
        return replace(second, detail=f"at the smallest sizes; at others not judged: {first.detail}")
    return replace(second, detail=f"at the smallest sizes; at others it agrees at {first.points} points to 50 digits")


@dataclass(frozen=True)
class _Sizes:
    """Sizes of dimensions: two that named ones have in turn, or the shapes of the spec's own test."""

    one: int
    two: int
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def _first_that_fits(claim: Claim, program: Program, outputs: Mapping[Expr, Expr]) -> Verdict:
    """The verdict at the first sizes at which the operation has a result: some divide a dimension."""
    tried = [_Sizes(*_SIZES[0]), _Sizes(2, 4)]
    if shapes := program.spec.test.shapes:
        flat = {name: tuple(1 if size == 2 else size for size in shape) for name, shape in shapes.items()}
        tried[1:1] = [_Sizes(*_SIZES[0], shapes), _Sizes(*_SIZES[0], flat)]  # the second where the first is too large
    verdict = _at_size(claim, program, tried[0], outputs)
    for sizes in tried[1:]:
        if verdict.outcome == "unjudged":
            verdict = _at_size(claim, program, sizes, outputs)
    return _at_size(claim, program, _Sizes(*_LARGER), outputs) if verdict.detail == _NOTHING else verdict


def _at_size(claim: Claim, program: Program, sizes: _Sizes, outputs: Mapping[Expr, Expr]) -> Verdict:
    try:
        cells = _cells(claim, program, sizes, outputs)
        verdicts: list[Verdict] = []
        for part, points in cells.items():  # once a proof is out of reach, points alone can refute the claim
            proof = all(v.outcome in ("proven", "partly") for v in verdicts)
            verdicts.append(judge(part, points, proof=proof))
    except SymgradError as error:
        return Verdict(claim.subject, "unjudged", str(error))
    except (ValueError, IndexError) as error:  # of numpy: shapes that do not fit at these sizes
        return Verdict(claim.subject, "unjudged", f"it has no result at small sizes ({str(error).splitlines()[0]})")
    if not verdicts:
        return Verdict(claim.subject, "unjudged", _NOTHING)
    worst = min(verdicts, key=lambda v: _WORST.index(v.outcome))
    regimes = max(v.regimes for v in verdicts)
    return Verdict(claim.subject, worst.outcome, worst.detail, regimes, worst.points)


def _cells(
    claim: Claim, program: Program, sizes: _Sizes, outputs: Mapping[Expr, Expr]
) -> dict[Claim, list[Environment]]:
    """Claims about elements, each with the points at which it is what is claimed.

    Where numbers decide an order, or what is picked, those with another order make other claims.
    """
    arrays = _arrays(program, sizes)
    values = {h.name: hyperparameter_values(program.spec, h)[0] for h in program.spec.hyperparameters}
    free = [s for array in arrays.values() for s in array.ravel()]
    indices = frozenset(s.name for s in places((claim.formula, claim.emitted)))
    points = _witnesses([*free, *_others(claim, arrays)], program, indices)
    try:
        parts = _of_elements(claim, arrays, partial(Elements, values=values), outputs)
        seeds = list(dict.fromkeys(s for p in parts for s in _symbols(p)))
        return dict.fromkeys(parts, _witnesses(seeds, program, indices))
    except NeedsPoint:
        pass
    found: dict[Claim, list[Environment]] = {}
    for k, point in enumerate(points):
        for part in _of_elements(claim, arrays, partial(Elements, values=values, point=point), outputs):
            own = _witnesses([s for s in _symbols(part) if s not in point], program)[k]
            found.setdefault(part, []).append({**own, **point})
    return found


def _symbols(part: Claim) -> list[Expr]:
    """The symbols of a claim about an element, in an order of their own."""
    found = part.formula.symbols | part.emitted.symbols | ({part.by} if part.by is not None else set())
    return sorted(found, key=lambda s: s.name)


def _others(claim: Claim, arrays: Mapping[Expr, Any]) -> list[Expr]:
    """The symbols of a claim that are neither tensors nor what is differentiated."""
    symbols = claim.formula.symbols | claim.emitted.symbols
    return sorted((s for s in symbols if s not in arrays and not s.is_differential), key=lambda s: s.name)


def _of_elements(
    claim: Claim,
    arrays: Mapping[Expr, Any],
    elements: Callable[..., Elements],
    outputs: Mapping[Expr, Expr],
) -> list[Claim]:
    arrays = dict(arrays)
    for symbol_, value in outputs.items():
        if symbol_ in claim.formula.symbols or symbol_ is claim.by:
            arrays[symbol_] = symbols_of(symbol_.name, elements(arrays)(value).shape, "cotangent")
    kept: dict[Expr, Expr] = {}
    if claim.by is not None and any(n.op == "detach" for n in topological(claim.formula)):
        kept = {s: symbol(f"detached_{s.name}", s["kind"]) for array in arrays.values() for s in array.ravel()}
    formula = elements(arrays, detached=kept)(claim.formula)
    if claim.by is None:
        emitted = np.broadcast_to(elements(arrays)(claim.emitted), formula.shape)
        pairs = zip(formula.ravel(), emitted.ravel(), strict=True)
        return [Claim(claim.subject, a, b) for a, b in pairs]
    own = arrays[claim.by]
    seeds = symbols_of("seed", formula.shape, "cotangent")
    weighted = contract(seeds, formula)
    detached = tuple((own, s) for s, own in kept.items() if own in weighted.symbols)
    if not claim.forward:
        emitted = np.broadcast_to(elements({**arrays, claim.factor: seeds})(claim.emitted), own.shape)
        pairs = zip(own.ravel(), emitted.ravel(), strict=True)
        return [Claim(claim.subject, weighted, b, x, detached=detached) for x, b in pairs]
    found = []
    for k, x in enumerate(own.ravel()):
        direction = np.full(own.shape, ex.ZERO, dtype=object)
        direction.flat[k] = ex.ONE
        pushed = np.broadcast_to(elements({**arrays, claim.factor: direction})(claim.emitted), formula.shape)
        found.append(Claim(claim.subject, weighted, contract(seeds, pushed), x, detached=detached))
    return found


def _arrays(program: Program, sizes: _Sizes) -> dict[Expr, Any]:
    """Symbols for the elements of every tensor."""
    known: dict[str, int] = {}
    arrays: dict[Expr, Any] = {}
    for tensor in program.spec.tensors:
        own = program.symbols[tensor.name]
        arrays[own] = symbols_of(tensor.name, _shape(tensor, known, sizes), own["kind"])
    return arrays


def _shape(tensor: Tensor, known: dict[str, int], sizes: _Sizes) -> tuple[int, ...]:
    if tensor.name in sizes.shapes:
        found = list(sizes.shapes[tensor.name])
        known.update((str(d), n) for d, n in zip(reversed(tensor.shape or ()), reversed(found), strict=False))
    elif tensor.shape is None:
        found = [sizes.one, sizes.two]
    else:
        found = []
        for dim in tensor.shape:
            if isinstance(dim, int):
                found.append(dim)
            elif dim == "...":
                found.append(sizes.one)
            else:
                found.append(known.setdefault(str(dim), (sizes.one, sizes.two)[len(known) % 2]))
    if math.prod(found) > _MOST_ELEMENTS:
        raise Undecided(f"a tensor of {math.prod(found)} elements")
    return tuple(found)


def _witnesses(symbols: list[Expr], program: Program, indices: Collection[str] = ()) -> list[Environment]:
    """Points: for every element a value that its domain allows, and that no other has.

    Tensors named in `indices` hold places, of which every dimension has two at least. Of hyperparameters only floats
    vary: others may be attributes.
    """
    domains: dict[str, Interval | None] = {t.name: t.domain for t in program.spec.tensors}
    domains |= dict.fromkeys(indices, Interval(0.0, 1.0, True, True))
    domains[RANDOM_BITS] = Interval(0.0, 2.0**BITS - 1, True, True)
    scalars = {
        program.symbols[h.name]: measured_values(program.spec, h)[: None if h.type == "float" else 1]
        for h in program.spec.hyperparameters
    }
    points: list[Environment] = []
    for k in range(_WITNESSES):
        point: dict[Expr, Any] = {s: own[k % len(own)] for s, own in scalars.items()}
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
