"""What one row of the tensor-operation table holds."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological, transform
from symgrad.spec.interval import Interval

if TYPE_CHECKING:
    from symgrad.ops.tensors.extent import Dim, Extent


Tangents = tuple["Expr | None", ...]
"""Of the operands of a node; None where one is zero."""
Jvp = Callable[[Expr, Tangents], "Expr | None"]
"""From a node and the tangents of its operands to its own tangent."""


@dataclass(frozen=True)
class Ref:
    """A hyperparameter used as an attribute, for example `dim`."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Attribute:
    """A constant argument of a tensor operation.

    `kind` is `dim` (an int), `dims` (an int, several, or None for all), `bool`, `int`, `ints` (one int or several),
    `size` and `sizes` (such, or what is made of the sizes of named dimensions, as an expression),
    `order` (of a norm), `text`, or what only a definition takes: `number` (a Python number, as an expression) and
    `word` (a text or a hyperparameter of type str, as an expression). An integer hyperparameter stands in the first
    ones as a `Ref`; not in `fixed` ones, which derivatives calculate with. Integers are at least `least`, and of
    several there are `items`.
    """

    name: str
    kind: str
    default: Any = None
    required: bool = False
    least: int | None = None
    items: int | None = None
    fixed: bool = False


# Attributes that many rows have: one dimension that must be given, that is the first, or the last, unless it is given.
DIM = Attribute("dim", "dim", required=True)
FIRST = Attribute("dim", "dim", 0)
LAST = Attribute("dim", "dim", -1)
KEEPDIM = Attribute("keepdim", "bool", False)


@dataclass(frozen=True)
class TensorOp:
    """One tensor operation.

    Attributes:
        name: the operation's name in the intermediate representation.
        operands: names of the tensor arguments; `optional` of the last may be absent; `variadic` repeats the last.
        attributes: the constant arguments, in PyTorch's order.
        order: the parameters in PyTorch's order, where the operands do not come first.
        torch: template over the operands `{0}`, `{1}`, their shapes `{shape0}`, `{shape1}`, single attributes by
            name, and `{attributes}` as keywords.
        vjp: `(node, cotangent) -> cotangents of the operands`, None for no gradient; each has its operand's shape.
        jvp: `(node, tangents) -> tangent`, where one is not zero; a tangent has its operand's shape, or is None for
            zero.
        extent: `(node, extents of the operands) -> extent of the result`: what is known of its shape.
        fields: PyTorch's named results (`values`, `indices`) -> operation name of each.
        linear: whether it is linear in its first operand.
        shape_of: index of the operand whose shape the result has; None for a shape of its own.
        shape_only: indices of operands of which only the shape is read.
        cost: time of one pass, in units of an addition; `recompute` is False where it must never be repeated.
        saves: what torch's autograd keeps: `x` the operands, `o` each where another one has a gradient, `y` the
            result, `i` the indices of the result, `p` the operands that are integers.
        aliases: other accepted spellings.
        method: accepted as an attribute of a tensor expression, such as `x.T`.
        differentiable: False for results without derivatives, such as indices.
        floats: whether torch refuses it of integers.
        integer: indices of operands that are tensors of integers: labels, places.
        places: `node -> size` that integers among the operands are below.
        numbers: indices of operands that are Python numbers: sizes. The last one stands for all variadic operands.
        seeds: indices of operands that are whole numbers, or tensors of one.
        whole: whether it makes integers of integers.
        same: whether of one number, in whatever shape, it is that number again.
        fixes: other numbers of which it is that number again.
        within: an interval that its results are in, whatever its operands are.
        exact: whether it rounds nothing, as what only moves elements; what costs nothing does not either.
        rounds_inside: whether torch rounds intermediate values in half precision, on some device.
        view: whether its result may share the memory of its first operand.
        inner_view: whether torch makes its result as a view of what it has computed.
        called: what specs call, where they have no name for it itself.
        definition: what a call means, where that is not simply the node; raises ValueError for wrong arguments.
        opened: `node -> expression`, the operation by others: what targets and proofs that have no word for it take.
    """

    name: str
    operands: tuple[str, ...] = ("input",)
    attributes: tuple[Attribute, ...] = ()
    order: tuple[str, ...] = ()
    torch: str = ""
    vjp: Callable[[Expr, Expr], tuple[Expr | None, ...]] | None = None
    jvp: Jvp | None = None
    extent: Callable[[Expr, tuple[Extent, ...]], Extent] | None = None
    fields: tuple[tuple[str, str], ...] = ()
    optional: int = 0
    variadic: bool = False
    linear: bool = False
    shape_of: int | None = None
    shape_only: frozenset[int] = frozenset()
    cost: float = 1.0
    recompute: bool = True
    saves: str = ""
    aliases: tuple[str, ...] = ()
    method: str = ""
    differentiable: bool = True
    floats: bool = False
    integer: frozenset[int] = frozenset()
    places: Callable[[Expr], Dim | None] | None = None
    numbers: frozenset[int] = frozenset()
    seeds: frozenset[int] = frozenset()
    whole: bool = False
    same: bool = False
    fixes: tuple[Expr, ...] = ()
    within: Interval | None = None
    exact: bool = False
    rounds_inside: bool = False
    view: bool = False
    inner_view: bool = False
    called: tuple[str, ...] = ()
    definition: Callable[..., Expr] | None = None
    opened: Callable[[Expr], Expr] | None = None


