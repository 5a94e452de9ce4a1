"""The complete text of a generated JAX module.

The value is a pure function with a `custom_jvp` rule, which is the symbolic jvp. Reverse mode is its transposed: what
that keeps is what the checkpointed part of the rule reads of inputs and outputs, and what it marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from symgrad.compiler.operation import Operation, Variant
from symgrad.ir.expr import Expr
from symgrad.plan.saving import free_cut
from symgrad.resources import environment
from symgrad.targets.arrays import docs
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.rules import described, gradients, mentions, tangents, unpacked
from symgrad.targets.arrays.schedule import branches
from symgrad.targets.arrays.signature import checks, signature
from symgrad.targets.constants import constant_value
from symgrad.targets.formatting import format_python
from symgrad.targets.jax.spellings import JAX
from symgrad.targets.literals import tuple_of
from symgrad.targets.torch.docs import listed

__all__ = ["RUNTIME", "render_module", "runtime"]

RUNTIME = "_runtime_jax.py"


def runtime() -> str:
    """The text of the file that all JAX modules of a folder share."""
    return (Path(__file__).parent / "runtime" / RUNTIME).read_text(encoding="utf-8")


def render_module(operation: Operation) -> str:
    """The module of an operation, formatted."""
    layout = Layout(operation, JAX)
    spec = layout.spec
    runtime_name = "rt" if "rt" not in layout.arguments else "_runtime_jax"
    outputs = list(layout.outputs.values())
    static = [str(len(spec.tensors) + k) for k in range(len(spec.hyperparameters))]
    context = {
        "op": spec.op,
        "signature": signature(layout, "Array"),
        "returned": "Array" if len(outputs) == 1 else f"tuple[{', '.join(['Array'] * len(outputs))}]",
        "summary": docs.function_docstring(layout, docs.notes(layout, "static")),
        "checks": checks(layout, runtime_name),
        "arguments": ", ".join([*layout.tensors, *layout.values]),
        "call": ", ".join([*(t.name for t in spec.tensors), *layout.hyperparameters]),
        "static": tuple_of(static) if static else "",
        "statics": "".join(f"{v}, " for v in layout.values),
        "and_statics": "".join(f", {v}" for v in layout.values),
        "statics_count": len(layout.values),
        "outputs": ", ".join(outputs),
        "result": outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})",
        "value": branches(operation.body, layout.value, layout.condition),
        **(_pushed(layout) if layout.is_linear else _pulled(layout)),
    }
    context["docstring"] = docs.module_docstring(layout, context["kept"])
    context["constants"] = [(name, constant_value(node)) for node, name in layout.constants.items()]
    text = environment().get_template("jax/module.py.j2").render(**context)
    return format_python(text.replace("# imports\n", _imports(text, runtime_name)))


def _imports(text: str, runtime_name: str) -> str:
    standard = [f"import {name}\n" for name in ("functools", "math") if f"{name}." in text]
    lines = [*standard, *(["\n"] if standard else []), "import jax\n"]
    lines += ["import jax.numpy as jnp\n"] if "jnp." in text else []
    lines += ["from jax import Array\n"]
    lines += ["from jax.scipy import special\n"] if "special." in text else []
    lines += ["\nfrom . import _runtime_jax as rt\n"]
    lines += ["from . import _runtime_jax\n"] if runtime_name != "rt" else []
    return "".join(lines)


def _pushed(layout: Layout) -> dict[str, Any]:
    """What the template says of a rule by tangents."""
    spec = layout.spec
    cuts = {id(v): _cut(v, [form for _, _, form in layout.tangent_terms(v)]) for v in layout.variants}
    certain = len(layout.differentiable) == 1

    def leaf(variant: Variant) -> list[str]:
        return tangents(layout, variant, cuts[id(variant)], "rt.keep({value})", certain=certain)

    lines = branches(layout.operation.body, leaf, layout.condition)
    names = [t.name for t in spec.tensors]
    wanted = [f"tangent_{t}" if t in layout.differentiable else "_" for t in names]
    own = [w for w in wanted if w != "_"]
    given = [t for t in layout.tensors if mentions(lines, t)]
    needed = [o for o in layout.outputs.values() if mentions(lines, o)]
    kept = dict.fromkeys(described(layout, v, value) for v in layout.variants for value in cuts[id(v)])
    return {
        "rule": "jvp",
        "kept": f"Reverse mode keeps {listed(list(kept)) if kept else 'nothing'}.",
        "nothing": not any(layout.tangent_terms(v) for v in layout.variants),
        "no_terms": f"[{', '.join(['[]'] * len(spec.outputs))}]",
        "wanted": ", ".join(wanted) if len(wanted) > 1 else f"({wanted[0]},)",
        "primals": unpacked(layout.tensors, lines),
        "reads_primals": bool(given),
        "only": own[0] if certain and len(wanted) > 1 else "",
        "tangents": lines,
        "parameters": ", ".join([*layout.values, *given, *needed, *own]),
        "checkpoint": spec.options.save != "speed",
    }


def _pulled(layout: Layout) -> dict[str, Any]:
    """What the template says of a rule by gradients, which are not linear in the cotangents."""
    leaf = partial(gradients, layout, template="like_{tensor}({value})")
    lines = branches(layout.operation.derivative_body, leaf, layout.condition)
    kept = [n for n in (*layout.tensors, *layout.outputs.values()) if mentions(lines, n)]
    saved = dict.fromkeys(described(layout, v, s.value) for v in layout.variants for s in v.plan.base)
    cotangents = [f"grad_{o.name}" for o in layout.spec.outputs]
    return {
        "rule": "vjp",
        "kept": f"Reverse mode keeps {listed(list(saved)) if saved else 'nothing'}. There is no forward mode: the rule "
        "is not linear in the cotangent.",
        "residuals": tuple_of(kept) if kept else "()",
        "likes": tuple_of([f"rt.like({t})" for t in layout.tensors]),
        "like_names": tuple_of([f"like_{t}" if mentions(lines, f"like_{t}") else "_" for t in layout.tensors]),
        "cotangents": cotangents,
        "gradients": lines,
    }


def _cut(variant: Variant, forms: Sequence[Expr]) -> list[Expr]:
    """What reverse mode keeps: any value may be kept, for JAX differentiates what computes it."""
    outputs = {form: name for name, form in variant.outputs.items() if form.op != "sym"}
    return free_cut(forms, outputs, variant.formulas.values()) if forms else []
