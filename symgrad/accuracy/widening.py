"""Parts of a formula in float64, where its other parts are computed in float32: angles of sine, cosine and tangent.

An angle that is computed is rounded, and its sine is off by as much; a product may even overflow, and has no sine then.
Evaluated in float64 it is neither, and the function itself needs no more than float32 for its result. Such a function
is `narrow_sin(angle)`, whose angle is made of `widen(x)` for each tensor x. A language that can reduce an angle before
it rounds it computes both at the price of a sine in float32; the others evaluate the whole formula in float64.

A derivative that is needed in float64 beside others that are not is `single(form)`, in which every tensor that is read
is `double(x)`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import operations, rebuild, substitute, topological, transform
from symgrad.ops.tensors import TENSOR_OPS, shape_only

__all__ = [
    *("DOUBLE", "NARROW", "SINGLE", "WIDEN"),
    *("as_before", "in_float64", "is_double", "with_wide_angles", "without_float64"),
]

WIDEN = "widen"
NARROW = {f"narrow_{name}": name for name in ("sin", "cos", "tan")}  # of an argument in float64, and what it computes

DOUBLE, SINGLE = "double", "single"  # a value in float64, and one in the type of the others again

_NARROW_OF = {name: narrow for narrow, name in NARROW.items()}
_ARITHMETIC = frozenset({"sym", "num", "const", "add", "mul", "pow"})


def with_wide_angles(roots: Sequence[Expr]) -> list[Expr]:
    """The roots with every angle that is computed from tensors by arithmetic alone in float64."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(*roots):
        if node.op in _NARROW_OF and _is_computed(node.args[0]):
            mapped[node] = make(_NARROW_OF[node.op], _widened(node.args[0]))
        else:
            mapped[node] = rebuild(node, [mapped[a] for a in node.args]) if node.args else node
    return [mapped[r] for r in roots]


def _is_computed(angle: Expr) -> bool:
    """Whether an angle is rounded when it is computed, by operations that every language has in float64."""
    if angle.is_static or angle.op == "sym":
        return False
    nodes = [n for n in topological(angle) if not n.is_static]
    powers = [n.args[1].number for n in nodes if n.op == "pow"]
    return all(n.op in _ARITHMETIC for n in nodes) and all(p in (-1, 2) for p in powers)


def _widened(angle: Expr) -> Expr:
    """An angle with all that it is made of in float64: tensors, and what follows from hyperparameters alone."""
    leaves = [n for n in topological(angle) if n.op == "sym" and n.tensors]
    numbers = [a for n in topological(angle) if not n.is_static for a in n.args if a.is_static and a.symbols]
    return substitute(angle, {n: make(WIDEN, n) for n in (*leaves, *numbers)})


def as_before(number: Expr) -> Expr:
    """What follows from hyperparameters alone, which Python and C++ compute in float64 anyway."""
    return substitute(number, {n: n.args[0] for n in topological(number) if n.op == WIDEN})


def in_float64(derivative: Expr, saved: Collection[Expr]) -> Expr:
    """A gradient or tangent computed from tensors and `saved` values in float64, and rounded before it is reduced.

    What lends its shape alone stays as it is.
    """
    if derivative.op in TENSOR_OPS:
        parts = [a if k in shape_only(derivative) else in_float64(a, saved) for k, a in enumerate(derivative.args)]
        return rebuild(derivative, parts)
    mapped: dict[Expr, Expr] = {}
    for node in topological(derivative, leaves=saved):
        if not node.is_boolean and (node in saved or (node.op == "sym" and node.tensors)):
            mapped[node] = make(DOUBLE, node)
        else:
            mapped[node] = node if node in saved else rebuild(node, (mapped[a] for a in node.args))
    return make(SINGLE, mapped[derivative])


def without_float64(root: Expr) -> Expr:
    """The value with nothing said of float64."""
    return transform(root, lambda node: node.args[0] if node.op in (DOUBLE, SINGLE) else node)


def is_double(value: Expr) -> bool:
    """Whether a value is in float64 for smaller inputs, because of what it is made of."""
    return value.op != SINGLE and DOUBLE in operations(value)
