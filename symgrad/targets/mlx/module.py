"""The complete text of a generated MLX module.

The value is a custom function whose rules one class of the runtime file makes of the tangents. Hyperparameters are
closed over, by one function for each of their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from symgrad.compiler.operation import Operation, Variant
from symgrad.resources import environment
from symgrad.spec.model import Parameter
from symgrad.targets.arrays import docs
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.rules import described, gradients, mentions, tangents, unpacked
from symgrad.targets.arrays.schedule import branches
from symgrad.targets.arrays.signature import checks, signature
from symgrad.targets.constants import constant_value
from symgrad.targets.formatting import format_python
from symgrad.targets.literals import literal, tuple_of
from symgrad.targets.mlx.spellings import MLX
from symgrad.targets.naming import Names
from symgrad.targets.torch.docs import listed

__all__ = ["MEMBERS", "RUNTIME", "render_module", "runtime"]

RUNTIME = "_runtime_mlx.py"

# What an mlx.nn.Module has already; a test holds it to MLX.
_MEMBERS = """
    apply apply_to_modules children clear copy eval filter_and_map freeze fromkeys get is_module items keys leaf_modules
    load_weights modules named_modules parameters pop popitem save_weights set_dtype setdefault state train
    trainable_parameters trainable_parameter_filter training unfreeze update update_modules valid_child_filter
    valid_parameter_filter values