# What many rows have in common: of views of all elements; of what gets the shape of its second operand, which alone is
# read of that.
VIEW: dict[str, Any] = {"linear": True, "cost": 0.0, "whole": True, "same": True, "view": True}
LIKE: dict[str, Any] = {"operands": ("input", "like"), "linear": True, "shape_of": 1, "shape_only": frozenset({1})}

TENSOR_OPS: dict[str, TensorOp] = {}
"""All rows by name; filled by the package."""


def pushforward(*rules: Callable[[Expr, Expr], Expr]) -> Jvp:
    """The jvp as a sum over the first operands, of `rule(node, tangent)` each; others have no part in it."""

    def jvp(node: Expr, t: Tangents) -> Expr | None:
        total: Expr | None = None
        for rule, own in zip(rules, t, strict=False):
            if own is not None:
                term = rule(node, own)
                total = term if total is None else total + term
        return total

    return jvp


same_of_tangent = pushforward(lambda node, own: make(node.op, own, *node.args[1:], **dict(node.attrs)))
"""The jvp of what is linear in its first operand alone: the same operation on the tangent of that."""


def opened(root: Expr, words: Container[str]) -> Expr:
    """The expression with operations that are none of the `words` by others, where their rows say how."""

    def visit(node: Expr) -> Expr:
        row = TENSOR_OPS.get(node.op)
        if row is None or row.opened is None or node.op in words:
            return node
        return opened(row.opened(node), words)

    return transform(root, visit) if any(n.op in TENSOR_OPS for n in topological(root)) else root


def shape_only(node: Expr) -> frozenset[int]:
    """The indices of the arguments of which a node reads only the shape."""
    row = TENSOR_OPS.get(node.op)
    return row.shape_only if row is not None else frozenset()


def data_arguments(node: Expr) -> tuple[Expr, ...]:
    """The arguments of a node whose data it reads."""
    skip = shape_only(node)
    return tuple(a for k, a in enumerate(node.args) if k not in skip) if skip else node.args


def interval(node: Expr) -> Interval | None:
    """What the results of a tensor operation lie within, whatever its operands are; None where that is everything."""
    row = TENSOR_OPS.get(node.op)
    while row is not None and row.within is None and row.same:
        node = data_arguments(node)[0]
        row = TENSOR_OPS.get(node.op)
    return None if row is None else row.within


def typed_arguments(node: Expr) -> tuple[Expr, ...]:
    """The arguments of a node whose dtypes have a part in that of its value: not labels, and not places."""
    row = TENSOR_OPS.get(node.op)
    skip = row.shape_only | row.integer if row is not None else frozenset[int]()
    return tuple(a for k, a in enumerate(node.args) if k not in skip) if skip else node.args


def is_index(node: Expr) -> bool:
    """Whether a value is made of integers that have no derivative: indices or a size."""
    row = TENSOR_OPS.get(node.op)
    return row is not None and not row.differentiable


def is_number(node: Expr) -> bool:
    """Whether a value is a Python number: of hyperparameters and of sizes."""
    pending, seen = [node], {node}
    while pending:
        part = pending.pop()
        if part.is_static or part.op == "count":
            continue
        if part.op in TENSOR_OPS or not part.args:
            return False
        pending += [a for a in part.args if a not in seen]
        seen.update(part.args)
    return True


def is_size(node: Expr) -> bool:
    """Whether a value is a Python number that is calculated of sizes."""
    return is_number(node) and not node.is_static


def is_whole_number(node: Expr) -> bool:
    """Whether a Python number is whole: made of sizes, whole numbers and hyperparameters of type int by sums, products,
    powers, and quotients that are rounded down."""
    leaves = frozenset(n for n in topological(node) if n.op in ("count", "floor"))
    order = topological(node, leaves=leaves)
    negative = any(n.op == "pow" and (n.args[1].integer or 0) <= 0 for n in order)
    return (
        is_number(node)
        and not negative
        and all(
            n.op in ("add", "mul", "pow", "count", "floor") or n.get("kind") == "int" or n.integer is not None
            for n in order
        )
    )


def results(node: Expr) -> tuple[Expr, ...]:
    """All results of the operation that a node is a named result of, in torch's order, or one of its equal parts; ()
    for other nodes."""
    if node.op in TENSOR_OPS and TENSOR_OPS[node.op].view and node.get("chunks") is not None:
        return tuple(make(node.op, *node.args, **{**dict(node.attrs), "index": k}) for k in range(node["chunks"]))
    name, _, _ = node.op.rpartition("_")
    row = TENSOR_OPS.get(name)
    operations = [operation for _, operation in row.fields] if row is not None else []
    return tuple(make(op, *node.args, **dict(node.attrs)) for op in operations) if node.op in operations else ()
