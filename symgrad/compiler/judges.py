"""Where the regions of one operation are measured: at which points, and by which judge.

A region is a pointwise formula between tensor operations; results of tensor operations are free variables in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from symgrad.accuracy.candidates import Choice, Effort
from symgrad.accuracy.domains import within_domains
from symgrad.accuracy.evaluate import FAR, Environment, Format
from symgrad.accuracy.measure import PRECISIONS, Judge
from symgrad.accuracy.sample import Sample
from symgrad.accuracy.sampling import ALL_REALS, sample_points
from symgrad.accuracy.sides import equalities, masks, sides
from symgrad.compiler.hyperparameters import measured_values
from symgrad.compiler.measured import Measured
from symgrad.differentiate.modes import is_tensor_op
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.parse import Program
from symgrad.spec.interval import Interval

__all__ = ["Judges", "Memory"]

_SIZES = [64, 1, 7, 1000]  # of dimensions, at which forms are measured
_BUDGET = 60_000  # point evaluations of one node: bounds the time spent on a large formula
_MASKED = 64  # points at which masks are looked at
_WHOLE = 12  # regions that may spend as much; then each a little less, so that all together grow with the logarithm


@dataclass(frozen=True)
class Memory:
    """What the variants of a program share: sample points, measurements, chosen forms, and what searches may spend.

    Choices are kept by region, and by whether it is a value. `measured` are those of earlier runs.
    """

    samples: dict[tuple[Any, ...], Sample] = field(default_factory=dict)
    points: dict[tuple[Any, ...], dict[Format, list[Environment]]] = field(default_factory=dict)
    judges: dict[Expr, Judge] = field(default_factory=dict)
    choices: dict[tuple[Expr, bool], Choice] = field(default_factory=dict)
    effort: Effort = field(default_factory=Effort)
    measured: Measured | None = None


class Judges:
    """The points and judges of the regions of one variant, kept for all variants in a memory."""

    def __init__(self, program: Program, memory: Memory) -> None:
        self._program = program
        self._memory = memory

    @cached_property
    def _ranges(self) -> dict[Expr, Interval]:
        symbols = self._program.symbols
        return {symbols[t.name]: t.domain or ALL_REALS for t in self._program.spec.tensors}

    @cached_property
    def _may_widen(self) -> bool:
        """Whether the operation can be evaluated in float64: a product or convolution would take many times as long."""
        nodes = topological(*self._program.outputs.values())
        return all(TENSOR_OPS[n.op].recompute for n in nodes if is_tensor_op(n))

    @cached_property
    def _domains(self) -> dict[Expr, Interval]:
        """The intervals of tensors and hyperparameters."""
        symbols, spec = self._program.symbols, self._program.spec
        known = {symbols[h.name]: h.interval for h in spec.hyperparameters}
        return self._ranges | {symbol: interval for symbol, interval in known.items() if interval is not None}

    def _range(self, variable: Expr) -> Interval:
        """Where the values of a variable of a region are: a tensor, or the result of a tensor operation."""
        return self._ranges.get(variable) or variable.get("within") or ALL_REALS

    def _within(self, form: Expr) -> Expr:
        return within_domains(form, self._domains | {s: self._range(s) for s in form.tensors})

    @cached_property
    def _scalars(self) -> dict[Expr, list[Any]]:
        """Values of the hyperparameters at which forms are measured."""
        spec = self._program.spec
        return {self._program.symbols[h.name]: measured_values(spec, h) for h in spec.hyperparameters}

    def points(self, region: Expr, most: int) -> dict[Format, list[Environment]]:
        """Sample points for a region: those of its variables."""
        key = region.tensors, region.symbols, masks(region), equalities(region), most
        if key not in self._memory.points:
            self._memory.points[key] = self._new_points(region, most)
        return self._memory.points[key]

    def _new_points(self, region: Expr, most: int) -> dict[Format, list[Environment]]:
        given = self._is_given(region)  # what is computed from tensors is seldom so large
        tensors, scalars = self._variables(region)
        how = {"powers": self._raises, "ratios": given, "signs": not given}
        points = sample_points(tensors, scalars, most, **how)
        equal = [(s, float(n)) for s, n in equalities(region) if float(n) in self._range(s)]
        added = {
            t: [{**p, s: n} for k, (s, n) in enumerate(equal) for p in own[k % 2 :: 2]] for t, own in points.items()
        }
        conditions = masks(region)
        masking = {s: within for s, within in tensors.items() if any(s in c.tensors for c in conditions)}
        others = {s: within for s, within in tensors.items() if s not in masking}
        if masking and others:
            found = {t: sides(conditions, own) for t, own in sample_points(masking, scalars, _MASKED).items()}
            beside = sample_points(others, scalars, max(4, most // max(map(len, found.values()))), **how)
            added = {t: [*({**p, **side} for p in beside[t] for side in found[t]), *added[t]] for t in points}
        return {t: [*points[t], *added[t]] for t in points}

    def _is_fixed(self, variable: Expr) -> bool:
        """Whether a variable of a region is a tensor that is never differentiated, or made of such tensors alone."""
        return variable in self._program.fixed or bool(variable.get("fixed"))

    def _variables(self, region: Expr) -> tuple[dict[Expr, Interval], dict[Expr, Sequence[Any]]]:
        """Where the tensors of a region are, and the values that its other symbols may have."""
        tensors = {s: self._range(s) for s in sorted(region.tensors, key=lambda s: s.name)}
        scalars: dict[Expr, Sequence[Any]] = {s: v for s, v in self._scalars.items() if s in region.symbols}
        scalars |= {s: _SIZES for s in region.symbols if s["kind"] == "int" and s not in self._scalars}
        return tensors, scalars | {s: [False] for s in region.symbols if s not in scalars and not s.tensors}

    def _is_given(self, region: Expr) -> bool:
        """Whether it is known where the variables of a region are: tensors, and results that lie in an interval."""
        return all(s in self._ranges or s.get("within") for s in region.tensors)

    @cached_property
    def _raises(self) -> bool:
        """Whether a tensor is an exponent: of a negative base it must be an integer."""
        nodes = topological(*self._program.outputs.values())
        return any(n.op == "pow" and n.args[1].tensors and n.args[0].tensors for n in nodes)

    def judge(self, region: Expr) -> Judge:
        """The judge of a region whose leaves are symbols."""
        judges = self._memory.judges
        if region not in judges:
            judges[region] = self._new_judge(region)
        return judges[region]

    def _new_judge(self, region: Expr) -> Judge:
        variables = len(region.tensors)
        size = sum(max(1, len(node.args)) for node in topological(region)) * (variables + 3)
        budget = _BUDGET * min(1.0, _WHOLE / (1 + len(self._memory.choices)))
        sample = self._sample(region, max(4, min(192 + 32 * variables, int(budget) // size)))
        return Judge(region, sample, PRECISIONS[self._program.spec.options.precision])

    def _sample(self, region: Expr, most: int) -> Sample:
        """The points for a region; regions of the same variables share them, and the values that they share there."""
        steps = [m for m in (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256) if m <= most]
        key = (region.symbols, masks(region), equalities(region), steps[-1])
        samples = self._memory.samples
        if key not in samples:
            large = [
                s for s, own in self._ranges.items() if any(FAR < abs(e) < math.inf for e in (own.lower, own.upper))
            ]
            given = self._is_given(region)
            ends = {s: _closed_ends(self._range(s)) for s in region.tensors}
            points = self.points(region, steps[-1])
            samples[key] = Sample(points, limits=given, large=large, computed=not given, ends=ends)
        return samples[key]


def _closed_ends(domain: Interval) -> list[float]:
    return [end for end in (domain.lower, domain.upper) if end in domain]
