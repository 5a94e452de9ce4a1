"""MLX modules: the rule is the symbolic jvp, which the runtime file transposes for reverse mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.compiler.operation import Variant
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.lower.naming import Names, class_name
from symgrad.spec.model import Parameter
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.module import Framework
from symgrad.targets.arrays.signature import tensor_arguments
from symgrad.targets.literals import literal, tuple_of
from symgrad.targets.mlx.spellings import MLX
from symgrad.targets.torch.docs import listed

__all__ = ["FRAMEWORK", "MEMBERS"]

# What an mlx.nn.Module has already; a test holds it to MLX.
_MEMBERS = """
    apply apply_to_modules children clear copy eval filter_and_map freeze fromkeys get is_module items keys leaf_modules
    load_weights modules named_modules parameters pop popitem save_weights set_dtype setdefault state train
    trainable_parameters trainable_parameter_filter training unfreeze update update_modules valid_child_filter
    valid_parameter_filter values
"""
MEMBERS = frozenset(_MEMBERS.split())


def cut(layout: Layout, variant: Variant) -> Sequence[Expr]:
    """The arguments that the rule reads, and the outputs rather than what they are computed from."""
    outputs = frozenset(s.value for s in variant.plan.base if s.source == "output")
    read = topological(*(form for _, _, form in layout.tangent_terms(variant)), leaves=outputs)
    own = {layout.symbol(t.name) for t in layout.spec.tensors}
    return [n for n in read if n in outputs or n in own]


def _owner(layout: Layout) -> dict[str, Any] | None:
    """The parts of the nn.Module that owns the parameters."""
    spec = layout.spec
    if spec.module is None:
        return None
    owned = {p.tensor: p for p in spec.module.parameters}
    free = Names(MEMBERS | {"self", "mx", "rt", "super", spec.op})
    declared = [*layout.hyperparameters, *owned]
    attributes = {n: free.reserve(n if not n.startswith("_") else n.strip("_") or "value") for n in declared}
    called = {n: n if n != "self" else "self_" for n in declared}  # as arguments of the constructor
    sizes = dict.fromkeys(d for p in owned.values() for d in p.shape or () if isinstance(d, str))
    parameters = [*sizes]
    required = [h for h in spec.hyperparameters if h.default is None]
    optional = [h for h in spec.hyperparameters if h.default is not None]
    signature_ = [f"{s}: int" for s in parameters] + [f"{called[h.name]}: {h.type}" for h in required]
    signature_ += [f"{called[h.name]}: {h.type} = {literal(h.default)}" for h in optional]
    signature_ += [f"{called[t]}: float = {literal(float(p.init))}" for t, p in owned.items()]
    inputs = [t for t in spec.tensors if t.name not in owned]
    values = [f"self.{attributes[t.name]}" if t.name in owned else t.name for t in spec.tensors]
    values += [f"{h}=self.{attributes[h]}" for h in layout.hyperparameters]
    lines = [f"self.{attributes[h]} = {called[h]}" for h in layout.hyperparameters]
    lines += [f"self.{attributes[t]} = {_initial(called[t], p)}" for t, p in owned.items()]
    shown = ", ".join(f"{h}={{self.{attributes[h]}!r}}" for h in layout.hyperparameters)
    return {
        "name": class_name(spec.op),
        "signature": ", ".join(["self", *signature_]),
        "lines": lines,
        "owned": listed(list(owned)),
        "inputs": ", ".join(["self", *tensor_arguments(inputs, "mx.array")]),
        "passed": ", ".join(values),
        "shown": shown,
    }


def _initial(tensor: str, parameter: Parameter) -> str:
    if not parameter.shape:
        return f"mx.array({tensor})"
    return f"mx.full({_shape(parameter.shape)}, {tensor})"


def _shape(dims: Sequence[int | str]) -> str:
    return tuple_of([str(d) for d in dims])


def _tested(layout: Layout) -> dict[str, Any]:
    """What the module owns, and what MLX itself cannot do; its suite has no checks of empty and of large arrays."""
    module = layout.spec.module
    owned = module.parameters if module else ()
    sizes = {d: (p.tensor, k) for p in owned for k, d in enumerate(p.shape or ()) if isinstance(d, str)}
    formulas = (f for v in layout.variants for f in v.formulas.values())
    convolves = any(n.op.startswith("conv") for n in topological(*formulas))
    return {
        "owner": module is not None,
        "owned": literal([p.tensor for p in owned]),
        "sizes": literal(tuple(sizes.items())) if sizes else "",
        "only_reverse": "MLX has no forward mode and no vmap of its convolutions" if convolves else "",
        "empty": [],
        "large": [],
    }


FRAMEWORK = Framework(
    name="mlx",
    spelling=MLX,
    array="mx.array",
    imports={"mx": "import mlx.core as mx"},
    cut=cut,
    kept="The derivatives read {}.",
    read="The gradients read {} beside the cotangents. There is no forward mode: the rule is not linear in the "
    "cotangent.",
    fixed="Python values",
    skip='mx = pytest.importorskip("mlx.core")',
    owner=_owner,
    tested=_tested,
)