"""
MEMBERS = frozenset(_MEMBERS.split())


def runtime() -> str:
    """The text of the file that all MLX modules of a folder share."""
    return (Path(__file__).parent / "runtime" / RUNTIME).read_text(encoding="utf-8")


def render_module(operation: Operation) -> str:
    """The module of an operation, formatted."""
    layout = Layout(operation, MLX)
    spec = layout.spec
    runtime_name = "rt" if "rt" not in layout.arguments else "_runtime_mlx"
    owner = _owner(layout)
    context: dict[str, Any] = {
        "op": spec.op,
        "exported": [*([owner["name"]] if owner else []), spec.op],
        "signature": signature(layout, "mx.array"),
        "returned": "mx.array" if len(spec.outputs) == 1 else f"tuple[{', '.join(['mx.array'] * len(spec.outputs))}]",
        "summary": docs.function_docstring(layout, docs.notes(layout, "Python values")),
        "checks": checks(layout, runtime_name),
        "arguments": ", ".join(layout.tensors),
        "call": ", ".join(t.name for t in spec.tensors),
        "hyperparameters": ", ".join(layout.values),
        "given": ", ".join(layout.hyperparameters),
        "value": branches(operation.body, layout.value, layout.condition),
        "owner": owner,
        **(_pushed(layout) if layout.is_linear else _pulled(layout)),
    }
    context["docstring"] = docs.module_docstring(layout, context["kept"])
    context["constants"] = [(name, constant_value(node)) for node, name in layout.constants.items()]
    text = environment().get_template("mlx/module.py.j2").render(**context)
    return format_python(text.replace("# imports\n", _imports(text, runtime_name)))


def _imports(text: str, runtime_name: str) -> str:
    lines = [f"import {name}\n" for name in ("functools", "math") if f"{name}." in text]
    lines += ["\n"] if lines else []
    lines += ["import mlx.core as mx\n"]
    lines += ["from mlx import nn\n"] if "nn.Module" in text else []
    lines += ["\nfrom . import _runtime_mlx as rt\n"]
    lines += ["from . import _runtime_mlx\n"] if runtime_name != "rt" else []
    return "".join(lines)


def _pushed(layout: Layout) -> dict[str, Any]:
    """What the template says of a rule by tangents."""
    certain = len(layout.spec.tensors) == 1

    def leaf(variant: Variant) -> list[str]:
        outputs = [s.value for s in variant.plan.base if s.source == "output"]
        return tangents(layout, variant, outputs, "{value}", certain=certain)

    lines = branches(layout.operation.body, leaf, layout.condition)
    wanted = [f"tangent_{t.name}" if t.name in layout.differentiable else "_" for t in layout.spec.tensors]
    sources = {"primals": layout.tensors, "outputs": list(layout.outputs.values()), "tangents": wanted}
    own = {s: names for s, names in sources.items() if any(mentions(lines, n) for n in names)}
    reads = dict.fromkeys(n for n in (*layout.tensors, *layout.outputs.values()) if mentions(lines, n))
    return {
        "rule": "tangents",
        "parameters": ", ".join(s if s in own else "_" * (k + 1) for k, s in enumerate(sources)),
        "kept": f"The derivatives read {listed(list(reads)) if reads else 'nothing'}.",
        "lines": [*(f"{unpacked(names, lines)} = {s}" for s, names in own.items()), *lines],
    }


def _pulled(layout: Layout) -> dict[str, Any]:
    """What the template says of a rule by gradients, which are not linear in the cotangents."""
    leaf = partial(gradients, layout, template="{value}")
    lines = branches(layout.operation.derivative_body, leaf, layout.condition)
    sources = {
        "primals": layout.tensors,
        "outputs": list(layout.outputs.values()),
        "cotangents": [f"grad_{o.name}" for o in layout.spec.outputs],
    }
    own = {s: names for s, names in sources.items() if any(mentions(lines, n) for n in names)}
    saved = dict.fromkeys(described(layout, v, s.value) for v in layout.variants for s in v.plan.base)
    return {
        "rule": "gradients",
        "parameters": ", ".join(s if s in own else "_" * (k + 1) for k, s in enumerate(sources)),
        "kept": f"The gradients read {listed(list(saved)) if saved else 'nothing'} beside the cotangents. There is no "
        "forward mode: the rule is not linear in the cotangent.",
        "lines": [*(f"{unpacked(names, lines)} = {s}" for s, names in own.items()), *lines],
    }


# ------------------------------------------------------------------------------------------------ nn.Module
def _owner(layout: Layout) -> dict[str, Any] | None:
    """The parts of the nn.Module that owns the parameters."""
    spec = layout.spec
    if spec.module is None:
        return None
    owned = {p.tensor: p for p in spec.module.parameters}
    free = Names(MEMBERS | {"self", "mx", "nn", "super", spec.op})
    declared = [*layout.hyperparameters, *owned]
    attributes = {n: free.reserve(n if not n.startswith("_") else n.strip("_") or "value") for n in declared}
    sizes = dict.fromkeys(d for p in owned.values() for d in p.shape or () if isinstance(d, str))
    parameters = [*sizes]
    required = [h for h in spec.hyperparameters if h.default is None]
    optional = [h for h in spec.hyperparameters if h.default is not None]
    signature_ = [f"{s}: int" for s in parameters] + [f"{h.name}: {h.type}" for h in required]
    signature_ += [f"{h.name}: {h.type} = {literal(h.default)}" for h in optional]
    signature_ += [f"{t}: float = {literal(float(p.init))}" for t, p in owned.items()]
    inputs = [t for t in spec.tensors if t.name not in owned]
    later = [t for k, t in enumerate(inputs) if all(u.default is not None for u in inputs[k:])]
    arguments = [
        f"{t.name}: mx.array{' | None' if t.default is not None else ''}{' = None' if t in later else ''}"
        for t in inputs
    ]
    values = [f"self.{attributes[t.name]}" if t.name in owned else t.name for t in spec.tensors]
    values += [f"{h}=self.{attributes[h]}" for h in layout.hyperparameters]
    lines = [f"self.{attributes[h]} = {h}" for h in layout.hyperparameters]
    lines += [f"self.{attributes[t]} = {_initial(t, p)}" for t, p in owned.items()]
    shown = ", ".join(f"{h}={{self.{attributes[h]}!r}}" for h in layout.hyperparameters)
    return {
        "name": "".join(part[:1].upper() + part[1:] for part in spec.op.split("_")),
        "signature": ", ".join(["self", *signature_]),
        "lines": lines,
        "owned": listed(list(owned)),
        "inputs": ", ".join(["self", *arguments]),
        "passed": ", ".join(values),
        "shown": shown,
    }


def _initial(tensor: str, parameter: Parameter) -> str:
    if not parameter.shape:
        return f"mx.array({tensor})"
    return f"mx.full({_shape(parameter.shape)}, {tensor})"


def _shape(dims: Sequence[int | str]) -> str:
    return tuple_of([str(d) for d in dims])
