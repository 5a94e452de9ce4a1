"""Machine operations that an eager library executes in one pass: multiply-add, and the backward kernels of activations.

Fused operations are nodes of their own, named as in torch; they are differentiable, batched and traced like any other.
What is fused decides what a form costs, and so what is saved; a backend only spells it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import ONE, ZERO, Expr, make
from symgrad.ir.pattern import match, wild
from symgrad.ir.traversal import kept, substitute, topological
from symgrad.ops.tensors import TENSOR_OPS, is_number
from symgrad.ops.tensors.extent import extent

a, b, c, g, k, y = wild("a"), wild("b"), wild("c"), wild("g"), wild("k"), wild("y")


@dataclass(frozen=True)
class Fusion:
    """One pass for `pattern`: the operation `name` on the bound `arguments`."""

    name: str
    pattern: Expr
    arguments: tuple[Expr, ...]
    alike: bool = False  # all arguments must come from one tensor: the kernel does not promote dtypes
    scalar: Expr | None = None  # the wildcard that is a Python number; the others are tensors
    mask: Expr | None = None  # the wildcard that is a truth value; the others depend on a cotangent or tangent


def _m(op: str, *args: Expr) -> Expr:
    return make(op, *args)


def _leaky(name: str, value: Expr, arguments: tuple[Expr, ...]) -> Iterator[Fusion]:
    """A value where `a` is above 0, and a multiple of it below."""
    for small, slope in ((_m("mul", k, value), k), (_m("div", value, k), 1 / k)):
        for pattern in (
            _m("where", truth.compare("gt", a, 0), value, small),
            _m("where", truth.compare("le", a, 0), small, value),
        ):
            yield Fusion(name, pattern, (*arguments, slope), scalar=k)


FORWARD = frozenset({"leaky_relu"})  # what forward computes in one pass, too
GUARDED = "guarded"  # a choice that only a derivative needs

FUSIONS = (
    Fusion("threshold_backward", _m("where", truth.compare("gt", a, 0), g, ZERO), (g, a), alike=True),
    Fusion("threshold_backward", _m("where", truth.compare("le", a, 0), ZERO, g), (g, a), alike=True),
    *_leaky("leaky_relu", a, (a,)),
    *_leaky("leaky_relu_backward", g, (g, a)),
    Fusion("masked", _m("where", c, g, ZERO), (g, c), mask=c),
    Fusion("masked", _m("where", c, ZERO, g), (g, _m("not", c)), mask=c),
    Fusion("sigmoid_backward", _m("mul", _m("mul", y, _m("sub", ONE, y)), g), (g, y), alike=True),
    Fusion("tanh_backward", _m("mul", _m("sub", ONE, _m("pow", y, ex.num(2))), g), (g, y), alike=True),
    Fusion("addcmul_scaled", _m("add", c, _m("mul", k, _m("mul", a, b))), (c, a, b, k), scalar=k),
    Fusion("addcmul_scaled", _m("add", _m("mul", k, _m("mul", a, b)), c), (c, a, b, k), scalar=k),
    Fusion("add_scaled", _m("add", c, _m("mul", k, a)), (c, a, k), scalar=k),
    Fusion("add_scaled", _m("add", _m("mul", k, a), c), (c, a, k), scalar=k),
    Fusion("sub_scaled", _m("sub", c, _m("mul", k, a)), (c, a, k), scalar=k),
    Fusion("addcmul", _m("add", _m("mul", a, b), c), (c, a, b)),
    Fusion("addcmul", _m("add", c, _m("mul", a, b)), (c, a, b)),
    Fusion("subcmul", _m("sub", c, _m("mul", a, b)), (c, a, b)),
)


def softmax_fusions(dim: int) -> tuple[Fusion, ...]:
    """One pass for the gradient through a softmax along `dim`, multiplied out or not, or through its logarithm."""
    weighted = _m("mul", y, g)
    total = make("sum", weighted, dim=dim, keepdim=True)
    patterns = (_m("mul", y, _m("sub", g, total)), _m("sub", weighted, _m("mul", y, total)))
    of_log = _m("sub", g, _m("mul", _m("exp", y), make("sum", g, dim=dim, keepdim=True)))
    return (
        *(Fusion("softmax_backward", pattern, (g, y, ex.num(dim))) for pattern in patterns),
        Fusion("log_softmax_backward", of_log, (g, y, ex.num(dim))),
    )


def fuse(roots: Iterable[Expr], leaves: frozenset[Expr] = frozenset(), *, in_forward: bool = False) -> list[Expr]:
    """Machine-level roots with one-pass operations; a value that something else needs too is not fused away.

    What is compared with an extremum that forward has kept is rounded as it was there, where few are fused.
    """
    roots = list(roots)
    order = topological(*roots, leaves=leaves)
    uses: dict[Expr, int] = {}
    for node in (*roots, *(x for n in order if n not in leaves for x in n.args)):
        uses[node] = uses.get(node, 0) + 1
    fused: dict[Expr, Expr] = {}
    guards = {} if in_forward else _guards(roots, order, leaves)
    compared = [a for n in order if n.op == "eq" for a in n.args]
    as_forward = frozenset(order if in_forward else topological(*compared, leaves=leaves))
    found = (n["dim"] for n in order if n.op == "sum" and n["keepdim"] is True and isinstance(n["dim"], int))
    dims = tuple(dict.fromkeys(found))
    for node in order:
        if node in leaves or not node.args or node.is_static:
            fused[node] = node
            continue
        first = _first(node, dims, uses, leaves, fused)
        if node in as_forward and first is not None and first[0] not in FORWARD:
            first = None
        placed = None if in_forward else _slice_added(node, uses, leaves)
        if node in guards:
            mask, value, other = guards[node]
            fused[node] = make(GUARDED, fused[value], _fused_mask(mask, fused), other)
        elif placed is not None:
            onto, back = placed
            fused[node] = make("slice_added", fused[onto], fused[back.args[0]], **dict(back.attrs))
        elif first is not None:
            fused[node] = make(
                first[0], *(_fused_mask(x, fused) if x.is_boolean else fused.get(x, x) for x in first[1])
            )
        elif all(fused[x] is x for x in node.args):
            fused[node] = node
        else:
            fused[node] = make(node.op, *(fused[x] for x in node.args), **dict(node.attrs))
    return [fused[r] for r in roots]


# Operations whose results have memory of their own, which autograd does not keep.
_NEW = frozenset(["add", "sub", "mul", "div", "neg", "slice_back"])


def _slice_added(node: Expr, uses: Mapping[Expr, int], leaves: Container[Expr]) -> tuple[Expr, Expr] | None:
    """Of a sum, a value to whose slice the other operand may be added in its memory, and that operand.

    Nobody else reads the value; it is new, and has the whole shape.
    """
    if node.op != "add":
        return None
    left, right = node.args
    for onto, back in ((left, right), (right, left)):
        if back.op != "slice_back" or back["step"] != 1:
            continue
        like, new = back.args[1], onto.args[0] if onto.op == "sum_to" else onto
        spans = onto.args[1] is like if onto.op == "sum_to" else _spans(onto, like, back["dim"])
        if spans and new.op in _NEW and all(n not in leaves and uses[n] <= 1 for n in (back, onto, new)):
            return onto, back
    return None


def _spans(value: Expr, like: Expr, dim: int) -> bool:
    """Whether a value surely has every element of a shape; more of them before a `dim` that counts from the end."""
    operands = (value, *value.args, *(a for operand in value.args if operand.op in _NEW for a in operand.args))
    return extent(value) == extent(like) or (dim < 0 and any(extent(a) == extent(like) for a in operands))


def _fused_mask(mask: Expr, fused: Mapping[Expr, Expr]) -> Expr:
    """A mask, or its negation, of fused operations."""
    return fused[mask] if mask in fused else truth.logical("not", fused[mask.args[0]])


def _choice(node: Expr) -> tuple[Expr, Expr, Expr] | None:
    """A choice by a mask between a value and a number: where the mask chooses the value, that, and the number."""
    if node.op != "where" or not _is_mask(node.args[0]):
        return None
    mask, then, otherwise = node.args
    if _is_scalar(otherwise):
        return mask, then, otherwise
    return (truth.logical("not", mask), otherwise, then) if _is_scalar(then) else None


def _guards(
    roots: Sequence[Expr], order: Iterable[Expr], leaves: frozenset[Expr]
) -> dict[Expr, tuple[Expr, Expr, Expr]]:
    """Choices of a number that no value shows, because the same mask hides what is computed from it element by element.

    They are there for its derivative, of which 0 times infinity would be NaN.
    """
    chosen: dict[Expr, dict[Expr, tuple[Expr, Expr, Expr]]] = {}
    for node in order:
        own = None if node in leaves else _choice(node)
        if own is not None:
            chosen.setdefault(own[0], {})[node] = own
    hidden: dict[Expr, tuple[Expr, Expr, Expr]] = {}
    for mask, nodes in chosen.items():
        if len(nodes) > 1 and any(own[2] is ZERO for own in nodes.values()):
            shown = _shown(roots, mask, leaves)
            hidden |= {n: own for n, own in nodes.items() if n not in shown}
    return hidden


def _shown(roots: Iterable[Expr], mask: Expr, leaves: frozenset[Expr]) -> set[Expr]:
    """The nodes that the roots read other than element by element below a choice between a value and 0 by the mask."""
    shown, hidden, stack = set[Expr](), set[Expr](), [(root, True) for root in roots]
    while stack:
        node, open_ = stack.pop()
        found = shown if open_ else hidden
        if node in found:
            continue
        found.add(node)
        if node in leaves:
            continue
        own = _choice(node)
        below = own[1] if own is not None and own[0] is mask and own[2] is ZERO else None
        whole = node.op in TENSOR_OPS  # puts elements together
        stack += [(a, (open_ or whole) and a is not below) for a in node.args]
    return shown


@dataclass(frozen=True)
class _Match:
    """What a fusion takes in at a node: the operations `inside` and how often the whole reads each."""

    name: str
    arguments: tuple[Expr, ...]
    inside: Mapping[Expr, int]
    at_hand: tuple[Expr, ...]


_BY_OPERATION: Mapping[str, Sequence[Fusion]] = {
    op: [f for f in FUSIONS if f.pattern.op == op] for op in {f.pattern.op for f in FUSIONS}
}
_SOFTMAX = frozenset(f.pattern.op for f in softmax_fusions(0))


def _first(
    node: Expr, dims: tuple[int, ...], uses: Mapping[Expr, int], leaves: frozenset[Expr], done: Collection[Expr]
) -> tuple[str, tuple[Expr, ...]] | None:
    """The first operation whose pattern `node` matches, on arguments that are at hand.

    An argument is not where only another argument reads it, which is a leaf. A comparison may be needed elsewhere: it
    is not what takes time.
    """
    for own in _matches(node, dims if node.op in _SOFTMAX else ()):
        free = all((n.is_boolean or uses.get(n, 0) <= count) and n not in leaves for n, count in own.inside.items())
        if free and all(a in done for a in own.at_hand):
            return own.name, own.arguments
    return None


@kept
def _matches(node: Expr, dims: tuple[int, ...]) -> Sequence[_Match]:
    """What may be fused at a node where sums go along `dims`, whatever is at hand."""
    found: list[_Match] = []
    for fusion in (*(f for dim in dims for f in softmax_fusions(dim)), *_BY_OPERATION.get(node.op, ())):
        for bindings in match(fusion.pattern, node, {}):
            number = None if fusion.scalar is None else bindings[fusion.scalar]
            tensors = tuple(
                bindings[w] for w in fusion.arguments if w in bindings and w not in (fusion.scalar, fusion.mask)
            )
            if fusion.mask is not None and not (_is_mask(bindings[fusion.mask]) and _are_differential(tensors)):
                continue
            if number is not None and not (_is_scalar(number) and all(map(_has_float, tensors))):
                continue
            if not _tensors(tensors) or (fusion.alike and not _alike(tensors)):
                continue
            if fusion.name == "subcmul" and _is_another_product(*tensors):
                continue
            arguments = tuple(substitute(x, bindings) for x in fusion.arguments)
            masks = () if fusion.mask is None else (bindings[fusion.mask],)
            inside = _interior(node, frozenset((*arguments, *masks)))
            own = [a for n in (node, *inside) for a in n.args]
            found.append(_Match(fusion.name, arguments, {n: own.count(n) for n in inside}, (*tensors, *masks)))
    return found


def _interior(node: Expr, arguments: frozenset[Expr]) -> list[Expr]:
    """The operations between a pattern's root and its arguments."""
    return [n for n in topological(node, leaves=arguments) if n is not node and n not in arguments and n.args]


def _is_another_product(value: Expr, *factors: Expr) -> bool:
    """Whether what a product of forward is taken from is a product as well: of equal ones nothing is left, but where
    one is not rounded."""
    products = value.op in ("mul", "pow") and value not in factors
    return products and not any(v.is_differential or v.is_static for v in (value, *factors))


def _tensors(arguments: tuple[Expr, ...]) -> bool:
    return not any(is_number(a) or a.is_boolean for a in arguments)


def _is_scalar(value: Expr) -> bool:
    return value.is_static and not value.is_boolean


def _is_mask(value: Expr) -> bool:
    return value.is_boolean and not value.is_static


def _are_differential(values: tuple[Expr, ...]) -> bool:
    return all(v.is_differential for v in values)


def _has_float(value: Expr) -> bool:
    """Whether a value cannot be an integer tensor, which takes no fraction as a factor."""
    return any(s["kind"] not in ("int_tensor", "bool_tensor") for s in value.tensors)


def _alike(arguments: tuple[Expr, ...]) -> bool:
    own: set[Expr] = set()
    for argument in arguments:
        own |= {s for s in argument.tensors if not s.is_differential}
    return len(own) == 1
