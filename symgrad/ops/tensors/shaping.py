"""Operations that only change shapes, and the ones that undo broadcasting and reducing.

Users write the transpositions. The others are written by the compiler.
"""

from __future__ import annotations

from typing import Any

from symgrad.ir.expr import Expr, make
from symgrad.ops.tensors.extent import SCALAR, Dim, Extent, ShapeConflict, extent, positions, same, unknown
from symgrad.ops.tensors.row import KEEPDIM, LIKE, VIEW, Attribute, Ref, TensorOp, pushforward, same_of_tangent

_DIMS = Attribute("dim", "dims", required=True)
KEPT = (_DIMS, KEEPDIM)


# ------------------------------------------------------------------------------------------------ construction
def expand(value: Expr, like: Expr) -> Expr:
    """`value` broadcast to the shape of `like`."""
    return make("expand", value, like)


def sum_to(value: Expr, like: Expr) -> Expr:
    """`value` summed to the shape of `like`."""
    return make("sum_to", value, like)


def conform(value: Expr, like: Expr) -> Expr:
    """`value` summed along dimensions of size 1 of `like`, and broadcast along its own ones, to the shape of `like`."""
    return make("conform", value, like)


def unsqueeze(value: Expr, *dims: int) -> Expr:
    """`value` with dimensions of size 1 at these places of the result, which are all negative."""
    if value.op == "squeeze" and value["dim"] == dims:
        return value.args[0]
    return make("unsqueeze", value, dim=dims)


def squeeze(value: Expr, *dims: int) -> Expr:
    """`value` without these dimensions of size 1, all negative."""
    if value.op == "unsqueeze" and value["dim"] == dims:
        return value.args[0]
    return make("squeeze", value, dim=dims)


def restore(value: Expr, node: Expr) -> Expr:
    """`value`, reduced as `node` reduces its operand, with the reduced dimensions of size 1 again.

    Where everything was reduced there is nothing to do: a scalar broadcasts.
    """
    dim, keep = node["dim"], node["keepdim"]
    if dim is None or keep is True:
        return value
    places = _dropped(node)
    if places is not None:
        return unsqueeze(value, *sorted(places))
    return make("restore", value, node.args[0], dim=dim, keepdim=keep)


def drop(value: Expr, node: Expr) -> Expr:
    """The inverse of `restore`: dimensions of size 1 go where `node` drops those that it reduces."""
    dim, keep = node["dim"], node["keepdim"]
    if dim is None or keep is True:
        return value
    places = _dropped(node)
    if places is not None:
        return squeeze(value, *sorted(places))
    return make("drop", value, dim=dim, keepdim=keep)


def _dropped(node: Expr) -> tuple[int, ...] | None:
    """The dimensions that a reduction along some of them drops; None where that is not known."""
    known = extent(node.args[0])
    return None if isinstance(node["keepdim"], Ref) or not known.dims else positions(node["dim"], known)


def count(node: Expr) -> Expr:
    """How many elements `node` reduces into each of its results: a Python number, known from the shape."""
    return make("count", node.args[0], dim=node["dim"])


