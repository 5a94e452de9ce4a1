"""A parsed spec as a differentiated, stabilised, planned operation: what every backend emits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, TypeAlias

from symgrad import expr as ex
from symgrad.absence import without
from symgrad.branches import Roots, Split, split
from symgrad.candidates import Choice
from symgrad.cost import total
from symgrad.differentials import absent, cotangent, tangent
from symgrad.differentiate import jvp, vjp
from symgrad.distribute import distribute_cotangents
from symgrad.expr import Expr, make, symbol
from symgrad.formula import formula
from symgrad.hoist import divided_by_elements, hoisted
from symgrad.override import Override, override
from symgrad.parse import Program
from symgrad.parse.scope import with_shape
from symgrad.pivot import Pivots, find_pivots, with_outputs
from symgrad.plan import Plan, plan, readable, remaining_cost
from symgrad.reuse import Derivatives, reuse_outputs
from symgrad.rewrite import Step
from symgrad.second import Second, second_derivatives, total_gradients
from symgrad.shapes import ShapeConflict
from symgrad.sizes import Sizes
from symgrad.spec import Spec
from symgrad.traversal import substitute
from symgrad.workbench import Memory, Workbench, isolate


@dataclass(frozen=True)
class Variant:
    """One straight-line version of the operation.

    `outputs` are the forms that forward computes. `gradients` and `tangents` hold, for each output and tensor, the
    contribution of that output's cotangent to that tensor's gradient, and of that tensor's tangent to that output's;
    `partials` the derivatives themselves, where an output is pointwise in a tensor.
    `wide_values` and `wide_slopes` say what is evaluated in float64 for smaller inputs.
    """

    formulas: Mapping[str, Expr]
    outputs: Mapping[str, Expr]
    gradients: Mapping[tuple[str, str], Expr]
    overrides: Mapping[str, Override]
    tangents: Mapping[tuple[str, str], Expr]
    plan: Plan
    wide_values: bool
    wide_slopes: bool
    value_choices: Mapping[str, Choice]
    partials: Mapping[tuple[str, str], Expr]
    slope_choices: Mapping[tuple[str, str], Choice]
    recognitions: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    second: Second = field(default_factory=Second)  # for fused passes
    lets: Mapping[Expr, str] = field(default_factory=dict)  # the spec's names of intermediates, by form
    stand_ins: Mapping[Any, Mapping[Expr, Expr]] = field(default_factory=dict)  # in a choice, and what they stand for

    @cached_property
    def tensors(self) -> frozenset[Expr]:
        """The tensors that are read; an optional one that is not among them may be absent."""
        given = [*self.formulas.values(), *(o.gradient for o in self.overrides.values())]
        return frozenset[Expr]().union(*(form.tensors for form in given))

    def gradients_of(self, tensor: str) -> list[Expr]:
        """The contributions of the cotangents to a tensor's gradient, or what the spec gives instead."""
        override = self.overrides.get(tensor)
        return [g for (_, t), g in self.gradients.items() if t == tensor] if override is None else [override.gradient]

    def is_without(self, tensor: str, other: Variant) -> bool:
        """Whether the derivatives are those of `other` but for those of `tensor`, from the same saved values."""
        return (
            self._from_saved(self.gradients) == other._from_saved(other.gradients, tensor)
            and self._from_saved(self.tangents) == other._from_saved(other.tangents, tensor)
            and self.overrides == {t: o for t, o in other.overrides.items() if t != tensor}
            and [s.source for s in self.plan.base] == [s.source for s in other.plan.base]
            and self.wide_slopes == other.wide_slopes
        )

    def _from_saved(self, derivatives: Mapping[tuple[str, str], Expr], without: str = "") -> dict[Any, Expr]:
        """Derivatives as functions of what is saved: of inputs, and of other values by their place."""
        places = {s.value: symbol(f"saved {k}") for k, s in enumerate(self.plan.base) if s.source != "input"}
        return {key: substitute(value, places) for key, value in derivatives.items() if key[1] != without}


Body: TypeAlias = "Split | Variant"


