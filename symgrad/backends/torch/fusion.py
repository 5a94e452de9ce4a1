"""Machine operations that torch executes in one pass: multiply-add, and the backward kernels of activations.

Fused operations are nodes of their own, named as in torch; they are differentiable, batched and traced like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from symgrad import expr as ex
from symgrad.expr import ONE, ZERO, Expr, make, topological
from symgrad.pattern import match, wild

a, b, c, g, k, y = wild("a"), wild("b"), wild("c"), wild("g"), wild("k"), wild("y")


@dataclass(frozen=True)
class Fusion:
    """One pass for `pattern`: the operation `name` on the bound `arguments`, printed by `torch`."""

    name: str
    pattern: Expr
    arguments: tuple[Expr, ...]
    torch: str
    alike: bool = False  # all arguments must come from one tensor: the kernel does not promote dtypes
    scalar: Expr | None = None  # the wildcard that is a Python number; the others are tensors


def _m(op: str, *args: Expr) -> Expr:
    return make(op, *args)


FUSIONS = (
    Fusion(
        "threshold_backward",
        _m("where", ex.compare("gt", a, 0), g, ZERO),
        (g, a),
        "torch.ops.aten.threshold_backward({0}, {1}, 0)",
        alike=True,
    ),
    Fusion(
        "sigmoid_backward",
        _m("mul", _m("mul", y, _m("sub", ONE, y)), g),
        (g, y),
        "torch.ops.aten.sigmoid_backward({0}, {1})",
        alike=True,
    ),
    Fusion(
        "tanh_backward",
        _m("mul", _m("sub", ONE, _m("pow", y, ex.num(2))), g),
        (g, y),
        "torch.ops.aten.tanh_backward({0}, {1})",
        alike=True,
    ),
    Fusion(
        "addcmul_scaled",
        _m("add", c, _m("mul", k, _m("mul", a, b))),
        (c, a, b, k),
        "torch.addcmul({0}, {1}, {2}, value={3})",
        scalar=k,
    ),
    Fusion(
        "addcmul_scaled",
        _m("add", _m("mul", k, _m("mul", a, b)), c),
        (c, a, b, k),
        "torch.addcmul({0}, {1}, {2}, value={3})",
        scalar=k,
    ),
    Fusion("add_scaled", _m("add", c, _m("mul", k, a)), (c, a, k), "torch.add({0}, {1}, alpha={2})", scalar=k),
    Fusion("add_scaled", _m("add", _m("mul", k, a), c), (c, a, k), "torch.add({0}, {1}, alpha={2})", scalar=k),
    Fusion("sub_scaled", _m("sub", c, _m("mul", k, a)), (c, a, k), "torch.sub({0}, {1}, alpha={2})", scalar=k),
    Fusion("addcmul", _m("add", _m("mul", a, b), c), (c, a, b), "torch.addcmul({0}, {1}, {2})"),
    Fusion("addcmul", _m("add", c, _m("mul", a, b)), (c, a, b), "torch.addcmul({0}, {1}, {2})"),
    Fusion("subcmul", _m("sub", c, _m("mul", a, b)), (c, a, b), "torch.addcmul({0}, {1}, {2}, value=-1)"),
)
SPELLING = {fusion.name: fusion.torch for fusion in FUSIONS}


def fuse(roots: Iterable[Expr], leaves: frozenset[Expr] = frozenset()) -> list[Expr]:
    """Machine-level roots with one-pass operations; a value that something else needs too is not fused away."""
    roots = list(roots)
    order = topological(*roots, leaves=leaves)
    uses: dict[Expr, int] = {}
    for node in (*roots, *(x for n in order if n not in leaves for x in n.args)):
        uses[node] = uses.get(node, 0) + 1
    fused: dict[Expr, Expr] = {}
    for node in order:
        if node in leaves or not node.args or node.is_static:
            fused[node] = node
            continue
        found = _first(node, uses, leaves, fused)
        if found is None:
            fused[node] = make(node.op, *(fused[x] for x in node.args), **dict(node.attrs))
        else:
            fused[node] = make(found[0], *(fused[x] for x in found[1]))
    return [fused[r] for r in roots]


def _first(
    node: Expr, uses: Mapping[Expr, int], leaves: frozenset[Expr], done: Collection[Expr]
) -> tuple[str, tuple[Expr, ...]] | None:
    """The first operation whose pattern `node` matches, on arguments that are at hand.

    An argument is not where only another argument reads it, which is a leaf.
    """
    for fusion in FUSIONS:
        for bindings in match(fusion.pattern, node, {}):
            arguments = tuple(bindings[x] for x in fusion.arguments)
            inside = _interior(node, frozenset(arguments))
            free = all(uses.get(n, 0) <= 1 and n not in leaves for n in inside)
            number = None if fusion.scalar is None else bindings[fusion.scalar]
            tensors = tuple(bindings[w] for w in fusion.arguments if w is not fusion.scalar)
            if number is not None and not (_is_scalar(number) and all(map(_has_float, tensors))):
                continue
            free = free and all(a in done for a in tensors)
            if free and _tensors(tensors) and (not fusion.alike or _alike(tensors)):
                return fusion.name, arguments
    return None


def _interior(node: Expr, arguments: frozenset[Expr]) -> list[Expr]:
    """The operations between a pattern's root and its arguments."""
    return [n for n in topological(node, leaves=arguments) if n is not node and n not in arguments and n.args]


def _tensors(arguments: tuple[Expr, ...]) -> bool:
    return all(not a.is_static and not a.is_boolean for a in arguments)


def _is_scalar(value: Expr) -> bool:
    return value.is_static and not value.is_boolean


def _has_float(value: Expr) -> bool:
    """Whether a value cannot be an integer tensor, which takes no fraction as a factor."""
    return any(s["kind"] not in ("int_tensor", "bool_tensor") for s in value.tensors)


def _alike(arguments: tuple[Expr, ...]) -> bool:
    own: set[Expr] = set()
    for argument in arguments:
        own |= {s for s in argument.tensors if not s.is_differential}
    return len(own) == 1


Estimate = Callable[[list[Expr]], float]


def distribute_cotangents(gradients: list[Expr], estimate: Estimate) -> list[Expr]:
    """The gradients, each with its cotangent inside or outside of the sum it multiplies, as is cheaper in all."""
    best = list(gradients)
    spent = estimate(best)
    for i, gradient in enumerate(best):
        inside = _distributed(gradient)
        if inside is not gradient:
            candidate = [*best[:i], inside, *best[i + 1 :]]
            price = estimate(candidate)
            if price < spent:
                best, spent = candidate, price
    return best


def _distributed(gradient: Expr) -> Expr:
    if gradient.op == "sum_to":
        return make("sum_to", _distributed(gradient.args[0]), gradient.args[1])
    if gradient.op != "mul":
        return gradient
    sums = [f for f in gradient.args if f.op == "add" and not f.is_static]
    if len(sums) != 1:
        return gradient
    others = [f for f in gradient.args if f is not sums[0]]
    return ex.add(*(ex.mul(term, *others) for term in sums[0].args))
