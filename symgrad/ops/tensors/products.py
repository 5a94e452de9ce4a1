"""Matrix products and convolutions: bilinear operations, each with the two that are its derivatives.

For y = a * b of any such kind, with cotangent g, the number <g, a * b> is linear in each of a, b and g. Its derivatives
are three operations, and the derivatives of these are the same three again: a closed set, right to every order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from symgrad.ir.expr import Expr, add, make, split_coefficient
from symgrad.ops.tensors import sizes
from symgrad.ops.tensors.extent import Dim, Extent, ShapeConflict, broadcast, extent, same, unknown
from symgrad.ops.tensors.row import Attribute, Jvp, Tangents, TensorOp, pushforward
from symgrad.ops.tensors.shaping import squeeze, sum_to, unsqueeze
from symgrad.ops.tensors.transposes import matrix_transpose

Make = Callable[..., Expr]


def trilinear(product: Make, left: Make, right: Make) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """vjp and jvp of `product(node, a, b)` and of its derivatives `left(node, g, b, a)`, `right(node, a, g, b)`.

    Constructors take the attributes from the node that comes first. Derivatives have the shape of the last operand.
    """

    def push(function: Make, operands: int) -> Jvp:
        """The jvp of `function(node, *operands)`, which takes so many of the node's and is linear in the first two."""

        def first(node: Expr, own: Expr) -> Expr:
            return function(node, own, *node.args[1:operands])

        def second(node: Expr, own: Expr) -> Expr:
            return function(node, node.args[0], own, *node.args[2:operands])

        return pushforward(first, second)

    def pull_product(node: Expr, g: Expr) -> tuple[Expr | None, ...]:
        a, b = node.args
        return left(node, g, b, a), right(node, a, g, b)

    def pull_left(node: Expr, h: Expr) -> tuple[Expr | None, ...]:
        g, b, _ = node.args
        return product(node, h, b), right(node, h, g, b), None

    def pull_right(node: Expr, h: Expr) -> tuple[Expr | None, ...]:
        a, g, _ = node.args
        return left(node, g, h, a), product(node, a, h), None

    return (
        {"vjp": pull_product, "jvp": push(product, 2)},
        {"vjp": pull_left, "jvp": push(left, 3)},
        {"vjp": pull_right, "jvp": push(right, 3)},
    )


# ------------------------------------------------------------------------------------------------ matrices
def matmul(_: Expr, a: Expr, b: Expr) -> Expr:
    return make("matmul", a, b)


def _left(_: Expr, g: Expr, b: Expr, like: Expr) -> Expr:
    """g @ b.mT, of the shape of `like`."""
    a_known, b_known = extent(like), extent(b)
    if b_known.exact and len(b_known.dims) == 2:  # a vector or any batch of rows
        return make("matmul", g, matrix_transpose(b))
    if len(a_known.dims) > 1 and len(b_known.dims) > 1:
        product = make("matmul", g, matrix_transpose(b))
        return product if _covers(a_known, b_known) else sum_to(product, like)
    return make("matmul_left", g, b, like)


def _right(_: Expr, a: Expr, g: Expr, like: Expr) -> Expr:
    """a.mT @ g, of the shape of `like`."""
    a_known, b_known = extent(a), extent(like)
    if a_known.exact and len(a_known.dims) == 2 and b_known.exact and len(b_known.dims) == 1:  # a vector by a matrix
        return make("matmul", matrix_transpose(a), g)
    if len(a_known.dims) > 1 and len(b_known.dims) > 1 and _covers(b_known, a_known):
        return make("matmul", matrix_transpose(a), g)
    return make("matmul_right", a, g, like)


def joined_outer_products(total: Expr) -> Expr:
    """A sum of outer products of vectors as one product of matrices, which is written once."""
    pairs: list[tuple[Expr, Expr]] = []
    others: list[Expr] = []
    for term in total.args:
        found = _outer_products(term)
        pairs += found
        others += [] if found else [term]
    if len(pairs) < 2:
        return total
    columns = make("cat", *(unsqueeze(left, -1) for left, _ in pairs), dim=-1)
    rows = make("cat", *(unsqueeze(right, -2) for _, right in pairs), dim=-2)
    return add(make("matmul", columns, rows), *others)


def _outer_products(term: Expr) -> list[tuple[Expr, Expr]]:
    """The vectors of which a term is the sum of the outer products; none where it is no such sum."""
    factor, value = split_coefficient(term)
    if value.op == "mT":
        return [(factor * right, left) for left, right in _outer_products(value.args[0])]
    if value.op == "matmul" and [a.op for a in value.args] == ["cat", "cat"]:
        columns, rows = (v.args for v in value.args)
        if all(v.op == "unsqueeze" and v["dim"] == (d,) for side, d in ((columns, -1), (rows, -2)) for v in side):
            return [(factor * a.args[0], b.args[0]) for a, b in zip(columns, rows, strict=True)]
    if value.op == "matmul_left" and all(_is_vector(v) for v in value.args[:2]):
        return [(factor * value.args[0], value.args[1])]
    return []