@dataclass(frozen=True)
class Operation:
    """A compiled operation: `body` is a variant, or Python branches with variants at their ends.

    `keeping` is the same operation with more outputs, for plain calls: sums of inputs that backward reads in place of
    the inputs.
    """

    program: Program
    body: Body
    keeping: Operation | None = None

    @property
    def called(self) -> Operation:
        """What a plain call runs: `keeping` where there is one."""
        return self.keeping or self

    @cached_property
    def derivative_body(self) -> Body:
        """`body` for backward and jvp, which often need not ask whether an optional tensor is absent."""
        return _joined(self.body, {absent(t.name): t.name for t in self.program.spec.tensors})

    def variants(self) -> list[tuple[tuple[str, ...], Variant]]:
        """All variants with the conditions that lead to them, in order."""
        return [(_described(facts, self.program.spec), v) for facts, v in _leaves(self.body, ())]

    def derivative_variants(self) -> list[tuple[tuple[str, ...], Variant]]:
        """The variants of backward and jvp."""
        return [(_described(facts, self.program.spec), v) for facts, v in _leaves(self.derivative_body, ())]


def _joined(body: Body, absences: Mapping[Expr, str]) -> Body:
    """Drop the branches on an absent tensor that change nothing but that it has no gradient: nobody wants it then."""
    if isinstance(body, Variant):
        return body
    then, otherwise = (_joined(b, absences) for b in (body.then, body.otherwise))  # type: ignore[arg-type]
    tensor = absences.get(body.condition)
    if tensor and isinstance(then, Variant) and isinstance(otherwise, Variant) and then.is_without(tensor, otherwise):
        return otherwise
    return Split(body.condition, then, otherwise)  # type: ignore[arg-type]


def leaves(body: Body) -> list[Variant]:
    """The variants at the ends of a tree of branches, in order."""
    return [variant for _, variant in _leaves(body, ())]


Facts: TypeAlias = "tuple[tuple[Expr, bool], ...]"
"""Python conditions and whether they hold."""


def _leaves(body: Body, facts: Facts) -> list[tuple[Facts, Variant]]:
    if isinstance(body, Variant):
        return [(facts, body)]
    then = _leaves(body.then, (*facts, (body.condition, True)))  # type: ignore[arg-type]
    return then + _leaves(body.otherwise, (*facts, (body.condition, False)))  # type: ignore[arg-type]


def _described(facts: Facts, spec: Spec) -> tuple[str, ...]:
    """What leads to a variant, in words of Python: of a text, the choices that are left."""
    open_choices = {h.name: list(h.choices or ()) for h in spec.hyperparameters if h.type == "str"}
    texts: dict[str, str] = {}
    for condition, holds in facts:
        text = formula(condition)
        if condition.op == "eq" and condition.args[1].op == "text" and condition.args[0].op == "sym":
            name, value = condition.args[0].name, condition.args[1]["value"]
            left = [value] if holds else [c for c in open_choices[name] if c != value]
            open_choices[name] = left
            texts[name] = " or ".join(f"{name} == {c!r}" for c in left)
        elif text.endswith(" is None"):
            texts[text] = text if holds else f"{text.removesuffix('None')}not None"
        else:
            texts[text] = text if holds else f"not {text if condition.op == 'sym' else f'({text})'}"
    return tuple(t for t in texts.values() if t)


def compile_operation(program: Program) -> Operation:
    """Differentiate, stabilise and plan a parsed spec."""
    plain = _compile(program)
    # Fused passes save inputs and outputs alone: computing again what is in a register costs no pass over memory.
    saved = {s.value.name for _, v in plain.variants() for s in v.plan.base if s.source == "input"}
    pivots = None if program.spec.options.kernels else find_pivots(program, saved)
    if pivots is None:
        return plain
    inner = _compile(pivots.inner)
    if any(v.wide_values for _, v in inner.variants()):
        return plain  # what is kept would be float64
    extended = with_outputs(program, pivots)
    keeping = Operation(extended, _map_leaves(inner.body, partial(_through_pivots, extended, pivots, True)))
    through = Operation(program, _map_leaves(inner.body, partial(_through_pivots, program, pivots, False)), keeping)
    if _bytes(keeping) >= _bytes(plain) or not (_serves_jvp(keeping) and _serves_jvp(through)):
        return plain
    return through


