"""The rules of an operation: its tangents, or the gradients where these are not linear in the cotangents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from symgrad.compiler.operation import Variant
from symgrad.differentiate.symbols import cotangent, tangent
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import substitute, topological
from symgrad.parse.formula import formula
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.schedule import Target, statements
from symgrad.targets.literals import tuple_of

__all__ = ["described", "gradients", "mentions", "tangents", "unpacked"]


def tangents(layout: Layout, variant: Variant, cut: Sequence[Expr], template: str, *, certain: bool) -> list[str]:
    """The terms of the tangent of each output, for the tangents that are given; one surely is, if that is `certain`.

    Values of the `cut` are outputs, or are marked by the `template`.
    """
    terms = layout.tangent_terms(variant)
    outputs = [o.name for o in layout.spec.outputs]
    if not terms:
        return [f"return {tuple_of(['[]'] * len(outputs))}"]
    names = ["terms"] if len(outputs) == 1 else [f"terms_{o}" for o in outputs]
    forms = [form for _, _, form in terms]
    known = {**layout.symbols(variant), **{tangent(t): f"tangent_{t}" for t in layout.differentiable}}
    known |= _outputs_read(layout, variant, cut, forms)
    scope = layout.scope(known, variant)
    scope.kept = frozenset(v for v in cut if v not in known)
    scope.template = template
    read = _read(forms, frozenset(known))
    floats = [*_floats(layout, variant, read, known), *(f"tangent_{t}" for t in dict.fromkeys(t for t, _, _ in terms))]
    call = ", ".join(floats)
    lines = [f"{call}, _ = rt.{layout.widening(variant, slopes=True)}({call})"]
    lines.append(f"{', '.join(names)} = {', '.join(['[]'] * len(names))}")
    targets = [
        Target(form, f"{names[outputs.index(o)]}.append({{value}})", "" if certain else f"tangent_{t} is not None")
        for t, o, form in terms
    ]
    lines += statements(targets, scope, lambda names: layout.printer(names, differentiated=True))
    return [*lines, f"return {tuple_of(names)}"]


def gradients(layout: Layout, variant: Variant, template: str) -> list[str]:
    """The gradients of all tensors; the `template` brings one in the shape and dtype of its `{tensor}`."""
    found = {t: ex.add(*variant.gradients_of(t)) for t in layout.differentiable}
    forms = [g for g in found.values() if g is not ex.ZERO]
    cotangents = {s: f"grad_{o}" for o, f in variant.formulas.items() for s in (cotangent(o), cotangent(o, f))}
    known = {**layout.symbols(variant), **cotangents}
    known |= _outputs_read(layout, variant, [s.value for s in variant.plan.base], forms)
    scope = layout.scope(known, variant)
    read = _read(forms, frozenset(known))
    floats = [*_floats(layout, variant, read, known), *dict.fromkeys(n for s, n in cotangents.items() if s in read)]
    call = ", ".join(floats)
    lines = [f"{call}, _ = rt.{layout.widening(variant, slopes=True)}({call})"] if floats else []
    targets, results = [], []
    for t in layout.spec.tensors:
        form = found.get(t.name, ex.ZERO)
        if form is ex.ZERO:
            results.append("None")
            continue
        taken = f"grad_{t.name}" in known.values()
        results.append(scope.names.fresh(f"gradient_{t.name}" if taken else f"grad_{t.name}"))
        text = template.format(tensor=layout.arguments[t.name], value="{value}")
        targets.append(Target(form, f"{results[-1]} = {text}"))
    lines += statements(targets, scope, lambda names: layout.printer(names, differentiated=True))
    return [*lines, f"return {tuple_of(results)}"]


def described(layout: Layout, variant: Variant, value: Expr) -> str:
    """A value in words of the spec."""
    for name, form in variant.outputs.items():
        if form is value and form.op != "sym":
            return name
    outputs = {form: ex.symbol(name) for name, form in variant.outputs.items() if form.op != "sym"}
    return formula(substitute(value, {**{form: ex.symbol(name) for form, name in variant.lets.items()}, **outputs}))


def mentions(lines: Iterable[str], name: str) -> bool:
    """Whether source reads a name."""
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", line) for line in lines)


def unpacked(names: Sequence[str], lines: Iterable[str]) -> str:
    """The left side of an assignment from a sequence: `_` for what the lines do not read."""
    lines = list(lines)
    used = [n if mentions(lines, n) else "_" for n in names]
    return ", ".join(used) if len(used) > 1 else f"({used[0]},)"


def _outputs_read(layout: Layout, variant: Variant, cut: Sequence[Expr], forms: Sequence[Expr]) -> dict[Expr, str]:
    """The outputs that are at hand: those of the cut, and those that only a condition asks about."""
    outputs = {form: layout.outputs[n] for n, form in variant.outputs.items() if form.op != "sym" and form.tensors}
    order = topological(*forms)
    asked = {a for n in order if n.is_boolean for a in n.args}
    asked -= {*forms, *(a for n in order if not n.is_boolean for a in n.args)}
    return {form: name for form, name in outputs.items() if form in cut or form in asked}


def _read(forms: Sequence[Expr], leaves: frozenset[Expr]) -> frozenset[Expr]:
    return frozenset(n for n in topological(*forms, leaves=leaves) if n in leaves)


def _floats(layout: Layout, variant: Variant, read: frozenset[Expr], known: dict[Expr, str]) -> list[str]:
    """The names of the inputs and outputs of floats among the values that are read."""
    floats = {*layout.floats(variant), *(layout.outputs[o] for o, f in variant.formulas.items() if layout.promoted(f))}
    return [name for name in dict.fromkeys(n for v, n in known.items() if v in read) if name in floats]
