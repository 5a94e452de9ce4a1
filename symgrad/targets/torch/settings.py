"""Values of hyperparameters in generated tests: the settings in which an operation is tried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from symgrad.accuracy.evaluate import exact
from symgrad.accuracy.sampling import some_of
from symgrad.compiler.hyperparameters import hyperparameter_values
from symgrad.compiler.operation import Variant
from symgrad.ir.branches import Split, absent
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.spec import Spec
from symgrad.spec.model import Hyperparameter
from symgrad.targets.torch.layout import Layout, references

_MOST_COMBINED = 1024
_MOST_BRANCHING = 128  # combinations of those that the formulas branch on
_MOST_SETTINGS = 6


def settings(layout: Layout, every: bool = False) -> list[tuple[Any, ...]]:
    """Values of all hyperparameters: every combination of the branching ones, and every value of the others.

    With `every`, all combinations of all values, also those for which the formula has no value.
    """
    spec = layout.spec
    read = read_as_attributes(layout)
    values = [_values(spec, h, h.name in read) for h in spec.hyperparameters]
    if every:
        return some_of(values, _MOST_COMBINED)
    few = math.prod(map(len, values)) <= _MOST_SETTINGS
    found = some_of(values, _MOST_SETTINGS) if few else _thinned(spec, values)
    return [f for f in found if _is_regular(layout, f)] or found[:1]


def _thinned(spec: Spec, values: Sequence[list[Any]]) -> list[tuple[Any, ...]]:
    own = [v for h, v in zip(spec.hyperparameters, values, strict=True) if h.type in ("bool", "str")]
    branching = some_of(own, _MOST_BRANCHING)
    count = max(len(branching), *(len(v) for v in values))
    found = []
    for k in range(count):
        choices = iter(branching[k % len(branching)])
        found.append(
            tuple(
                next(choices) if h.type in ("bool", "str") else v[k % len(v)]
                for h, v in zip(spec.hyperparameters, values, strict=True)
            )
        )
    return found


def _is_regular(layout: Layout, values: Sequence[Any]) -> bool:
    """Whether the formula has a value with these hyperparameters: `1 / (b - a)` has none where they are equal."""
    variant = variant_at(layout, values)
    own = layout.environment(values)
    scalars = [n for f in variant.formulas.values() for n in topological(f) if _may_be_undefined(n)] if variant else []
    return not scalars or not any(v != v or math.isinf(v) for v in exact(scalars, own, 53))


def _may_be_undefined(node: Expr) -> bool:
    """Whether a node is a power, a product or a function of hyperparameters alone."""
    return (
        node.is_static
        and bool(node.args)
        and bool(node.symbols)
        and not node.is_boolean
        and node.op not in ("add", "where")
    )


def _values(spec: Spec, h: Hyperparameter, is_attribute: bool) -> list[Any]:
    """Values of one hyperparameter; of an attribute such as `dim` only those that any tensor allows."""
    if is_attribute and h.type == "int" and isinstance(h.default, int) and not spec.test.values.get(h.name):
        return [h.default, 0] if h.default < 0 else [h.default]
    return hyperparameter_values(spec, h)


def read_as_attributes(layout: Layout) -> frozenset[str]:
    """The hyperparameters that tensor operations take as attributes, bounds or sizes, which indices may reach."""
    nodes = topological(*layout.formulas)
    rows = [(n, TENSOR_OPS[n.op]) for n in nodes if n.op in TENSOR_OPS]
    given = [s for n, row in rows for k in row.numbers if k < len(n.args) for s in n.args[k].symbols]
    return references(nodes) | {s.name for s in given if s["kind"] == "int"}


def variant_at(layout: Layout, values: Sequence[Any]) -> Variant | None:
    """The variant that the values of the hyperparameters lead to, with all optional tensors given."""
    environment = layout.environment(values) | {absent(t.name): False for t in layout.spec.tensors}
    body = layout.operation.body
    while isinstance(body, Split):
        (holds,) = exact([body.condition], environment, 53)
        body = body.then if holds else body.otherwise
    return body
