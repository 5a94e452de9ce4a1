"""A variant that was compiled in terms of sums of its tensors, in terms of the tensors themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from symgrad.accuracy.candidates import Choice
from symgrad.compiler.operation import Variant
from symgrad.differentiate.symbols import cotangent, tangent
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import substitute
from symgrad.parse import Program
from symgrad.plan.hoist import hoisted
from symgrad.plan.pivot import Pivot, Pivots
from symgrad.plan.saving import Plan, plan

Key: TypeAlias = "tuple[str, str]"
"""An output and a tensor."""

_WHY = "stands for its operands; an output of plain calls, so that second derivatives pass through it"


def through_pivots(program: Program, pivots: Pivots, returned: bool, inner: Variant) -> Variant:
    """A variant in terms of the tensors, from that in terms of their sums, which are outputs too if `returned`."""
    by_tensor = _ByTensor(program, pivots, inner)
    gradients, tangents = by_tensor.gradients(), dict(by_tensor.tangents)
    outputs = {name: pivots.outside(form) for name, form in inner.outputs.items()}
    formulas = {name: pivots.written(form) for name, form in inner.formulas.items()}
    for p in pivots.sums if returned else ():
        outputs[p.name], formulas[p.name] = p.whole, p.value
        for t in (name for name in by_tensor.own if name in p.own):
            gradients[p.name, t] = make("sum_to", p.pulled(t, cotangent(p.name, p.value)), by_tensor.own[t])
            tangents[p.name, t] = p.tangent(t)
    return replace(
        inner,
        formulas=formulas,
        outputs=outputs,
        gradients=gradients,
        tangents=tangents,
        partials=by_tensor.partials,
        value_choices={name: _outside(pivots, c, ex.ONE) for name, c in inner.value_choices.items()},
        slope_choices=by_tensor.choices,
        plan=_plan(program, pivots, formulas, outputs, list(gradients.values())),
        recognitions={
            name: tuple(s.mapped(pivots.written) for s in steps) for name, steps in inner.recognitions.items()
        },
        lets={pivots.outside(form): name for form, name in inner.lets.items()},
        stand_ins={key: {s: pivots.written(op) for s, op in own.items()} for key, own in by_tensor.stand_ins.items()},
    )


class _ByTensor:
    """The derivatives by tensors: by the sums that read each, and by itself where something else does too."""

    def __init__(self, program: Program, pivots: Pivots, inner: Variant) -> None:
        self.own = {t.name: program.symbols[t.name] for t in program.spec.tensors if t.grad}
        self.tangents: dict[Key, Expr] = {}
        self.partials: dict[Key, Expr] = {}
        self.choices: dict[Key, Choice] = {}
        self.stand_ins: dict[Any, Mapping[Expr, Expr]] = {o: inner.stand_ins[o] for o in inner.value_choices}
        self._gradients: dict[Key, Expr] = {}
        self._unsummed: dict[Key, Expr] = {}  # not yet summed to the shape of the tensor
        self._pivots = pivots
        self._inner = inner
        through_sums = [(t, p.name, p) for t in self.own for p in pivots.of(t)]
        self._parts: list[tuple[str, str, Pivot | None]] = [*through_sums, *((t, t, None) for t in self.own)]
        for output in inner.formulas:
            for tensor, part, pivot in self._parts:
                self._add_gradient(output, tensor, part, pivot)
                self._add_tangent(output, tensor, part, pivot)
                if self._is_pointwise(output, tensor, pivot):
                    self._add_partial(output, tensor, part, pivot)

    def gradients(self) -> dict[Key, Expr]:
        """The contribution of each output's cotangent to each tensor's gradient."""
        summed = {
            (o, t): ex.add(make("sum_to", whole, self.own[t]), self._gradients.get((o, t), ex.ZERO))
            for (o, t), whole in self._unsummed.items()
        }
        return self._gradients | summed

    def _add_gradient(self, output: str, tensor: str, part: str, pivot: Pivot | None) -> None:
        gradient = self._inner.gradients.get((output, part))
        if gradient is not None:
            found = self._unsummed if pivot and pivot.coefficients else self._gradients
            _add(found, (output, tensor), self._pivots.outside(pivot.pulled(tensor, gradient) if pivot else gradient))

    def _add_tangent(self, output: str, tensor: str, part: str, pivot: Pivot | None) -> None:
        value = self._inner.tangents.get((output, part))
        if value is not None:
            if pivot:
                moved = make("expand", pivot.tangent(tensor), pivot.stand_in)
                value = hoisted(substitute(value, {tangent(part): moved}))
            _add(self.tangents, (output, tensor), self._pivots.outside(value))

    def _is_pointwise(self, output: str, tensor: str, pivot: Pivot | None) -> bool:
        """Whether an output has a partial derivative: none reads the tensor through a sum over its elements."""
        sums = (p for p in self._pivots.of(tensor) if not p.coefficients)
        return not any(p is pivot or (output, p.name) in self._inner.gradients for p in sums)

    def _add_partial(self, output: str, tensor: str, part: str, pivot: Pivot | None) -> None:
        inner, key, source = self._inner, (output, tensor), (output, part)
        factor = pivot.coefficients[tensor] if pivot else ex.ONE
        if source in inner.partials:
            _add(self.partials, key, self._pivots.written(factor * inner.partials[source]))
        ways = [name for other, name, _ in self._parts if other == tensor and (output, name) in inner.gradients]
        if source in inner.slope_choices and len(ways) < 2:
            self.choices[key] = _outside(self._pivots, inner.slope_choices[source], factor)
            self.stand_ins[key] = inner.stand_ins[source]


def _add(found: dict[Key, Expr], key: Key, term: Expr) -> None:
    found[key] = ex.add(found.get(key, ex.ZERO), term)


def _plan(
    program: Program,
    pivots: Pivots,
    formulas: Mapping[str, Expr],
    outputs: Mapping[str, Expr],
    gradients: Sequence[Expr],
) -> Plan:
    """What is saved, the sums with a reason of their own."""
    spec = program.spec
    fixed_outputs = {o.name for o in spec.outputs if not o.grad}
    differentiable = [name for name in outputs if name not in fixed_outputs]
    tensors = [program.symbols[t.name] for t in spec.tensors]
    policy = spec.options.save
    chosen = plan(formulas, outputs, gradients, policy, program.fixed, differentiable, tensors=tensors, extras=False)
    sums = {form for p in pivots.sums for form in (p.value, p.whole)}
    return replace(chosen, saved=tuple(replace(s, reason=_WHY) if s.value in sums else s for s in chosen.saved))


def _outside(pivots: Pivots, choice: Choice, factor: Expr) -> Choice:
    """A choice made in terms of the sums, in terms of the tensors."""
    return choice.mapped(lambda form: pivots.written(factor * form), pivots.written)
