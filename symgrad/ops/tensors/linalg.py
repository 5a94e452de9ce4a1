"""Linear algebra of square matrices, batched over leading dimensions.

Derivatives as in Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation",
2008: all of them are products with inverses and solutions, whose derivatives are such products again.
"""

from __future__ import annotations

from typing import Any

from symgrad.ir.expr import HALF, Expr, make
from symgrad.ops.tensors.extent import Extent, ShapeConflict, extent, same, unknown
from symgrad.ops.tensors.reductions import total
from symgrad.ops.tensors.row import Tangents, TensorOp, pushforward
from symgrad.ops.tensors.shaping import unsqueeze
from symgrad.ops.tensors.transposes import matrix_transpose


def product(a: Expr, b: Expr) -> Expr:
    return make("matmul", a, b)


def inverse(a: Expr) -> Expr:
    return make("inverse", a)


def solution(a: Expr, b: Expr) -> Expr:
    return make("solve", a, b)


def _square(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    of = operands[0]
    if of.exact and len(of.dims) < 2:
        raise ShapeConflict(f"{node.op} needs a square matrix, and there is {of}")
    if len(of.dims) >= 2:
        same(of.dims[-2], of.dims[-1], f"{node.op} needs a square matrix, and there is {of}")
    return of


def _number(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    of = _square(node, operands)
    return Extent(of.dims[:-2], of.lead) if len(of.dims) >= 2 else unknown(node)


def _placed(g: Expr) -> Expr:
    """A number for each matrix beside the matrices."""
    return unsqueeze(g, -2, -1)


# ------------------------------------------------------------------------------------------------ inverse
def _inverse_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    turned = matrix_transpose(node)
    return (-product(product(turned, g), turned),)


# ------------------------------------------------------------------------------------------------ solutions
def _solve(a: Expr, b: Expr) -> Expr:
    known, right = extent(a), extent(b)
    if not (known.exact and right.exact):
        raise ValueError("solve needs declared shapes")
    if len(right.dims) == 1 and len(known.dims) == 2:
        column = solution(a, unsqueeze(b, -1))
        return make("squeeze", column, dim=(-1,))
    return solution(a, b)


def _solved(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    a, b = operands
    _square(node, operands)
    if a.exact and b.exact:
        what = f"solve of {a} and {b}"
        if len(a.dims) != len(b.dims):
            raise ShapeConflict(f"{what}: both have the same leading dimensions")
        for one, other in zip(a.dims[:-1], b.dims[:-1], strict=True):
            same(one, other, what)
    return b


def _solve_vjp(node: Expr, g: Expr) -> tuple[Expr, Expr]:
    turned = solution(matrix_transpose(node.args[0]), g)
    return -product(turned, matrix_transpose(node)), turned


def _solve_jvp(node: Expr, t: Tangents) -> Expr | None:
    a, _ = node.args
    moved = None if t[0] is None else -product(t[0], node)
    right = t[1] if moved is None else moved if t[1] is None else t[1] + moved
    return None if right is None else solution(a, right)


# ------------------------------------------------------------------------------------------------ determinants
def _trace_of_product(a: Expr, b: Expr) -> Expr:
    """The trace of a @ b for each pair of matrices, without the product."""
    return total(a * matrix_transpose(b), (-2, -1), keepdim=False)


def _logdet_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    return (_placed(g) * matrix_transpose(inverse(node.args[0])),)


def _logdet_jvp(node: Expr, own: Expr) -> Expr:
    return _trace_of_product(inverse(node.args[0]), own)


def _cofactor(a: Expr) -> Expr:
    return make("cofactor", a)


def _det_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    return (_placed(g) * _cofactor(node.args[0]),)


def _det_jvp(node: Expr, own: Expr) -> Expr:
    return total(_cofactor(node.args[0]) * own, (-2, -1), keepdim=False)


def _cofactor_slope(node: Expr, moved: Expr) -> Expr:
    """The derivative of the cofactors of the node's matrix in a direction."""
    return make("cofactor_slope", node.args[0], moved)


def _third(node: Expr, other: Expr) -> Expr:
    """The third derivative of det in the direction of a slope of its cofactors and in another one, for matrices that
    have an inverse: a symmetric form, so that it is the gradient in the matrix for a cotangent as well."""
    a, moved = node.args
    turned, cofactor = matrix_transpose(inverse(a)), _cofactor(a)

    def along(direction: Expr) -> Expr:
        return product(product(turned, matrix_transpose(direction)), cofactor)

    def share(value: Expr, direction: Expr) -> Expr:
        return _placed(total(value * direction, (-2, -1), keepdim=False))

    between = matrix_transpose(turned)
    mixed = product(product(other, between), moved) + product(product(moved, between), other)
    both = share(turned, other) * along(moved) + share(turned, moved) * along(other)
    return share(node, other) * turned - both + along(mixed)


# ------------------------------------------------------------------------------------------------ cholesky
def _lower(x: Expr) -> Expr:
    """The lower triangle with half the diagonal."""
    return HALF * (make("tril", x, diagonal=0) + make("tril", x, diagonal=-1))


def _cholesky_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    back = inverse(node)
    half = _lower(product(matrix_transpose(node), g))
    middle = HALF * (half + matrix_transpose(half))
    return (product(product(matrix_transpose(back), middle), back),)


def _cholesky_jvp(node: Expr, own: Expr) -> Expr:
    back = inverse(node)
    moved = HALF * (own + matrix_transpose(own))
    return product(node, _lower(product(product(back, moved), matrix_transpose(back))))


def _cholesky(x: Expr) -> Expr:
    """Of the symmetric part: torch reads one triangle, and its gradient is that of a symmetric matrix."""
    return make("cholesky", HALF * (x + matrix_transpose(x)))


_COSTLY: dict[str, Any] = {"cost": 200.0, "recompute": False, "floats": True, "rounds_inside": True, "saves": "xy"}

ROWS = (
    TensorOp(
        "inverse",
        torch="torch.linalg.inv({0})",
        vjp=_inverse_vjp,
        jvp=pushforward(lambda node, own: -product(product(node, own), node)),
        extent=_square,
        shape_of=0,
        aliases=("inv",),
        **_COSTLY,
    ),
    TensorOp(
        "solve",
        operands=("A", "B"),
        torch="rt.solve({0}, {1})",
        vjp=_solve_vjp,
        jvp=_solve_jvp,
        extent=_solved,
        shape_of=1,
        definition=_solve,
        **_COSTLY,
    ),
    TensorOp("det", torch="rt.det({0})", vjp=_det_vjp, jvp=pushforward(_det_jvp), extent=_number, **_COSTLY),
    *(
        TensorOp(
            name,
            torch=f"rt.{name}({{0}})",
            vjp=_logdet_vjp,
            jvp=pushforward(_logdet_jvp),
            extent=_number,
            **_COSTLY,
        )
        for name in ("logdet", "logabsdet")
    ),
    TensorOp(
        "cholesky",
        torch="torch.linalg.cholesky({0})",
        vjp=_cholesky_vjp,
        jvp=pushforward(_cholesky_jvp),
        extent=_square,
        shape_of=0,
        definition=_cholesky,
        **_COSTLY,
    ),
)

INTERNAL = (
    TensorOp(  # the derivative of det, finite where there is no inverse
        "cofactor",
        torch="rt.cofactor({0})",
        vjp=lambda node, g: (_cofactor_slope(node, g),),
        jvp=pushforward(_cofactor_slope),
        extent=_square,
        shape_of=0,
        **_COSTLY,
    ),
    TensorOp(  # the second one, a symmetric form
        "cofactor_slope",
        operands=("input", "direction"),
        torch="rt.cofactor_slope({0}, {1})",
        vjp=lambda node, g: (_third(node, g), _cofactor_slope(node, g)),
        jvp=pushforward(_third, _cofactor_slope),
        extent=_square,
        shape_of=0,
        **_COSTLY,
    ),
)
