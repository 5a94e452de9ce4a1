"""Operations on windows that move over the last dimensions: transposed convolutions, and pools."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from symgrad.ir.expr import Expr, make
from symgrad.ops.tensors import sizes
from symgrad.ops.tensors.extent import Dim, Extent, ShapeConflict, unknown
from symgrad.ops.tensors.products import check_ranks, per_dim, steps, trilinear
from symgrad.ops.tensors.row import Attribute, Ref, TensorOp, pushforward, same_of_tangent
from symgrad.ops.tensors.shaping import unsqueeze
from symgrad.ops.tensors.views import back

_CONVOLUTION = ("stride", "padding", "dilation", "groups")


# ------------------------------------------------------------------------------------------------ transposed
def _transposed_shape(dims: int, node: Expr, operands: tuple[Extent, ...]) -> Extent:
    x, weight = operands
    check_ranks(dims, node.op, x, weight)
    if len(weight.dims) < dims + 2 or len(x.dims) < dims + 1:
        return unknown(node)
    if x.dims[-dims - 1] != weight.dims[0] and not any(
        isinstance(d, tuple) for d in (x.dims[-dims - 1], weight.dims[0])
    ):
        raise ShapeConflict(f"{node.op} of {x} with a weight {weight}: the channels differ")
    groups = node["groups"]
    known = sizes.number_of(groups) if isinstance(groups, Expr) else groups
    channels = ("size", node) if isinstance(known, Ref) else sizes.product([weight.dims[1], known])
    lengths = [_transposed_size(node, k, x.dims[k - dims], weight.dims[k - dims]) for k in range(dims)]
    return Extent((*x.dims[: -dims - 1], channels, *lengths), x.lead)


def _transposed_size(node: Expr, k: int, length: Dim, kernel: Dim) -> Dim:
    names = ("stride", "padding", "output_padding", "dilation")
    stride, padding, more, dilation = (per_dim(node[name], k) for name in names)
    if any(isinstance(n, Ref) for n in (stride, padding, more, dilation)) or not isinstance(kernel, int):
        return ("size", node, k)
    rest = dilation * (kernel - 1) + more + 1 - 2 * padding - stride
    if not isinstance(length, int):
        return ("size", node, k)
    size: int = length * stride + rest
    if size < 1:
        raise ShapeConflict(f"{node.op}: the padding {padding} leaves nothing of {length} with a window of {kernel}")
    return size


def _transposed(dims: int) -> TensorOp:
    name, plain = f"conv_transpose{dims}d", f"conv{dims}d"

    def how(node: Expr) -> dict[str, Any]:
        return {attribute: node[attribute] for attribute in _CONVOLUTION}

    def of_product(node: Expr, x: Expr, weight: Expr) -> Expr:
        return make(name, x, weight, **dict(node.attrs))

    def of_input(node: Expr, g: Expr, weight: Expr, like: Expr) -> Expr:
        return make(plain, g, weight, **how(node))

    def of_weight(node: Expr, x: Expr, g: Expr, like: Expr) -> Expr:
        return make(f"{plain}_weight", g, x, like, **how(node))

    def definition(x: Expr, weight: Expr, *bias: Expr, **attributes: Any) -> Expr:
        value = make(name, x, weight, **attributes)
        return value + unsqueeze(bias[0], *range(-dims, 0)) if bias else value

    rules, _, _ = trilinear(of_product, of_input, of_weight)
    stride, padding, dilation, groups = steps(dims)
    return TensorOp(
        name,
        operands=("input", "weight", "bias"),
        attributes=(stride, padding, replace(padding, name="output_padding"), groups, dilation),
        torch=f"F.{name}({{0}}, {{1}}, {{attributes}})",
        extent=partial(_transposed_shape, dims),
        optional=1,
        cost=100.0,
        recompute=False,
        linear=True,
        saves="o",
        definition=definition,
        **rules,
    )


# ------------------------------------------------------------------------------------------------ pools
def _pool_attributes(dims: int) -> tuple[Attribute, ...]:
    return (
        Attribute("kernel_size", "ints", required=True, least=1, items=dims, fixed=True),
        Attribute("stride", "ints", least=1, items=dims, fixed=True),
        Attribute("padding", "ints", 0, least=0, items=dims, fixed=True),
    )


def _pooled(dims: int, node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    if of.exact and len(of.dims) not in (dims + 1, dims + 2):
        raise ShapeConflict(f"{node.op}: {of} is no shape of the input")
    if len(of.dims) < dims:
        return unknown(node)
    found: list[Dim] = []
    for k in range(dims):
        length, (kernel, stride, padding) = of.dims[k - dims], _window(node, k)
        if not isinstance(length, int):
            found.append(("pool", length, kernel, stride, padding))
            continue
        if length + 2 * padding < kernel:
            raise ShapeConflict(f"{node.op} of {of}: the window {kernel} is larger than the input")
        found.append((length + 2 * padding - kernel) // stride + 1)
    return Extent((*of.dims[:-dims], *found), of.lead)


def _window(node: Expr, k: int) -> tuple[int, int, int]:
    kernel = per_dim(node["kernel_size"], k)
    stride = kernel if node["stride"] is None else per_dim(node["stride"], k)
    padding = per_dim(node["padding"], k)
    if 2 * padding > kernel:
        raise ShapeConflict(f"{node.op}: the padding {padding} is more than half of the window {kernel}")
    return kernel, stride, padding


def _average(dims: int) -> tuple[TensorOp, TensorOp]:
    """The mean of each window, and its transposed, which spreads each element over its window."""
    name = f"avg_pool{dims}d"
    common: dict[str, Any] = {
        "attributes": _pool_attributes(dims),
        "jvp": same_of_tangent,
        "linear": True,
        "cost": 4.0,
        "floats": True,
    }

    return (
        TensorOp(
            name,
            torch=f"F.{name}({{0}}, {{attributes}})",
            vjp=lambda node, g: (make(f"{name}_back", g, node.args[0], **dict(node.attrs)),),
            extent=partial(_pooled, dims),
            inner_view=dims == 1,
            **common,
        ),
        TensorOp(
            f"{name}_back",
            operands=("input", "like"),
            torch=f"rt.avg_pool_back({{0}}, {{shape1}}, {{kernel_size}}, {{stride}}, {{padding}}, {dims})",
            vjp=lambda node, g: (make(name, g, **dict(node.attrs)), None),
            shape_of=1,
            shape_only=frozenset({1}),
            **common,
        ),
    )


def _largest(dims: int) -> tuple[TensorOp, TensorOp, TensorOp]:
    """The largest of each window, and where it is, counted over all dimensions of the windows."""
    name = f"max_pool{dims}d"
    call = f"F.{name}({{0}}, {{attributes}}, return_indices=True)"
    common: dict[str, Any] = {
        "attributes": _pool_attributes(dims), "extent": partial(_pooled, dims), "cost": 6.0,
    }  # fmt: skip

    def flat(value: Expr) -> Expr:
        return value if dims == 1 else make("flatten", value, start_dim=-dims, end_dim=-1)

    def indices(node: Expr) -> Expr:
        return flat(make(f"{name}_indices", *node.args, **dict(node.attrs)))

    def vjp(node: Expr, g: Expr) -> tuple[Expr]:
        (x,) = node.args
        added = make("add_along", flat(g), indices(node), flat(x), dim=-1)
        return (added if dims == 1 else back(added, x),)

    def push(node: Expr, own: Expr) -> Expr:
        taken = make("gather", flat(own), indices(node), dim=-1)
        return taken if dims == 1 else back(taken, node)

    return (
        TensorOp(
            name,
            attributes=common["attributes"],
            definition=lambda x, **attributes: make(f"{name}_values", x, **attributes),
        ),
        TensorOp(
            f"{name}_values",
            torch=f"{call}[0]",
            vjp=vjp,
            jvp=pushforward(push),
            saves="i",
            whole=True,
            exact=True,
            inner_view=dims == 1,
            **common,
        ),
        TensorOp(f"{name}_indices", torch=f"{call}[1]", differentiable=False, **common),
    )


_AVERAGES, _MAXIMA = [_average(n) for n in (1, 2, 3)], [_largest(n) for n in (1, 2, 3)]

ROWS = (*map(_transposed, (1, 2, 3)), *(row[0] for row in _AVERAGES), *(row[0] for row in _MAXIMA))
INTERNAL = (*(row[1] for row in _AVERAGES), *(row for rows in _MAXIMA for row in rows[1:]))
