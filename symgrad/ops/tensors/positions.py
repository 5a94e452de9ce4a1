"""Places in a tensor, and what depends on them alone: triangles, diagonals, unit matrices."""

from __future__ import annotations

from symgrad.ir.expr import ONE, ZERO, Expr, make
from symgrad.ir.traversal import topological
from symgrad.ir.truth import compare, where
from symgrad.ops.tensors import sizes
from symgrad.ops.tensors.extent import Extent, ShapeConflict, extent
from symgrad.ops.tensors.reductions import total
from symgrad.ops.tensors.row import Attribute, TensorOp, same_of_tangent
from symgrad.ops.tensors.shaping import unsqueeze


def _arange(end: Expr) -> Expr:
    """0, 1, 2, ... for the places along a dimension of a tensor, on whose device they are."""
    return _places(end, "arange")


def _places(end: Expr, name: str) -> Expr:
    tensors = [n.args[0] for n in topological(end) if n.op == "count"]
    if not tensors:
        raise ValueError(f"{name} needs the size of a dimension that is declared under 'shape', as in {name}(N)")
    return make("arange", end, tensors[0])


def _eye(n: Expr) -> Expr:
    return unit_matrix(_places(n, "eye"))


def unit_matrix(places: Expr) -> Expr:
    """The unit matrix whose rows and columns have these places."""
    return where(compare("eq", unsqueeze(places, -1), places), ONE, ZERO)


def _matrix(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    if of.exact and len(of.dims) < 2:
        raise ShapeConflict(f"{node.op} needs two dimensions, and there is {of}")
    return of


def _triangle(name: str) -> TensorOp:
    return TensorOp(
        name,
        attributes=(Attribute("diagonal", "int", 0),),
        torch=f"{{0}}.{name}({{attributes}})",
        vjp=lambda node, g: (make(name, g, diagonal=node["diagonal"]),),
        jvp=same_of_tangent,
        extent=_matrix,
        shape_of=0,
        linear=True,
        whole=True,
        exact=True,
    )


def _rank(x: Expr, name: str) -> int:
    known = extent(x)
    if not known.exact:
        raise ValueError(f"{name} needs a tensor of declared shape")
    return len(known.dims)


def _diag(x: Expr) -> Expr:
    rank = _rank(x, "diag")
    if rank == 1:
        return make("diag_embed", x, dim1=-2, dim2=-1)
    if rank != 2:
        raise ShapeConflict(f"diag is of a vector or a matrix, not of {extent(x)}; write diagonal(x, dim1, dim2)")
    return make("diagonal", x, dim1=-2, dim2=-1)


def _trace(x: Expr) -> Expr:
    if _rank(x, "trace") != 2:
        raise ShapeConflict(f"trace is of a matrix, not of {extent(x)}")
    return total(make("diagonal", x, dim1=-2, dim2=-1), None, keepdim=False)


def _outer(a: Expr, b: Expr) -> Expr:
    if _rank(a, "outer") != 1 or _rank(b, "outer") != 1:
        raise ShapeConflict(f"outer is of two vectors, not of {extent(a)} and {extent(b)}")
    return unsqueeze(a, -1) * b


ROWS = (
    TensorOp(
        "arange",
        operands=("end", "like"),
        torch="torch.arange({0}, device={device1})",
        extent=lambda node, operands: Extent((sizes.number_of(node.args[0]),)),
        optional=1,
        numbers=frozenset({0}),
        shape_only=frozenset({1}),
        differentiable=False,
        cost=0.2,
        definition=_arange,
    ),
    TensorOp("eye", operands=("n",), numbers=frozenset({0}), definition=_eye),
    _triangle("tril"),
    _triangle("triu"),
    TensorOp("diag", definition=_diag),
    TensorOp("trace", definition=_trace),
    TensorOp("outer", operands=("input", "vec2"), definition=_outer),
)
