"""JAX modules: the rule is the symbolic jvp, in `custom_jvp`, and reverse mode is its transposed.

What that keeps is what the checkpointed rule reads of inputs and outputs, and what it marks: any value may be kept, for
JAX differentiates what computes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.compiler.operation import Variant
from symgrad.ir.expr import Expr
from symgrad.plan.cut import free_cut
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.module import Framework
from symgrad.targets.jax.spellings import JAX

__all__ = ["FRAMEWORK"]


def cut(layout: Layout, variant: Variant) -> Sequence[Expr]:
    """What reverse mode keeps."""
    forms = [form for _, _, form in layout.tangent_terms(variant)]
    outputs = {form: name for name, form in variant.outputs.items() if form.op != "sym"}
    return free_cut(forms, outputs, variant.formulas.values()) if forms else []


def keep(value: Expr) -> str:
    """How a value is marked that reverse mode keeps: a sign in a byte."""
    return "rt.keep({0}, jnp.int8)" if value.op == "sign" else "rt.keep({0})"


FRAMEWORK = Framework(
    name="jax",
    spelling=JAX,
    array="Array",
    imports={
        "jax": "import jax",
        "jnp": "import jax.numpy as jnp",
        "Array": "from jax import Array",
        "special": "from jax.scipy import special",
    },
    cut=cut,
    keep=keep,
    kept="Reverse mode keeps {}.",
    read="Reverse mode keeps {}. There is no forward mode: the rule is not linear in the cotangent.",
    fixed="static",
    skip='jax = pytest.importorskip("jax")',
)
