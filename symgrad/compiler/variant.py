"""One variant of an operation, stage by stage: recognise, choose forms, differentiate, plan, distribute."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from symgrad.accuracy.widening import in_float64
from symgrad.analysis.sizes import Sizes
from symgrad.compiler.judges import Memory
from symgrad.compiler.operation import Variant
from symgrad.compiler.override import Override, override
from symgrad.compiler.second import NOT_ASKED, Second, second_derivatives, total_gradients
from symgrad.compiler.verify import verified
from symgrad.compiler.workbench import Slope, Workbench, isolate, of_shape
from symgrad.differentiate.modes import is_tensor_op, jvp, vjp
from symgrad.differentiate.symbols import cotangent, tangent
from symgrad.ir.branches import Roots
from symgrad.ir.expr import ZERO, Expr, make
from symgrad.ir.traversal import substitute, topological
from symgrad.ops.tensors.reductions import OF_ROWS
from symgrad.ops.tensors.shapes import ShapeConflict
from symgrad.parse import Program
from symgrad.parse.scope import with_shape
from symgrad.plan.distribute import distribute_cotangents
from symgrad.plan.empty import divided_by_elements
from symgrad.plan.meeting import Accumulated, accumulated
from symgrad.plan.packing import asked_for, with_bits
from symgrad.plan.reading import read_by, readable_from, remaining_cost
from symgrad.plan.reuse import Derivatives, reuse_outputs
from symgrad.plan.saving import Plan, plan, without_unread
from symgrad.plan.subsets import spared

Partials: TypeAlias = Mapping[tuple[str, str], Expr]
"""Expressions by output and tensor."""


def compile_variant(program: Program, memory: Memory, may_keep: bool, roots: Roots) -> Variant:
    """Compile the formulas of one way through the branches; with `may_keep` forward may keep float intermediates."""
    spec = program.spec
    formulas = {o.name: _as_tensor(program, o.name, roots[o.name]) for o in spec.outputs}
    bench = Workbench(program, memory)
    verified("parse", formulas.values())
    read = {name: bench.recognise(root) for name, root in formulas.items()}
    respelled = {name: bench.respelled(form) for name, (form, _) in read.items()}
    recognised = {name: of_shape(form, formulas[name]) for name, (form, _) in respelled.items()}
    verified("recognise", recognised.values())
    wanted = _differentiated(program, formulas)
    derived_of = [recognised[o.name] for o in spec.outputs if o.grad]
    bench.agree(recognised.values(), derived_of, [program.symbols[t] for t in wanted])
    value_choices = {name: bench.chosen(root) for name, root in recognised.items()}
    outputs = {name: bench.settle(root) for name, root in recognised.items()}
    verified("stabilise", outputs.values())
    forward = frozenset(bench.values)
    gradients, tangents = _gradients_and_tangents(program, bench, formulas, recognised, wanted)
    verified("differentiate", [*gradients.values(), *tangents.values()])
    overrides = {t: override(program, formulas, t, roots[f"grad of {t}"], bench) for t in program.gradients}
    differentiable = {o.name: recognised[o.name] for o in spec.outputs if o.grad}
    partials, slopes = bench.pointwise_slopes(differentiable, wanted)
    wide_values = any(choice.chosen.wide for region, choice in bench.values.items() if region in forward)
    wide_slopes, wide_alone = _wide(bench, slopes, forward, formulas)
    extras = may_keep and not (wide_values or wide_slopes or wide_alone)  # float64 is not worth keeping
    named = _packed_forms(program, bench, outputs)
    planner = _Planner(program, bench, formulas, outputs, overrides, slopes, extras, named, wide_slopes)
    derived, chosen = planner.choose(Derivatives(gradients, tangents, partials))
    both = [*derived.gradients.values(), *derived.tangents.values()]
    kept = frozenset(s.value for s in chosen.saved)
    guarded = bench.guarded_anew(both, kept)
    again = guarded | {value: value for value in kept if value.args}  # which is read as it is
    second = _second(program, bench, differentiable, outputs, derived, chosen, roots)
    derived = replace(
        derived,
        gradients={key: substitute(g, again) for key, g in derived.gradients.items()},
        tangents={key: substitute(t, again) for key, t in derived.tangents.items()},
    )
    inside, met, chosen = _distributed(derived, chosen, formulas, overrides)
    verified("plan", [*inside.values(), *met.forms])
    of_tensors = {program.symbols[t]: [g for (_, own), g in inside.items() if own == t] for t in wanted}
    of_tensors |= {program.symbols[t]: [o.gradient] for t, o in overrides.items()}
    chosen = with_bits(spared(chosen, formulas, of_tensors, program.fixed), spec.options.packed, named)
    gradients = _in_float64(inside, wide_alone, chosen)
    return Variant(
        formulas,
        outputs,
        gradients,
        overrides,
        _in_float64(derived.tangents, wide_alone, chosen),
        chosen,
        wide_values=wide_values,
        wide_slopes=wide_slopes,
        wide_alone=wide_alone,
        value_choices=value_choices,
        partials=derived.partials,
        recognitions={name: (*steps, *respelled[name][1]) for name, (_, steps) in read.items()},
        slope_choices={key: bench.remeasured(slope, derived.partials[key]) for key, slope in slopes.items()},
        second=second,
        guarded=guarded,
        lets=_named_forms(program, bench),
        accumulated=Accumulated.apart(gradients) if wide_alone else met,
        stand_ins={
            **{name: isolate(form, program.fixed)[1] for name, form in recognised.items()},
            **{key: {s: op for op, s in slope.stand_ins.items()} for key, slope in slopes.items()},
        },
    )


def _wide(
    bench: Workbench, slopes: Mapping[tuple[str, str], Slope], forward: Collection[Expr], formulas: Mapping[str, Expr]
) -> tuple[bool, frozenset[tuple[str, str]]]:
    """Whether all derivatives are computed in float64, or else which: those that need it, where all are pointwise.

    Beside what is `forward`, values are parts of gradients that the spec gives.
    """
    alone = frozenset(key for key, slope in slopes.items() if slope.choice.chosen.wide)
    nodes = topological(*formulas.values())
    apart = not any(is_tensor_op(n) or n.get("kind") == "bool_tensor" for n in nodes)
    given = any(choice.chosen.wide for region, choice in bench.values.items() if region not in forward)
    if apart and len(alone) < len(slopes) and not given:
        return False, alone
    return given or any(choice.chosen.wide for choice in bench.slopes.values()), frozenset()


def _in_float64(
    derivatives: Mapping[tuple[str, str], Expr], wide: Collection[tuple[str, str]], plan: Plan
) -> dict[tuple[str, str], Expr]:
    saved = frozenset(s.value for s in plan.base)
    return {key: in_float64(form, saved) if key in wide else form for key, form in derivatives.items()}


def _differentiated(program: Program, formulas: Mapping[str, Expr]) -> list[str]:
    """The tensors whose gradients are derived: those that are read, of floats, and not overridden."""
    present = frozenset(s for root in formulas.values() for s in root.tensors)
    floats = [t.name for t in program.spec.tensors if t.grad and t.dtype == "float"]
    return [t for t in floats if t not in program.gradients and program.symbols[t] in present]


def _gradients_and_tangents(
    program: Program,
    bench: Workbench,
    formulas: Mapping[str, Expr],
    recognised: Mapping[str, Expr],
    wanted: Sequence[str],
) -> tuple[dict[tuple[str, str], Expr], dict[tuple[str, str], Expr]]:
    """What each output's cotangent gives to each tensor's gradient, and that tensor's tangent to the output's.

    What is 0 everywhere is left out, as of a tensor that is read where another condition never lets it be.
    """
    gradients: dict[tuple[str, str], Expr] = {}
    tangents: dict[tuple[str, str], Expr] = {}
    symbols = [program.symbols[t] for t in wanted]
    for output in (o.name for o in program.spec.outputs if o.grad):
        root = recognised[output]
        seeds = {root: cotangent(output, formulas[output])}
        for own, gradient in vjp(seeds, symbols, bench.slope_form).items():
            gradients[output, own.name] = bench.finish(gradient)
        for t in wanted:
            pushed = jvp([root], {program.symbols[t]: tangent(t)}, bench.slope_form)
            if root in pushed:
                tangents[output, t] = bench.finish(pushed[root])
    return _without_zeros(gradients), _without_zeros(tangents)


def _without_zeros(derivatives: Mapping[tuple[str, str], Expr]) -> dict[tuple[str, str], Expr]:
    """Those that have a cotangent or a tangent in them, as all have that are not 0: they are linear in it."""
    return {key: form for key, form in derivatives.items() if form.is_differential}


@dataclass(frozen=True)
class _Planner:
    """Chooses what backward reads.

    `slopes` are the partials that were chosen, of outputs that are pointwise; `extras` says whether forward may return
    more than the outputs for backward to read, `wide` whether all of backward is in float64.
    """

    program: Program
    bench: Workbench
    formulas: Mapping[str, Expr]
    outputs: Mapping[str, Expr]
    overrides: Mapping[str, Override]
    slopes: Mapping[tuple[str, str], Slope]
    extras: bool
    named: Mapping[str, Sequence[Expr]]
    wide: bool

    def choose(self, before: Derivatives) -> tuple[Derivatives, Plan]:
        """The derivatives in saved outputs where these are accurate enough, and the plan for them."""
        readable = self._faithful()
        policy = self.program.spec.options.save
        while True:
            derived, chosen = reuse_outputs(before, self.outputs, partial(self._plan, readable), self._error, policy)
            spoiled = self._spoiled(readable, derived, chosen)
            if not spoiled:
                return derived, chosen
            readable = [o for o in readable if o not in spoiled]

    def _faithful(self) -> list[str]:
        """The outputs with the derivatives of their formulas: through others, second ones would be those of a rule."""
        spec = self.program.spec
        ruled = (
            frozenset(self.program.symbols[t] for t in self.overrides) if spec.options.double_backward else frozenset()
        )
        found = [o.name for o in spec.outputs if o.grad and not ruled & self.formulas[o.name].tensors]
        if spec.options.fused:  # a pass keeps the reductions themselves, which no output in half precision rounds
            found = [o for o in found if not _is_reduced(self.formulas[o])]
        return found

    def _plan(self, readable: Sequence[str], derivatives: Derivatives) -> Plan:
        spec, symbols = self.program.spec, self.program.symbols
        kernels = spec.options.fused
        gradients = [*derivatives.gradients.values(), *(o.gradient for o in self.overrides.values())]
        read = frozenset(read_by(gradients, frozenset())) if spec.options.packed else frozenset[Expr]()
        return plan(
            self.formulas,
            self.outputs,
            gradients,
            spec.options.save,
            self.program.fixed,
            readable,
            tensors=[symbols[t.name] for t in spec.tensors],
            extras=self.extras and not kernels,
            fused=kernels,
            packed=asked_for(spec.options.packed, self.named, read),
        )

    def _error(self, partials: Partials) -> float:
        """The largest float32 error of the chosen partials, in the forms that are given."""
        errors = (self.bench.slope_error(self.slopes[k], form) for k, form in partials.items() if k in self.slopes)
        return max(errors, default=0.0)

    def _spoiled(self, readable: Sequence[str], derived: Derivatives, chosen: Plan) -> list[str]:
        """The outputs that backward would read in float32, and that some partial needs in float64, or may need: in no
        partial that was measured as a whole do they occur.

        If what is saved with them is not enough for forward mode, whose guards may read an input where backward reads
        an output, all of them.
        """
        read = {s.value for s in chosen.base if s.source == "output"}
        if not readable_from(frozenset(s.value for s in chosen.base), [*derived.tangents.values()]):
            return [o for o in readable if self.outputs[o] in read]
        forms = [(self.slopes[k], form) for k, form in derived.partials.items() if k in self.slopes]
        values = {o: self.outputs[o] for o in readable if self.outputs[o] in read}
        measured = frozenset(topological(*(slope.flat(form) for slope, form in forms)))
        return [
            o
            for o, value in values.items()
            if (self.wide and value not in measured) or any(self.bench.is_spoiled(*form, value) for form in forms)
        ]


def _is_reduced(value: Expr) -> bool:
    """Whether a value is made of reductions and numbers alone."""
    if value.op in OF_ROWS:
        return True
    parts = [a for a in value.args if not a.is_static]
    return bool(parts) and all(map(_is_reduced, parts))


def _distributed(
    derived: Derivatives, chosen: Plan, formulas: Mapping[str, Expr], overrides: Mapping[str, Override]
) -> tuple[dict[tuple[str, str], Expr], Accumulated, Plan]:
    """The gradients with their cotangents where they cost least; the same added up where their ways meet; and the plan
    with what that leaves to do."""
    kept, sizes = frozenset(s.value for s in chosen.saved), Sizes.of(formulas.values())
    values = {c: root for o, root in formulas.items() for c in (cotangent(o), cotangent(o, root))}

    def estimate(forms: Sequence[Expr]) -> float:
        return remaining_cost(forms, kept, sizes)

    met = accumulated(derived.gradients, values, estimate)
    inside, added = (distribute_cotangents(forms, estimate) for forms in ([*derived.gradients.values()], met.forms))
    tensors = {s.name: s for formula in formulas.values() for s in formula.tensors}
    pairs = [(tensors[t], g) for (_, t), g in zip(derived.gradients, inside, strict=True)]
    gradients = dict(zip(derived.gradients, divided_by_elements(pairs, inside), strict=True))
    met = met.with_forms(divided_by_elements(pairs, added)) if met.meetings else Accumulated.apart(gradients)
    left = {t for _, t in met.gradients}  # what has not cancelled at last
    gradients = {key: g for key, g in gradients.items() if key[1] in left and g is not ZERO}
    forms = [*met.forms, *(o.gradient for o in overrides.values())]
    return gradients, met, replace(without_unread(chosen, forms), cost=estimate(forms))


def _second(
    program: Program,
    bench: Workbench,
    differentiable: Mapping[str, Expr],
    outputs: Mapping[str, Expr],
    derived: Derivatives,
    chosen: Plan,
    roots: Roots,
) -> Second:
    """The second derivatives, which fused passes alone need, where they serve every call."""
    options = program.spec.options
    if not (options.fused and options.kernels == "all" and options.double_backward):
        return Second(missing=NOT_ASKED if options.kernels == "auto" else "")
    totals = total_gradients(program, differentiable, derived, chosen)
    shaped = {program.cotangents[o]: make("expand", cotangent(o), root) for o, root in differentiable.items()}
    overridden = {t: bench.recognise(roots[f"grad of {t}"])[0] for t in program.gradients}
    totals |= {t: substitute(gradient, shaped) for t, gradient in overridden.items()}
    values = {o: outputs[o] for o in differentiable}
    return second_derivatives(totals, program.symbols, values, chosen.base, bench)


def _packed_forms(program: Program, bench: Workbench, outputs: Mapping[str, Expr]) -> dict[str, list[Expr]]:
    """The forms that each value which is to be packed may have in the derivatives."""
    found: dict[str, list[Expr]] = {}
    for name in [p.name for p in program.spec.options.packed]:
        written = program.lets.get(name, program.symbols.get(name))
        if name in outputs:
            found[name] = [outputs[name]]
        elif written is not None:
            form = bench.recognise(written)[0]
            found[name] = [form, written] if form.is_boolean else [bench.settle(form), form, written]
    return found


def _named_forms(program: Program, bench: Workbench) -> dict[Expr, str]:
    """The spec's names of intermediates, by what is written and by what is computed for it."""
    written = {value: name for name, value in program.lets.items() if value.args and value.tensors}
    forms = {form: name for value, name in written.items() for form in (bench.recognise(value)[0], value)}
    return {
        own: name for form, name in forms.items() for own in (form, form.args[0] if form.op == "boundary" else form)
    }


def _as_tensor(program: Program, output: str, root: Expr) -> Expr:
    """The formula of an output; where the branch taken leaves a number, in the shape that its tensors have."""
    if root.tensors:
        return root
    given = program.given
    own = [s for s in given if s in program.outputs[output].tensors]
    floats = [s for s in own or given if s["kind"] == "tensor"]
    try:
        return with_shape(root, floats or own or given)
    except ShapeConflict:  # nothing that the number is about is there
        return make("expand", root, make("sum", (floats or given)[0], dim=None, keepdim=False))