def _serves_jvp(operation: Operation) -> bool:
    """Whether jvp can read what backward has saved: in a tangent the sum may have merged with other terms."""
    return all(
        readable(frozenset(s.value for s in v.plan.base), list(v.tangents.values())) for _, v in operation.variants()
    )


def _bytes(operation: Operation) -> float:
    return total(variant.plan.bytes for _, variant in operation.variants())


def _compile(program: Program) -> Operation:
    spec = program.spec
    roots: dict[str, Expr] = {**program.outputs, **{f"grad of {t}": g for t, g in program.gradients.items()}}
    for tensor in spec.tensors:
        if tensor.default is not None:
            condition, own, value = absent(tensor.name), program.symbols[tensor.name], Fraction(str(tensor.default))
            roots = {n: make("where", condition, without(r, own, value, program.given), r) for n, r in roots.items()}
    choices = {program.symbols[h.name]: h.choices or () for h in spec.hyperparameters if h.type == "str"}
    tree = split(roots, choices)  # type: ignore[arg-type]
    alone = not isinstance(tree, Split)
    return Operation(program, _map_leaves(tree, partial(_compile_variant, program, Memory(), alone)))


def _through_pivots(program: Program, pivots: Pivots, returned: bool, inner: Variant) -> Variant:
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
                choices[key] = _choice_outside(pivots, inner.slope_choices[source], factor)
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
    fixed = frozenset(symbols[t.name] for t in spec.tensors if not t.grad)
    fixed_outputs = {o.name for o in spec.outputs if not o.grad}
    differentiable = [name for name in outputs if name not in fixed_outputs]
    needed, policy, tensors = list(gradients.values()), spec.options.save, [symbols[t.name] for t in spec.tensors]
    chosen = plan(formulas, outputs, needed, policy, fixed, differentiable, tensors=tensors, extras=False)
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
        value_choices={name: _choice_outside(pivots, c, ex.ONE) for name, c in inner.value_choices.items()},
        slope_choices=choices,
        plan=replace(chosen, saved=saved),
        recognitions=recognitions,
        lets={pivots.outside(form): name for form, name in inner.lets.items()},
        stand_ins={key: {s: pivots.written(op) for s, op in own.items()} for key, own in stand_ins.items()},
    )


def _choice_outside(pivots: Pivots, choice: Choice, factor: Expr) -> Choice:
    """A choice made in terms of the sums, in terms of the tensors."""
    return choice.mapped(lambda form: pivots.written(factor * form), pivots.written)


def _map_leaves(tree: Any, visit: Callable[[Any], Variant]) -> Body:
    """A tree of branches with every end visited."""
    if isinstance(tree, Split):
        then, otherwise = _map_leaves(tree.then, visit), _map_leaves(tree.otherwise, visit)
        return Split(tree.condition, then, otherwise)  # type: ignore[arg-type]
    return visit(tree)


