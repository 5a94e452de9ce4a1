"""A variant that was compiled in terms of sums of its tensors, in terms of the tensors themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from symgrad.compiler.operation import Variant
from symgrad.ir import expr as ex
from symgrad.ir.differentials import cotangent, tangent
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import substitute
from symgrad.parse import Program
from symgrad.plan.hoist import hoisted
from symgrad.plan.pivot import Pivots
from symgrad.plan.saving import plan
from symgrad.stabilise.candidates import Choice


def through_pivots(program: Program, pivots: Pivots, returned: bool, inner: Variant) -> Variant:
    """A variant in terms of the tensors, from that in terms of their sums, which are outputs too if `returned`."""
    spec, symbols = program.spec, program.symbols
    own = {t.name: symbols[t.name] for t in spec.tensors if t.grad}
    gradients: dict[tuple[str, str], Expr] = {}
    tangents: dict[tuple[str, str], Expr] = {}
    slopes: dict[tuple[str, str], Expr] = {}
    choices: dict[tuple[str, str], Choice] = {}
    stand_ins: dict[Any, Mapping[Expr, Expr]] = {output: inner.stand_ins[output] for output in inner.value_choices}
    unsummed: dict[tuple[str, str], Expr] = {}
    parts = [(t, p.name, p) for t in own for p in pivots.of(t)] + [(t, t, None) for t in own]
    for output in inner.formulas:
        for t, part, pivot in parts:
            key, source = (output, t), (output, part)
            if source in inner.gradients:
                of_part = inner.gradients[source]
                sums = unsummed if pivot and pivot.coefficients else gradients
                own_part = pivots.outside(pivot.pulled(t, of_part) if pivot else of_part)
                sums[key] = ex.add(sums.get(key, ex.ZERO), own_part)
            if source in inner.tangents:
                value = inner.tangents[source]
                if pivot:
                    moved = make("expand", pivot.tangent(t), pivot.stand_in)
                    value = hoisted(substitute(value, {tangent(part): moved}))
                tangents[key] = ex.add(tangents.get(key, ex.ZERO), pivots.outside(value))
            if any(p is pivot or (output, p.name) in inner.gradients for p in pivots.of(t) if not p.coefficients):
                continue  # the output is not pointwise in the tensor
            factor = pivot.coefficients[t] if pivot else ex.ONE
            if source in inner.partials:
                slopes[key] = ex.add(slopes.get(key, ex.ZERO), pivots.written(factor * inner.partials[source]))
            ways = [name for other, name, _ in parts if other == t and (output, name) in inner.gradients]
            if source in inner.slope_choices and len(ways) < 2:
                choices[key] = _outside(pivots, inner.slope_choices[source], factor)
                stand_ins[key] = inner.stand_ins[source]
    for (o, t), whole in unsummed.items():
        gradients[o, t] = ex.add(make("sum_to", whole, own[t]), gradients.get((o, t), ex.ZERO))
    outputs = {name: pivots.outside(form) for name, form in inner.outputs.items()}
    formulas = {name: pivots.written(form) for name, form in inner.formulas.items()}
    for p in pivots.sums if returned else ():
        outputs[p.name], formulas[p.name] = p.whole, p.value
        for t in (name for name in own if name in p.own):
            gradients[p.name, t] = make("sum_to", p.pulled(t, cotangent(p.name, p.value)), own[t])
            tangents[p.name, t] = p.tangent(t)
    fixed_outputs = {o.name for o in spec.outputs if not o.grad}
    differentiable = [name for name in outputs if name not in fixed_outputs]
    needed, policy, tensors = list(gradients.values()), spec.options.save, [symbols[t.name] for t in spec.tensors]
    chosen = plan(formulas, outputs, needed, policy, program.fixed, differentiable, tensors=tensors, extras=False)
    kept = {form for p in pivots.sums for form in (p.value, p.whole)}
    why = "stands for its operands; an output of plain calls, so that second derivatives pass through it"
    saved = tuple(replace(s, reason=why) if s.value in kept else s for s in chosen.saved)
    recognitions = {name: tuple(s.mapped(pivots.written) for s in steps) for name, steps in inner.recognitions.items()}
    return replace(
        inner,
        formulas=formulas,
        outputs=outputs,
        gradients=gradients,
        tangents=tangents,
        partials=slopes,
        value_choices={name: _outside(pivots, c, ex.ONE) for name, c in inner.value_choices.items()},
        slope_choices=choices,
        plan=replace(chosen, saved=saved),
        recognitions=recognitions,
        lets={pivots.outside(form): name for form, name in inner.lets.items()},
        stand_ins={key: {s: pivots.written(op) for s, op in own.items()} for key, own in stand_ins.items()},
    )


def _outside(pivots: Pivots, choice: Choice, factor: Expr) -> Choice:
    """A choice made in terms of the sums, in terms of the tensors."""
    return choice.mapped(lambda form: pivots.written(factor * form), pivots.written)
