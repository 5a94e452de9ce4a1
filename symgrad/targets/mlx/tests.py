"""The generated test of an MLX module: the facts of the operation, held to symgrad's suite for MLX."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from symgrad.accuracy.evaluate import exact
from symgrad.compiler.operation import Operation
from symgrad.differentiate.modes import is_tensor_op, partials
from symgrad.ir.traversal import topological
from symgrad.resources import environment
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.tests import facts
from symgrad.targets.formatting import format_python
from symgrad.targets.literals import literal
from symgrad.targets.mlx.spellings import MLX
from symgrad.targets.torch.layout import Layout as Samples
from symgrad.targets.torch.samples import sampled_range, settings, spread, variant_at

__all__ = ["render_test"]

_POINTS = 3
_BITS = 160
_LARGE = 1e30


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
        "golden": list(golden(layout)),
        "owner": spec.module is not None,
        "owned": literal(owned),
        "sizes": literal(tuple(sizes.items())) if sizes else "",
        "only_reverse": convolves,
        "package": package,
    }
    return format_python(environment().get_template("mlx/test.py.j2").render(**context))


def golden(layout: Layout) -> Iterator[str]:
    """Points with the truth, from certified arithmetic, where the only output is pointwise in all that it reads."""
    samples = Samples(layout.operation)
    spec = layout.spec
    for values in settings(samples)[:2]:
        variant = variant_at(samples, values)
        if variant is None or len(variant.formulas) > 1:
            return
        ((_, form),) = variant.formulas.items()
        if any(map(is_tensor_op, topological(form))) or form.is_boolean or not form.tensors:
            return
        leaves = [layout.symbol(t) for t in layout.differentiable if t not in variant.overrides]
        leaves = [leaf for leaf in leaves if leaf in form.tensors]
        slopes = partials(form, leaves)
        own = {layout.symbol(h.name): v for h, v in zip(spec.hyperparameters, values, strict=True)}
        for k in range(_POINTS):
            point = [_drawn(sampled_range(t, spec), spread(k, i)) for i, t in enumerate(spec.tensors)]
            if any(t.dtype != "float" for t in spec.tensors):
                return
            place = {**own, **{layout.symbol(t.name): v for t, v in zip(spec.tensors, point, strict=True)}}
            value, *derivatives = exact([form, *(slopes[leaf] for leaf in leaves)], place, _BITS)
            found = [float(v) for v in (value, *derivatives)]
            if all(abs(v) < _LARGE for v in found):
                truth = {leaf.name: v for leaf, v in zip(leaves, found[1:], strict=True)}
                named = dict(zip(layout.hyperparameters, values, strict=True))
                yield f"Golden({literal(tuple(point))}, {_dict(named)}, {found[0]!r}, {_dict(truth)})"


def _drawn(bounds: tuple[float, float], share: float) -> float:
    """A number of float32 between bounds."""
    low, high = bounds
    nearest: float = struct.unpack("f", struct.pack("f", low + (high - low) * share))[0]
    return nearest


def _dict(values: dict[str, Any]) -> str:
    return f"{{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in values.items())}}}"