def _compile_variant(program: Program, memory: Memory, alone: bool, roots: Roots) -> Variant:
    spec = program.spec
    formulas = {o.name: _as_tensor(program, o.name, roots[o.name]) for o in spec.outputs}
    overridden = {t: roots[f"grad of {t}"] for t in program.gradients}
    bench = Workbench(program, memory)
    read = {name: bench.recognise(root) for name, root in formulas.items()}
    recognised = {name: form for name, (form, _) in read.items()}
    value_choices = {name: bench.chosen(root) for name, root in recognised.items()}
    outputs = {name: bench.guarded(bench.settle(root)) for name, root in recognised.items()}
    present = frozenset(s for r in formulas.values() for s in r.tensors)
    wanted = [
        t.name
        for t in spec.tensors
        if t.grad and t.dtype == "float" and t.name not in overridden and program.symbols[t.name] in present
    ]
    gradients: dict[tuple[str, str], Expr] = {}
    tangents: dict[tuple[str, str], Expr] = {}
    for output in spec.outputs:
        if not output.grad:
            continue
        root = recognised[output.name]
        seeds = {root: cotangent(output.name, formulas[output.name])}
        symbols = [program.symbols[t] for t in wanted]
        for own, gradient in vjp(seeds, symbols, bench.slope_form).items():
            gradients[output.name, own.name] = bench.finish(gradient)
        for t in wanted:
            pushed = jvp([root], {program.symbols[t]: tangent(t)}, bench.slope_form)
            if root in pushed:
                tangents[output.name, t] = bench.finish(pushed[root])
    overrides = {t: override(program, formulas, t, g, bench) for t, g in overridden.items()}
    slopes, slope_choices = bench.pointwise_slopes({o.name: recognised[o.name] for o in spec.outputs if o.grad}, wanted)
    fixed = frozenset(program.symbols[t.name] for t in spec.tensors if not t.grad)
    wide_slopes = any(c.chosen.wide for c in bench.slopes.values())
    wide_values = any(c.chosen.wide for c in bench.values.values())
    tensors = [program.symbols[t.name] for t in spec.tensors]
    differentiable = [o.name for o in spec.outputs if o.grad]
    readable = differentiable

    def make_plan(derivatives: Derivatives) -> Plan:
        needed = [*derivatives.gradients.values(), *(o.gradient for o in overrides.values())]
        kernels = spec.options.kernels
        extras = alone and not wide_values and not wide_slopes and not kernels  # float64 is not worth keeping
        policy = spec.options.save
        return plan(formulas, outputs, needed, policy, fixed, readable, tensors=tensors, extras=extras, fused=kernels)

    def error(partials: Mapping[tuple[str, str], Expr]) -> float:
        return max(
            (bench.slope_error(slope_choices[k], form) for k, form in partials.items() if k in slope_choices),
            default=0.0,
        )

    def spoiled() -> list[str]:
        """The outputs that backward would read in float32, and that some partial needs in float64."""
        read = {s.value for s in chosen.base if s.source == "output"}
        forms = [(slope_choices[k], form) for k, form in derived.partials.items() if k in slope_choices]
        return [o for o in readable if outputs[o] in read and any(bench.is_spoiled(*f, outputs[o]) for f in forms)]

    before = Derivatives(gradients, tangents, slopes)
    derived, chosen = reuse_outputs(before, outputs, make_plan, error, spec.options.save)
    while lost := spoiled():
        readable = [o for o in readable if o not in lost]
        derived, chosen = reuse_outputs(before, outputs, make_plan, error, spec.options.save)
    kept = frozenset(s.value for s in chosen.saved)
    keys, sizes = list(derived.gradients), Sizes.of(formulas.values())
    inside = distribute_cotangents(list(derived.gradients.values()), lambda gs: remaining_cost(gs, kept, sizes))
    inside = divided_by_elements(inside)
    chosen = replace(chosen, cost=remaining_cost([*inside, *(o.gradient for o in overrides.values())], kept, sizes))
    second = Second()
    if spec.options.kernels and spec.options.double_backward:
        totals = total_gradients(program, {o: recognised[o] for o in differentiable}, derived, chosen)
        shaped = {program.cotangents[o]: make("expand", cotangent(o), recognised[o]) for o in differentiable}
        totals |= {t: substitute(bench.recognise(g)[0], shaped) for t, g in overridden.items()}
        values = {o: outputs[o] for o in differentiable}
        second = second_derivatives(totals, program.symbols, values, chosen.base, bench)
    return Variant(
        formulas,
        outputs,
        dict(zip(keys, inside, strict=True)),
        overrides,
        derived.tangents,
        chosen,
        wide_values=wide_values,
        wide_slopes=wide_slopes,
        value_choices=value_choices,
        partials=derived.partials,
        recognitions={name: steps for name, (_, steps) in read.items()},
        slope_choices={key: bench.remeasured(choice, derived.partials[key]) for key, choice in slope_choices.items()},
        second=second,
        lets=_named_forms(program, bench),
        stand_ins={
            **{name: isolate(form)[1] for name, form in recognised.items()},
            **{key: {s: op for op, s in slope.stand_ins.items()} for key, slope in slope_choices.items()},
        },
    )


def _named_forms(program: Program, bench: Workbench) -> dict[Expr, str]:
    """The spec's names of intermediates, by what is written and by what is computed for it."""
    written = {value: name for name, value in program.lets.items() if value.args and value.tensors}
    return {form: name for value, name in written.items() for form in (bench.recognise(value)[0], value)}


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