def _is_vector(value: Expr) -> bool:
    of = extent(value)
    return of.exact and len(of.dims) == 1


def _covers(one: Extent, other: Extent) -> bool:
    """Whether the batch dimensions of the product of both are those of `one`."""
    try:
        both = broadcast([Extent(one.dims[:-2], one.lead), Extent(other.dims[:-2], other.lead)])
    except ShapeConflict:
        return False
    return both == Extent(one.dims[:-2], one.lead)


def _matmul_extent(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    a, b = operands
    if any(e.exact and not e.dims for e in operands):
        raise ShapeConflict(f"a matrix product needs dimensions: {a} @ {b}")
    if not a.dims or not b.dims:
        return unknown(node)
    vector_a, vector_b = a.exact and len(a.dims) == 1, b.exact and len(b.dims) == 1
    if (len(a.dims) == 1 and not vector_a) or (len(b.dims) == 1 and not vector_b):
        if vector_b or len(b.dims) > 1:
            _inner(a, b, vector_b)
        if len(a.dims) == 1 and b.exact and len(b.dims) == 2 and not vector_a:
            return Extent((b.dims[-1],), a.lead)
        return unknown(node)
    _inner(a, b, vector_b)
    rows = () if vector_a else (a.dims[-2],)
    columns = () if vector_b else (b.dims[-1],)
    batch = broadcast([Extent(a.dims[:-2], a.lead), Extent(b.dims[:-2], b.lead)])
    return Extent((*batch.dims, *rows, *columns), batch.lead)


def _inner(a: Extent, b: Extent, vector_b: bool) -> Dim:
    return same(a.dims[-1], b.dims[-1] if vector_b else b.dims[-2], f"{a} @ {b}")


_PRODUCT, _LEFT, _RIGHT = trilinear(matmul, _left, _right)

_PRODUCTS: dict[str, Any] = {"linear": True, "cost": 100.0, "recompute": False, "saves": "o"}
_OF_PRODUCT: dict[str, Any] = {"shape_of": 2, "shape_only": frozenset({2}), **_PRODUCTS}

MATMUL = TensorOp(
    "matmul",
    whole=True,
    operands=("input", "other"),
    **_PRODUCT,
    extent=_matmul_extent,
    **_PRODUCTS,
)

# The helpers of these two know all ranks when they are called.
MATMUL_INTERNAL = (
    TensorOp(
        "matmul_left",
        operands=("grad", "other", "like"),
        torch="rt.matmul_left({0}, {1}, {shape2})",
        **_LEFT,
        **_OF_PRODUCT,
    ),
    TensorOp(
        "matmul_right",
        operands=("input", "grad", "like"),
        torch="rt.matmul_right({0}, {1}, {shape2})",
        **_RIGHT,
        **_OF_PRODUCT,
    ),
)


# ------------------------------------------------------------------------------------------------ convolutions
def steps(dims: int) -> tuple[Attribute, ...]:
    """The attributes of a convolution over so many dimensions."""
    return (
        Attribute("stride", "ints", 1, least=1, items=dims),
        Attribute("padding", "ints", 0, least=0, items=dims),
        Attribute("dilation", "ints", 1, least=1, items=dims),
        Attribute("groups", "size", 1, least=1),
    )


def _convolution(dims: int) -> tuple[TensorOp, TensorOp, TensorOp]:
    """The rows of the convolution over the last `dims` dimensions."""
    name = f"conv{dims}d"

    def conv(node: Expr, x: Expr, weight: Expr) -> Expr:
        return make(name, x, weight, **dict(node.attrs))

    def conv_input(node: Expr, g: Expr, weight: Expr, like: Expr) -> Expr:
        return make(f"{name}_input", g, weight, like, **dict(node.attrs))

    def conv_weight(node: Expr, x: Expr, g: Expr, like: Expr) -> Expr:
        return make(f"{name}_weight", x, g, like, **dict(node.attrs))

    product, left, right = trilinear(conv, conv_input, conv_weight)

    def vjp(node: Expr, g: Expr) -> tuple[Expr | None, ...]:
        x, weight, *bias = node.args
        grads = [_bias_gradient(dims, node, g, b) for b in bias]
        return conv_input(node, g, weight, x), conv_weight(node, x, g, weight), *grads

    def jvp(node: Expr, t: Tangents) -> Expr | None:
        tangent: Expr | None = product["jvp"](node, t)
        if len(t) < 3 or t[2] is None:
            return tangent
        shift = unsqueeze(t[2], *range(-dims, 0))
        return make("expand", shift, node) if tangent is None else tangent + shift

    common: dict[str, Any] = {
        "attributes": steps(dims),
        "cost": 100.0,
        "recompute": False,
        "linear": True,
        "saves": "x",
    }
    internal: dict[str, Any] = {"shape_of": 2, "shape_only": frozenset({2}), **common}
    return (
        TensorOp(
            name,
            operands=("input", "weight", "bias"),
            vjp=vjp,
            jvp=jvp,
            extent=partial(_convolution_extent, dims),
            optional=1,
            **common,
        ),
        TensorOp(f"{name}_input", operands=("grad", "weight", "like"), **left, **internal),
        TensorOp(f"{name}_weight", operands=("input", "grad", "like"), rounds_inside=True, **right, **internal),
    )


def _bias_gradient(dims: int, node: Expr, g: Expr, like: Expr) -> Expr:
    """The cotangent of a convolution summed over everything but channels."""
    last, of = tuple(range(-dims, 0)), extent(node)
    if of.exact and extent(like).dims not in ((), (1,)):
        batch = tuple(range(len(of.dims) - dims - 1))
        return make("sum", g, dim=(*batch, *last), keepdim=False)
    return squeeze(sum_to(g, unsqueeze(like, *last)), *last)


def _convolution_extent(dims: int, node: Expr, operands: tuple[Extent, ...]) -> Extent:
    """The extent of a convolution over the last `dims`. Raises ShapeConflict for operands that do not fit."""
    name = node.op
    x, weight, *bias = operands
    check_ranks(dims, name, x, weight)
    if len(weight.dims) < dims + 2 or not (x.exact or len(x.dims) > dims):
        return unknown(node)
    _check_channels(node["groups"], x.dims[-dims - 1], weight.dims, f"{name} of {x} with a weight {weight}")
    for b in bias:
        if b.exact and len(b.dims) > 1:
            raise ShapeConflict(f"{name}: a bias has one dimension, not {b}")
        if b.exact and b.dims:
            same(b.dims[-1], weight.dims[0], f"{name} with a weight {weight} and a bias {b}")
    lengths = (_convolved_size(node, k, x.dims[k - dims], weight.dims[k - dims]) for k in range(dims))
    return Extent((*x.dims[: -dims - 1], weight.dims[0], *lengths), x.lead)


def check_ranks(dims: int, name: str, x: Extent, weight: Extent) -> None:
    """Raise ShapeConflict for operands that have too many dimensions, or too few, for a convolution over `dims`."""
    if x.exact and len(x.dims) not in (dims + 1, dims + 2):
        raise ShapeConflict(f"{name}: {x} is no shape of the input")
    if weight.exact and len(weight.dims) != dims + 2:
        raise ShapeConflict(f"{name}: {weight} is no shape of the weight")


def per_dim(value: Any, k: int) -> Any:
    """The value of an attribute that has one for all dimensions or one for each."""
    return value[k % len(value)] if isinstance(value, tuple) else value


def _convolved_size(node: Expr, k: int, length: Dim, kernel: Dim) -> Dim:
    """A size of the result: convolutions alike of sizes alike have the same one."""
    attributes = [node[name] for name in ("stride", "padding", "dilation")]
    how = [per_dim(a, k) for a in attributes]
    stride, padding, dilation = how
    if isinstance(length, int) and isinstance(kernel, int) and all(isinstance(n, int) for n in how):
        room = length + 2 * padding - dilation * (kernel - 1) - 1
        return _places(room, stride, f"{node.op} of {length} by {kernel}")
    if stride == dilation == 1 and isinstance(padding, int):
        return sizes.plus(sizes.less(length, kernel), 2 * padding + 1)
    known = not isinstance(length, tuple) and not isinstance(kernel, tuple)
    return ("size", node.op, k, length, kernel, *attributes) if known else ("size", node, k)


def _places(room: int, stride: int, what: str) -> int:
    """How many places a kernel takes."""
    if room < 0:
        raise ShapeConflict(f"{what}: the kernel is larger than the input")
    return room // stride + 1


def _check_channels(groups: object, channels: Dim, weight: tuple[Dim, ...], what: str) -> None:
    """Raise ShapeConflict for a weight that is not for so many channels in so many groups."""
    if isinstance(groups, Expr):
        each = sizes.quotient(channels, sizes.number_of(groups))
        if each is not None:
            same(each, weight[1], f"{what} in {groups} groups")
    elif groups == 1:
        same(channels, weight[1], what)
    elif isinstance(groups, int) and isinstance(channels, int) and isinstance(weight[1], int):
        same(channels, groups * weight[1], f"{what} in {groups} groups")
    if isinstance(groups, int) and isinstance(weight[0], int) and weight[0] % groups:
        raise ShapeConflict(f"{what}: {groups} groups do not divide {weight[0]}")


CONVOLUTIONS = [_convolution(dims) for dims in (1, 2, 3)]

ROWS = (MATMUL, *(rows[0] for rows in CONVOLUTIONS))
INTERNAL = (*MATMUL_INTERNAL, *(row for rows in CONVOLUTIONS for row in rows[1:]))