# ------------------------------------------------------------------------------------------------ extents
def _unsqueezed(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    dims: list[Dim] = list(of.dims)
    for place in sorted(node["dim"], reverse=True):  # the one nearest to the end first
        if len(dims) + 1 + place < 0:
            return unknown(node)
        dims.insert(len(dims) + 1 + place, 1)
    return Extent(tuple(dims), of.lead)


def _squeezed(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    rank = len(of.dims)
    if any(rank + place < 0 for place in node["dim"]):
        return unknown(node)
    return Extent(tuple(d for k, d in enumerate(of.dims) if k - rank not in node["dim"]), of.lead)


# ------------------------------------------------------------------------------------------------ rules


def _diagonal(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    of, (first, second) = operands[0], (node["dim1"], node["dim2"])
    if min(first, second) < -len(of.dims):
        return unknown(node)
    size = same(of.dims[first], of.dims[second], f"a diagonal of {of}")
    rank = len(of.dims)
    return Extent((*(d for k, d in enumerate(of.dims) if k - rank not in (first, second)), size), of.lead)


def _diagonal_of(x: Expr, dim1: Any = 0, dim2: Any = 1) -> Expr:
    """The elements at equal places of two dimensions, which are gone; the one of these places comes last."""
    known = extent(x)
    if not known.exact or len(known.dims) < 2:
        raise ValueError("diagonal needs a tensor of declared shape, of two dimensions or more")
    found = positions((dim1, dim2), known)
    if found is None:
        raise ValueError("the dimensions of diagonal are integers, not hyperparameters")
    return make("diagonal", x, dim1=found[0], dim2=found[1])


def _on_diagonal(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    of, (first, second) = operands[0], sorted((node["dim1"], node["dim2"]))
    if not of.dims or first < -len(of.dims) - 1:
        return unknown(node)
    rank, dims = len(of.dims) + 1, list(of.dims[:-1])
    for place in (first, second):
        dims.insert(rank + place, of.dims[-1])
    return Extent(tuple(dims), of.lead)


def _unsqueeze(x: Expr, dim: Any) -> Expr:
    """torch's, which counts dimensions of the result."""
    dims = dim if isinstance(dim, tuple) else (dim,)
    known = extent(x)
    if any(isinstance(d, Ref) for d in dims):
        raise ValueError("the dimension of unsqueeze is an integer, not a hyperparameter")
    if any(d >= 0 for d in dims) and not known.exact:
        raise ValueError("unsqueeze counts from the end where the shape is not declared: dim=-1 is the last")
    rank = len(known.dims) + len(dims)
    places = tuple(sorted(d if d < 0 else d - rank for d in dims))
    if known.exact and any(not -rank <= d < 0 for d in places):
        raise ShapeConflict(f"unsqueeze has no dimension {dims[0]} for {known}")
    return unsqueeze(x, *places)


def _squeeze(x: Expr, dim: Any) -> Expr:
    """torch's, of dimensions that surely have size 1."""
    dims = dim if isinstance(dim, tuple) else (dim,)
    places = positions(dim, extent(x))
    if places is None:
        if any(isinstance(d, Ref) or d >= 0 for d in dims):
            raise ValueError("squeeze counts from the end where the shape is not declared: dim=-1 is the last")
        places = tuple(dims)
    known = extent(x).dims
    for place in places:
        if -len(known) <= place and known[place] != 1:
            raise ShapeConflict(f"squeeze of {extent(x)}: the size along dimension {place} is not 1")
    return squeeze(x, *sorted(places))


def _squeeze_vjp(node: Expr, g: Expr) -> Expr:
    """A cotangent with the dimensions that are gone; in the shape of the operand where these may have another size."""
    (of,), dims = node.args, extent(node.args[0]).dims
    surely = of.op in ("slice", "place") or all(-len(dims) <= d and dims[d] == 1 for d in node["dim"])
    return unsqueeze(g, *node["dim"]) if surely else make("reshape_as", g, of)


def _transposed_by(name: str) -> dict[str, Any]:
    """vjp and jvp of an operation whose transposed has the same attributes."""
    return {
        "vjp": lambda node, g: (make(name, g, **dict(node.attrs)),),
        "jvp": same_of_tangent,
    }


PLACES = (
    TensorOp(
        "unsqueeze",
        attributes=(_DIMS,),
        vjp=lambda node, g: (squeeze(g, *node["dim"]),),
        jvp=pushforward(lambda node, own: unsqueeze(own, *node["dim"])),
        extent=_unsqueezed,
        definition=_unsqueeze,
        **VIEW,
    ),
    TensorOp(
        "squeeze",
        attributes=(_DIMS,),
        vjp=lambda node, g: (_squeeze_vjp(node, g),),
        jvp=pushforward(lambda node, own: squeeze(own, *node["dim"])),
        extent=_squeezed,
        definition=_squeeze,
        **VIEW,
    ),
    TensorOp(  # the dimension that is left comes last
        "diagonal",
        view=True,
        attributes=(Attribute("dim1", "dim", 0), Attribute("dim2", "dim", 1)),
        torch="{0}.diagonal({attributes})",
        **_transposed_by("diag_embed"),
        extent=_diagonal,
        linear=True,
        cost=0.0,
        definition=_diagonal_of,
    ),
)

DETACHED = TensorOp(  # the value, through which no derivative passes
    "detach",
    torch="{0}.detach()",
    vjp=lambda node, g: (None,),
    jvp=lambda node, t: None,
    shape_of=0,
    cost=0.0,
    whole=True,
    same=True,
    view=True,
    aliases=("stop_gradient",),
)


def _accumulated(total: Expr) -> Expr:
    """A cotangent or tangent as one value, over which no factor is distributed and no product is flattened."""
    return make("boundary", total) if total.op in ("add", "mul", "pow") else total


_SQUARE = (Attribute("dim1", "dim", required=True), Attribute("dim2", "dim", required=True))

INTERNAL = (
    TensorOp(  # floats that are whole numbers, such as those of a count, as places
        "to_int", torch="{0}.long()", shape_of=0, differentiable=False, whole=True, exact=True
    ),
    TensorOp(  # an output as the operation computes it: its derivative is the rule that is given for it
        "again",
        operands=("output", "arguments"),
        attributes=(Attribute("place", "int", required=True),),
        variadic=True,
        shape_of=0,
        cost=4.0,
        vjp=lambda node, g: (g, *(None for _ in node.args[1:])),
        jvp=lambda node, t: t[0],
        whole=True,
        same=True,
    ),
    TensorOp(  # one operand of what is around it: see ties.py
        "held",
        view=True,
        torch="{0}",
        vjp=lambda node, g: (g,),
        jvp=lambda node, t: t[0],
        shape_of=0,
        linear=True,
        cost=0.0,
    ),
    TensorOp(  # where a large pointwise formula is divided: see parse/regions.py
        "boundary",
        torch="{0}",
        vjp=lambda node, g: (_accumulated(g),),
        jvp=pushforward(lambda node, own: _accumulated(own)),
        shape_of=0,
        linear=True,
        cost=0.0,
    ),
    TensorOp(  # whole numbers as floats, which a float beside them makes them in torch
        "floated",
        view=True,
        same=True,
        torch="{0}.to(torch.get_default_dtype())",
        vjp=lambda node, g: (None,),
        jvp=lambda node, t: None,
        shape_of=0,
        cost=0.6,
    ),
    TensorOp(
        "diag_embed",
        attributes=_SQUARE,
        torch="torch.diag_embed({0}, {attributes})",
        **_transposed_by("diagonal"),
        extent=_on_diagonal,
        linear=True,
    ),
    TensorOp(
        "sum_to",
        view=True,
        exact=True,
        vjp=lambda node, g: (expand(g, node.args[0]), None),
        jvp=pushforward(lambda node, own: sum_to(own, node.args[1])),
        **LIKE,
    ),
    TensorOp(
        "expand",
        vjp=lambda node, g: (sum_to(g, node.args[0]), None),
        jvp=pushforward(lambda node, own: expand(own, node.args[1])),
        **LIKE | VIEW,
    ),
    TensorOp(  # its own transposed: what was summed is broadcast
        "conform",
        view=True,
        exact=True,
        torch="rt.conform({0}, {shape1})",
        vjp=lambda node, g: (conform(g, node.args[0]), None),
        jvp=pushforward(lambda node, own: conform(own, node.args[1])),
        **LIKE,
    ),
    TensorOp(  # `unsqueeze` if the reduced dimensions are gone: not for a scalar, nor with `keepdim`
        "restore",
        view=True,
        same=True,
        operands=("input", "of"),
        attributes=KEPT,
        torch="rt.restore({0}, {dim}, {shape1})",
        vjp=lambda node, g: (make("drop", g, **dict(node.attrs)), None),
        jvp=same_of_tangent,
        linear=True,
        shape_only=frozenset({1}),
        cost=0.0,
    ),
    TensorOp(
        "drop",
        view=True,
        same=True,
        attributes=KEPT,
        vjp=lambda node, g: (make("restore", g, node.args[0], **dict(node.attrs)),),
        jvp=same_of_tangent,
        linear=True,
        cost=0.0,
    ),
    TensorOp(
        "count",
        attributes=(Attribute("dim", "dims"),),
        extent=lambda node, operands: SCALAR,
        shape_only=frozenset({0}),
        differentiable=False,
        cost=0.0,
    ),
)
