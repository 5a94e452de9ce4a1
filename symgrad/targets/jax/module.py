"""The complete text of a generated JAX module.

The value is a pure function with a `custom_jvp` rule, which is the symbolic jvp. Reverse mode is its transposed: what
that keeps is what the checkpointed part of the rule reads of inputs and outputs, and what it marks.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.compiler.operation import Operation, Variant
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.plan.saving import free_cut
from symgrad.resources import environment, template_folder
from symgrad.targets.arrays import docs
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.schedule import Scope, Target, branches, statements
from symgrad.targets.arrays.signature import checks, signature
from symgrad.targets.constants import constant_value
from symgrad.targets.formatting import format_python
from symgrad.targets.jax.spellings import JAX
from symgrad.targets.literals import tuple_of
from symgrad.targets.torch.docs import listed

__all__ = ["RUNTIME", "render_module", "runtime"]

RUNTIME = "_runtime_jax.py"


def runtime() -> str:
    """The text of the file that all modules of a folder share."""
    return (template_folder() / "jax" / "runtime.py").read_text(encoding="utf-8")


def render_module(operation: Operation) -> str:
    """The module of an operation, formatted."""
    layout = Layout(operation, JAX)
    spec = layout.spec
    own = Pulled(layout) if not layout.is_linear else Pushed(layout)
    runtime_name = "rt" if "rt" not in layout.arguments else "_runtime_jax"
    context = {
        "op": spec.op,
        "docstring": docs.module_docstring(layout, own.kept()),
        "signature": signature(layout, "Array"),
        "returned": "Array" if len(spec.outputs) == 1 else f"tuple[{', '.join(['Array'] * len(spec.outputs))}]",
        "summary": docs.function_docstring(layout, [_note(layout)]),
        "checks": checks(layout, runtime_name),
        "arguments": ", ".join([*layout.tensors, *layout.values]),
        "call": ", ".join([*(t.name for t in spec.tensors), *layout.hyperparameters]),
        "static": tuple_of([str(len(spec.tensors) + k) for k in range(len(spec.hyperparameters))])
        if spec.hyperparameters
        else "",
        "statics": "".join(f"{v}, " for v in layout.values),
        "and_statics": "".join(f", {v}" for v in layout.values),
        "statics_count": len(layout.values),
        "value": branches(operation.body, layout.value, layout.condition),
        **own.context(),
    }
    context["constants"] = [(name, constant_value(node)) for node, name in layout.constants.items()]
    text = environment().get_template("jax/module.py.j2").render(**context)
    text = text.replace("# imports\n", _imports(text, runtime_name))
    return format_python(text)


_IMPORTS = (("functools", "import functools\n"), ("math", "import math\n"))


def _imports(text: str, runtime_name: str) -> str:
    own = [line for word, line in _IMPORTS if f"{word}." in text]
    lines = [*own, "from typing import Any\n", "\n", "import jax\n"]
    lines += ["import jax.numpy as jnp\n"] if "jnp." in text else []
    lines += ["from jax import Array\n"]
    lines += ["from jax.scipy import special\n"] if "special." in text else []
    lines += ["\nfrom . import _runtime_jax as rt\n"]
    lines += ["from . import _runtime_jax\n"] if runtime_name != "rt" else []
    return "".join(lines)


def _note(layout: Layout) -> str:
    spec = layout.spec
    parts = []
    if len(spec.tensors) > 1 and not any(t.shape for t in spec.tensors):
        parts.append("The arrays broadcast; any of them may be a number.")
    if spec.hyperparameters:
        parts.append(f"{listed(layout.hyperparameters)}: static, so no array.".capitalize())
    kinds = "an argument is of another type"
    value = "out of range" if any(h.domain is not None or h.choices for h in spec.hyperparameters) else ""
    shapes = "of a shape that does not fit" if any(t.shape for t in spec.tensors) else ""
    refused = " or ".join(p for p in (value, shapes) if p)
    parts.append(f"Raises TypeError where {kinds}{f', ValueError where one is {refused}' if refused else ''}.")
    return " ".join(parts)


class Pushed:
    """The rule of an operation all of whose gradients are linear in the cotangent: its jvp."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def context(self) -> dict[str, object]:
        """What the template says about the rule."""
        layout = self.layout
        spec = layout.spec
        lines = branches(layout.operation.body, self._tangents, layout.condition)
        read = "\n".join(lines)
        outputs = [layout.outputs[o.name] for o in spec.outputs]
        needed = [o for o in outputs if _mentions(read, o)]
        wanted = [f"tangent_{t}" if t in layout.differentiable else "_" for t in (t.name for t in spec.tensors)]
        given = [t for t in layout.tensors if _mentions(read, t)]
        result = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
        return {
            "rule": "jvp",
            "nothing": not any(layout.tangent_terms(v) for v in layout.variants),
            "nothing_terms": "[[]]" if len(outputs) == 1 else f"[{', '.join(['[]'] * len(outputs))}]",
            "outputs": ", ".join(outputs),
            "result": result,
            "wanted": _unpacked(wanted),
            "primals": _unpacked([t if t in given else "_" for t in layout.tensors]),
            "only": next(iter(w for w in wanted if w != "_")) if len(wanted) > 1 == len(wanted) - wanted.count("_") else "",
            "reads_primals": bool(given),
            "tangents": lines,
            "parameters": [*layout.values, *given, *needed, *(w for w in wanted if w != "_")],
            "checkpoint": spec.options.save != "speed",
        }

    def _tangents(self, variant: Variant) -> list[str]:
        layout = self.layout
        terms = layout.tangent_terms(variant)
        outputs = [o.name for o in layout.spec.outputs]
        empty = "[]" if len(outputs) == 1 else ", ".join(["[]"] * len(outputs))
        names = ["terms"] if len(outputs) == 1 else [f"terms_{o}" for o in outputs]
        if not terms:
            return [f"return {', '.join(['[]'] * len(outputs))}{',' if len(outputs) == 1 else ''}"]
        scope, cut = self._scope(variant, [form for _, _, form in terms])
        read = _symbols([form for _, _, form in terms], frozenset(scope.known))
        floats = [n for s, n in scope.known.items() if s in read and (s.op != "sym" or s["kind"] != "int_tensor")]
        floats = [n for n in dict.fromkeys(floats) if n in _arrays(layout, variant)]
        widened = [*floats, *(f"tangent_{t}" for t in dict.fromkeys(t for t, _, _ in terms))]
        call = ", ".join(widened)
        lines = [f"{call}, _ = rt.{layout.widening(variant, slopes=True)}({call})"]
        lines += [f"{', '.join(names)} = {empty}"]
        only = len(layout.differentiable) == 1
        targets = [
            Target(form, f"{names[outputs.index(o)]}.append({{value}})", "" if only else f"tangent_{t} is not None")
            for t, o, form in terms
        ]
        lines += statements(targets, scope, lambda known: layout.printer(known, differentiated=True))
        return [*lines, f"return {', '.join(names)}{',' if len(names) == 1 else ''}"]

    def _scope(self, variant: Variant, forms: Sequence[Expr]) -> tuple[Scope, list[Expr]]:
        """The names in scope of the tangents, and what is kept beside inputs and outputs."""
        layout = self.layout
        known = {**layout.symbols(variant), **layout.tangents()}
        cut = _cut(layout, variant, forms)
        outputs = {form: layout.outputs[name] for name, form in variant.outputs.items() if form.op != "sym"}
        known |= {value: outputs[value] for value in cut if value in outputs}
        scope = layout.scope(known, variant)
        scope.kept = frozenset(v for v in cut if v.op != "sym" and v not in outputs)
        scope.template = "rt.keep({value})"
        return scope, cut

    def kept(self) -> str:
        """What reverse mode keeps, in a sentence."""
        layout = self.layout
        found: dict[str, None] = {}
        for variant in layout.variants:
            forms = [form for _, _, form in layout.tangent_terms(variant)]
            found |= dict.fromkeys(_described(layout, variant, v) for v in _cut(layout, variant, forms))
        return f"Reverse mode keeps {listed(list(found)) if found else 'nothing'}."


