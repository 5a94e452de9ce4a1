"""The generated test of an MLX module: the facts of the operation, held to symgrad's suite for MLX."""

from __future__ import annotations

from symgrad.compiler.operation import Operation
from symgrad.ir.traversal import topological
from symgrad.resources import environment
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.tests import facts
from symgrad.targets.formatting import format_python
from symgrad.targets.literals import literal
from symgrad.targets.mlx.spellings import MLX

__all__ = ["render_test"]


def render_test(operation: Operation, package: str = "") -> str:
    """The test of an operation's module, formatted; it imports that from `package`, from beside itself if empty."""
    layout = Layout(operation, MLX)
    spec = layout.spec
    owned = [p.tensor for p in spec.module.parameters] if spec.module else []
    shapes = {p.tensor: p.shape or () for p in spec.module.parameters} if spec.module else {}
    sizes = {d: (t, k) for t, shape in shapes.items() for k, d in enumerate(shape) if isinstance(d, str)}
    convolves = any(
        n.op.startswith("conv") for v in layout.variants for f in v.formulas.values() for n in topological(f)
    )
    context = {
        **facts(layout),
        "owner": spec.module is not None,
        "owned": literal(owned),
        "sizes": literal(tuple(sizes.items())) if sizes else "",
        "only_reverse": convolves,
        "package": package,
    }
    return format_python(environment().get_template("mlx/test.py.j2").render(**context))
