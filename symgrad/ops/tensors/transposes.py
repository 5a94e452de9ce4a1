"""Two dimensions swapped; the transposed of a product is a product of its operands."""

from __future__ import annotations

from symgrad.ir.expr import Expr, make
from symgrad.ops.tensors.extent import Extent, ShapeConflict, extent, positions, unknown
from symgrad.ops.tensors.row import VIEW, Attribute, TensorOp, pushforward, same_of_tangent


def _transposed(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    of = operands[0]
    first, second = (positions(d, of) for d in (node["dim0"], node["dim1"]))
    if not first or not second:
        return of if of.exact and not of.dims else unknown(node)
    dims = list(of.dims)
    dims[first[0]], dims[second[0]] = dims[second[0]], dims[first[0]]
    return Extent(tuple(dims), of.lead)


def _matrix(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    of = operands[0]
    if of.exact and len(of.dims) < 2:
        raise ShapeConflict(f"'.mT' needs two dimensions, and there is {of}")
    return Extent((*of.dims[:-2], of.dims[-1], of.dims[-2]), of.lead) if len(of.dims) > 1 else unknown(node)


def _plain_transposed(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    of = operands[0]
    if len(of.dims) > 2:
        raise ShapeConflict(f"'.T' is of a matrix, and there is {of}; write '.mT' for the last two dimensions")
    return Extent(of.dims[::-1]) if of.exact else unknown(node)


def matrix_transpose(x: Expr) -> Expr:
    """The last two dimensions swapped.

    (a.mT @ g).mT is g.mT @ a: the gradient of `b` in `a @ b.mT` needs no transposition.
    """
    if x.op in ("mT", "T") and (x.op == "mT" or is_matrix(x)):
        return x.args[0]
    return _swapped(x, "mT") or make("mT", x)


def plain_transpose(x: Expr) -> Expr:
    """All dimensions in reverse, as `.T` does; of a product as `matrix_transpose`."""
    if x.op == "T":
        return x.args[0]
    return (_swapped(x, "T") if is_matrix(x) else None) or make("T", x)  # a vector is its own transpose


def is_matrix(x: Expr) -> bool:
    """Whether a value surely has two dimensions."""
    known = extent(x)
    return known.exact and len(known.dims) == 2


def _swapped(x: Expr, transposition: str) -> Expr | None:
    """The transposed of a gradient in the second operand of a product, by a product of what it is made of."""
    if x.op == "matmul_right" and x.args[2].op == transposition:
        a, g, like = x.args
        if is_matrix(x) or min(len(extent(a).dims), len(extent(g).dims)) > 1:  # else perhaps of a vector
            return make("matmul_right", g, a, like.args[0])
    if x.op == "matmul" and x.args[0].op == "mT" and len(extent(x.args[1]).dims) > 1:
        (a,), g = x.args[0].args, x.args[1]
        return make("matmul", make("mT", g), a)
    return None


ROWS = (
    TensorOp(
        "transpose",
        attributes=(Attribute("dim0", "dim", required=True), Attribute("dim1", "dim", required=True)),
        torch="{0}.transpose({attributes})",
        vjp=lambda node, g: (make("transpose", g, **dict(node.attrs)),),
        jvp=same_of_tangent,
        extent=_transposed,
        **VIEW,
    ),
    TensorOp(
        "mT",
        torch="{0}.mT",
        vjp=lambda node, g: (matrix_transpose(g),),
        jvp=pushforward(lambda node, own: matrix_transpose(own)),
        extent=_matrix,
        method="mT",
        **VIEW,
    ),
    TensorOp(
        "T",
        torch="{0}.T",
        vjp=lambda node, g: (plain_transpose(g),),
        jvp=pushforward(lambda node, own: plain_transpose(own)),
        extent=_plain_transposed,
        method="T",
        **VIEW,
    ),
)