class Pulled:
    """The rule of an operation with a gradient that is not linear in the cotangent: reverse mode alone."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def context(self) -> dict[str, object]:
        layout = self.layout
        spec = layout.spec
        lines = branches(layout.operation.derivative_body, self._gradients, layout.condition)
        read = "\n".join(lines)
        outputs = [layout.outputs[o.name] for o in spec.outputs]
        kept = [n for n in (*layout.tensors, *outputs) if _mentions(read, n)]
        return {
            "rule": "vjp",
            "outputs": ", ".join(outputs),
            "result": outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})",
            "kept": tuple_of(kept) if kept else "()",
            "likes": tuple_of([f"rt.like({t})" for t in layout.tensors]),
            "like_names": tuple_of([f"like_{t}" if f"like_{t}" in read else "_" for t in layout.tensors]),
            "cotangents": tuple_of([f"grad_{o.name}" for o in spec.outputs])
            if len(outputs) > 1
            else f"grad_{spec.outputs[0].name}",
            "gradients": lines,
        }

    def _gradients(self, variant: Variant) -> list[str]:
        layout = self.layout
        wanted = {t: ex.add(*variant.gradients_of(t)) for t in layout.differentiable}
        outputs = {form: layout.outputs[n] for n, form in variant.outputs.items() if form.op != "sym"}
        base = {s.value for s in variant.plan.base}
        known = {**layout.symbols(variant), **layout.cotangents(variant)}
        known |= {v: n for v, n in outputs.items() if v in base}
        scope = layout.scope(known, variant)
        forms = [g for g in wanted.values() if g is not ex.ZERO]
        read = _symbols(forms, frozenset(known))
        arrays = {*_arrays(layout, variant), *layout.cotangents(variant).values()}
        floats = list(dict.fromkeys(n for s, n in known.items() if s in read and n in arrays))
        call = ", ".join(floats)
        lines = [f"{call}, _ = rt.{layout.widening(variant, slopes=True)}({call})"] if floats else []
        targets, results = [], []
        for t in layout.spec.tensors:
            form = wanted.get(t.name, ex.ZERO)
            if form is ex.ZERO:
                results.append("None")
                continue
            name = scope.names.fresh(f"grad_{t.name}" if f"grad_{t.name}" not in known.values() else f"gradient_{t.name}")
            targets.append(Target(form, f"{name} = like_{layout.arguments[t.name]}({{value}})"))
            results.append(name)
        lines += statements(targets, scope, lambda names: layout.printer(names, differentiated=True))
        return [*lines, f"return {tuple_of(results)}"]

    def kept(self) -> str:
        """What reverse mode keeps, and that there is no other, in two sentences."""
        layout = self.layout
        found: dict[str, None] = {}
        for variant in layout.variants:
            found |= dict.fromkeys(_described(layout, variant, s.value) for s in variant.plan.base)
        what = listed(list(found)) if found else "nothing"
        return f"Reverse mode keeps {what}. There is no forward mode: the rule is not linear in the cotangent."


def _cut(layout: Layout, variant: Variant, forms: Sequence[Expr]) -> list[Expr]:
    """What reverse mode keeps: any value may be kept, and its derivative is not lost."""
    outputs = {form: name for name, form in variant.outputs.items() if form.op != "sym"}
    return free_cut(forms, outputs, list(variant.formulas.values())) if forms else []


def _described(layout: Layout, variant: Variant, value: Expr) -> str:
    """A kept value in words of the spec."""
    from symgrad.ir.traversal import substitute
    from symgrad.parse.formula import formula

    for name, form in variant.outputs.items():
        if form is value and form.op != "sym":
            return name
    named = {form: ex.symbol(name) for form, name in variant.lets.items()}
    return formula(substitute(value, named))


def _symbols(forms: Sequence[Expr], leaves: frozenset[Expr]) -> frozenset[Expr]:
    """Those of some values that forms read."""
    return frozenset(n for n in topological(*forms, leaves=leaves) if n in leaves)


def _arrays(layout: Layout, variant: Variant) -> set[str]:
    """The names of arrays of floats: of inputs and outputs."""
    return {*layout.floats(variant), *(layout.outputs[o] for o, f in variant.formulas.items() if layout.promoted(f))}


def _unpacked(names: Sequence[str]) -> str:
    """The left side of an assignment from a sequence."""
    return ", ".join(names) if len(names) > 1 else f"({names[0]},)"


def _mentions(text: str, name: str) -> bool:
    import re

    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
