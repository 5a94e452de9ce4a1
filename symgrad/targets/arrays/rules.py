"""The rule of an operation: its tangents, or the gradients where these are not linear in the cotangents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from symgrad.analysis.signs import measured
from symgrad.compiler.operation import Variant
from symgrad.differentiate.modes import is_tensor_op
from symgrad.differentiate.symbols import cotangent, tangent
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import substitute, topological
from symgrad.lower.code import Code, code, constant, name, tuple_of
from symgrad.lower.conditionals import branches
from symgrad.lower.program import Assign, Do, Program, Return, Statement, reads
from symgrad.lower.python import lines
from symgrad.ops.tensors import TENSOR_OPS, data_arguments
from symgrad.parse.formula import formula
from symgrad.plan.reading import read_by
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.schedule import Target, statements
from symgrad.targets.torch.roundings import roundings

__all__ = ["Rule", "described", "is_light", "pulled", "pushed"]


@dataclass(frozen=True)
class Rule:
    """A function of primals, outputs, and tangents or cotangents: what it is called, what it reads, and its body.

    `primals` and `outputs` are those whose data it reads, and not their shape alone.
    """

    name: str
    parameters: tuple[str, ...]
    primals: tuple[str, ...]
    outputs: tuple[str, ...]
    program: Program

    @property
    def lines(self) -> list[str]:
        """Its body as source."""
        return lines(self.program)


def pushed(layout: Layout, cut: Callable[[Variant], Sequence[Expr]], keep: Callable[[Expr], str] | None) -> Rule:
    """The rule by tangents; values of the `cut` that are neither arguments nor outputs are marked as `keep` says."""
    program = branches(layout.operation.derivative_body, lambda v: _tangents(layout, v, cut(v), keep), layout.condition)
    own = [f"tangent_{t.name}" if t.name in layout.differentiable else "_" for t in layout.spec.tensors]
    return _rule(layout, "tangents", own, program)


def pulled(layout: Layout) -> Rule:
    """The rule by gradients: for each tensor one, or None."""
    program = branches(layout.operation.derivative_body, lambda v: _gradients(layout, v), layout.condition)
    rule = _rule(layout, "gradients", [f"grad_{o.name}" for o in layout.spec.outputs], program)
    data = {name for v in layout.variants for name in _data_read(_forms(layout, v), _known(layout, v))}
    primals, outputs = (tuple(n for n in names if n in data) for names in (rule.primals, rule.outputs))
    return replace(rule, primals=primals, outputs=outputs)


def _rule(layout: Layout, name: str, given: Sequence[str], program: Program) -> Rule:
    """A rule that unpacks what its program reads."""
    outputs = list(layout.outputs.values())
    sources = {"primals": layout.tensors, "outputs": outputs, "tangents" if name == "tangents" else "cotangents": given}
    read = reads(program)
    heads = {source: _unpacked(names, source, read) for source, names in sources.items()}
    return Rule(
        name,
        tuple(source if head else "_" * (k + 1) for k, (source, head) in enumerate(heads.items())),
        tuple(n for n in layout.tensors if n in read),
        tuple(n for n in outputs if n in read),
        (*(head for head in heads.values() if head), *program),
    )


def _unpacked(names: Sequence[str], source: str, read: frozenset[str]) -> Statement | None:
    """The statement that takes the names that are read from a sequence; none where nobody reads any."""
    used = tuple(n if n in read else "_" for n in names)
    return Assign(used, name(source)) if any(n != "_" for n in used) else None


def _tangents(layout: Layout, variant: Variant, cut: Sequence[Expr], keep: Callable[[Expr], str] | None) -> Program:
    """The terms of the tangent of each output, for the tangents that are given: one surely is."""
    terms = layout.tangent_terms(variant)
    outputs = [o.name for o in layout.spec.outputs]
    if not terms:
        return (Return(tuple_of([code("[]")] * len(outputs))),)
    pushed = [o for o in outputs if any(o == own for _, own, _ in terms)]
    names = {o: "terms" if len(pushed) == 1 else f"terms_{o}" for o in pushed}
    forms = [form for _, _, form in terms]
    known: dict[Expr, str | Code] = {
        **layout.symbols(variant),
        **{tangent(t): f"tangent_{t}" for t in layout.differentiable},
    }
    known |= _outputs_read(layout, variant, cut, forms)
    scope = layout.scope(known, variant)
    scope.kept = {v: keep(v) for v in cut if v not in known} if keep else {}
    read = _read(forms, frozenset(known))
    floats = [*_floats(layout, variant, read, known), *(f"tangent_{t}" for t in dict.fromkeys(t for t, _, _ in terms))]
    local = tuple(names.values())
    nothing = Assign(local, tuple_of([code("[]")] * len(local))) if len(local) > 1 else Assign(local[0], code("[]"))
    certain = len(layout.spec.tensors) == 1
    targets = [Target(form, partial(_appended, names[o]), "" if certain else f"tangent_{t}") for t, o, form in terms]
    return (
        _widened(layout, variant, floats),
        nothing,
        *statements(targets, scope, lambda names: layout.printer(names, differentiated=True), differentiated=True),
        Return(tuple_of([names.get(o, code("[]")) for o in outputs])),
    )


def _appended(terms: str, value: Code) -> Statement:
    return Do(code("{0}.append({1})", terms, value))


def _gradients(layout: Layout, variant: Variant) -> Program:
    """The gradients of all tensors, in shapes and dtypes of the arithmetic."""
    found, known = _forms(layout, variant), _known(layout, variant)
    scope = layout.scope(known, variant)
    read, cotangents = _data_read(found, known), {f"grad_{o}" for o in variant.formulas}
    floats = [name for name in read if name in cotangents or name in _floats_of(layout, variant)]
    targets, results = list[Target](), list[Code | str]()
    for t in layout.spec.tensors:
        form = found.get(t.name, ex.ZERO)
        if form is ex.ZERO:
            results.append(constant(None))
            continue
        taken = f"grad_{t.name}" in known.values()
        local = scope.names.fresh(f"gradient_{t.name}" if taken else f"grad_{t.name}")
        results.append(local)
        targets.append(Target(form, partial(Assign, local)))
    return (
        *([_widened(layout, variant, floats)] if floats else []),
        *statements(targets, scope, lambda names: layout.printer(names, differentiated=True), differentiated=True),
        Return(tuple_of(results)),
    )


def _forms(layout: Layout, variant: Variant) -> dict[str, Expr]:
    """The gradient of each tensor that has one."""
    found = {t: variant.gradient_of(t) for t in layout.differentiable}
    return {t: form for t, form in found.items() if form is not ex.ZERO}


def _known(layout: Layout, variant: Variant) -> dict[Expr, str | Code]:
    """The names of what a rule by gradients has: arguments, cotangents, and outputs that are kept."""
    cotangents = {s: f"grad_{o}" for o, f in variant.formulas.items() for s in (cotangent(o), cotangent(o, f))}
    forms, kept = [*_forms(layout, variant).values()], [s.value for s in variant.plan.base]
    return {**layout.symbols(variant), **cotangents, **_outputs_read(layout, variant, kept, forms)}


def _data_read(forms: Mapping[str, Expr], known: Mapping[Expr, str | Code]) -> list[str]:
    """The names of the values whose data the forms read, and not their shapes alone."""
    read = read_by([*forms.values()], frozenset(known))
    return list(dict.fromkeys(name for value, name in known.items() if value in read and isinstance(name, str)))


def _widened(layout: Layout, variant: Variant, names: Sequence[str]) -> Statement:
    """The statement that brings what is read to the dtype of the arithmetic."""
    return Assign((*names, "_"), code(f"rt.{layout.widening(variant, slopes=True)}({{0}})", names))


def is_light(layout: Layout, variant: Variant, cut: Sequence[Expr]) -> bool:
    """Whether a rule by tangents computes nothing of the values that it keeps but what is linear in the tangents.

    Then there is nothing to compute again but other dtypes and shapes of what is kept.
    """
    kept = {*cut, *(layout.symbol(t.name) for t in layout.spec.tensors)}

    def is_at_hand(value: Expr) -> bool:
        while value not in kept and (value.op == "expand" or (is_tensor_op(value) and TENSOR_OPS[value.op].view)):
            value = value.args[0]
        return value in kept

    if variant.wide_slopes or layout.spec.options.accumulate == "same":
        return False
    for node in topological(*(form for _, _, form in layout.tangent_terms(variant))):
        if node.is_differential:
            fixed = [a for a in data_arguments(node) if a.tensors and not a.is_differential]
            if not all(map(is_at_hand, fixed)) or len(fixed) > 1:
                return False
    return True


def described(layout: Layout, variant: Variant, value: Expr) -> str:
    """A value in words of the spec."""
    for output, form in variant.outputs.items():
        if form is value and form.op != "sym":
            return output
    outputs = {form: ex.symbol(name) for name, form in variant.outputs.items() if form.op != "sym"}
    return formula(substitute(value, {**{form: ex.symbol(name) for form, name in variant.lets.items()}, **outputs}))


def _outputs_read(layout: Layout, variant: Variant, cut: Sequence[Expr], forms: Sequence[Expr]) -> dict[Expr, str]:
    """The outputs that are at hand: those of the cut, and those that only a condition asks about.

    What is compared with what was computed may have been rounded since: it is computed again, or kept as it was.
    """
    outputs = {form: layout.outputs[n] for n, form in variant.outputs.items() if form.op != "sym" and form.tensors}
    order = topological(*forms)
    asked = {a for n in order if n.is_boolean for a in n.args}
    asked -= {*forms, *(a for n in order if not n.is_boolean for a in n.args)}
    rounded = frozenset(form for form in outputs if roundings(form))
    compared = frozenset[Expr]().union(*(measured(n, rounded) for n in order if n.is_boolean))
    return {form: name for form, name in outputs.items() if (form in cut or form in asked) and form not in compared}


def _read(forms: Sequence[Expr], leaves: frozenset[Expr]) -> frozenset[Expr]:
    return frozenset(n for n in topological(*forms, leaves=leaves) if n in leaves)


def _floats(layout: Layout, variant: Variant, read: frozenset[Expr], known: Mapping[Expr, str | Code]) -> list[str]:
    """The names of the inputs and outputs of floats among the values that are read."""
    floats = _floats_of(layout, variant)
    there = dict.fromkeys(n for v, n in known.items() if v in read and isinstance(n, str))
    return [name for name in there if name in floats]


def _floats_of(layout: Layout, variant: Variant) -> set[str]:
    """The names of the inputs and outputs of floats."""
    return {*layout.floats(variant), *(layout.outputs[o] for o, f in variant.formulas.items() if layout.promoted(f))}
