"""Elements in another order, inside of borders, and differences of neighbours: linear operations that move elements."""

from __future__ import annotations

from typing import Any

from symgrad.ir.expr import ONE, ZERO, Expr, make
from symgrad.ir.truth import compare, where
from symgrad.ops.tensors import sizes
from symgrad.ops.tensors.extent import Extent, ShapeConflict, place_along, positions, unknown
from symgrad.ops.tensors.joins import cat
from symgrad.ops.tensors.row import Attribute, Ref, TensorOp, same_of_tangent
from symgrad.ops.tensors.shaping import expand
from symgrad.ops.tensors.slices import MOVES, resized, slice_of

DIMS = Attribute("dims", "dims", required=True, fixed=True)


def _roll(x: Expr, shifts: Any, dims: Any = None) -> Expr:
    shifts = shifts if isinstance(shifts, tuple) else (shifts,)
    if dims is None:
        raise ValueError("roll needs the dimensions along which it shifts: roll(x, shifts, dims)")
    dims = dims if isinstance(dims, tuple) else (dims,)
    if len(shifts) != len(dims):
        raise ValueError("roll needs one shift for each dimension")
    return make("roll", x, shifts=shifts, dims=dims)


def _roll_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    return (make("roll", g, shifts=tuple(-s for s in node["shifts"]), dims=node["dims"]),)


def _along_dims(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    positions(node["dims"], operands[0])
    return operands[0]


def pad(x: Expr, pad: Any, mode: str = "constant", value: Expr = ZERO) -> Expr:
    """torch's padding: two numbers for each dimension, from the last one on. A negative one cuts off."""
    pad = pad if isinstance(pad, tuple) else (pad,)
    if len(pad) % 2:
        raise ValueError("pad needs two numbers for each dimension, from the last one on")
    if any(isinstance(n, Ref) for n in pad):
        raise ValueError("the numbers of pad are whole numbers, not hyperparameters")
    if mode == "constant":
        if value is ZERO or value is None:
            return make("pad", x, pad=pad)
        inside = make("pad", expand(ONE, x), pad=pad)
        return make("pad", x, pad=pad) + where(compare("eq", inside, ZERO), value, ZERO)  # a term of no derivative
    if any(isinstance(n, Expr) for n in pad):
        raise ValueError(f"the numbers of pad are whole numbers in the mode {mode!r}")
    if mode not in ("circular", "reflect", "replicate"):
        raise ValueError("the mode of pad is 'constant', 'circular', 'reflect' or 'replicate'")
    for k in range(len(pad) // 2):
        x = _bordered(x, -1 - k, pad[2 * k], pad[2 * k + 1], mode)
    return x


def _bordered(x: Expr, dim: int, before: int, after: int, mode: str) -> Expr:
    """`x` with a border made of its own elements along one dimension."""
    if before < 0 or after < 0:
        raise ValueError(f"in the mode {mode!r} the numbers of pad are at least 0")
    if mode == "circular":
        left, right = slice_of(x, dim, -before, None), slice_of(x, dim, 0, after)
    elif mode == "reflect":
        left = make("flip", slice_of(x, dim, 1, before + 1), dims=(dim,))
        right = make("flip", slice_of(x, dim, -after - 1, -1), dims=(dim,))
    else:
        first, last = slice_of(x, dim, 0, 1), slice_of(x, dim, -1, None)
        return cat([*[first] * before, x, *[last] * after], dim)
    return cat([*([left] if before else []), x, *([right] if after else [])], dim)


def _padded(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    pad = node["pad"]
    if len(pad) // 2 > len(of.dims):
        if of.exact:
            raise ShapeConflict(f"pad of {len(pad) // 2} dimensions, and there is {of}")
        return unknown(node)
    dims = list(of.dims)
    for k in range(len(pad) // 2):
        own = (sizes.number_of(n) if isinstance(n, Expr) else n for n in pad[2 * k : 2 * k + 2])
        size = sizes.total([dims[-1 - k], *own])
        if isinstance(size, int) and size < 0:
            raise ShapeConflict(f"pad cuts off more than there is of {of}")
        dims[-1 - k] = size
    return Extent(tuple(dims), of.lead)


def _diff_vjp(node: Expr, g: Expr) -> tuple[Expr]:
    """The cotangent among zeros, of which each element goes to the next one, and its negative to itself."""
    dim, order = node["dim"], node["n"]
    pulled = make("slice_back", g, node.args[0], dim=dim, start=0, stop=-order, step=1)
    for _ in range(order):
        pulled = make("shifted", pulled, dim=dim, step=1) - pulled
    return (pulled,)


def _differences(node: Expr) -> Expr:
    value = node.args[0]
    for _ in range(node["n"]):
        value = slice_of(value, node["dim"], 1, None) - slice_of(value, node["dim"], 0, -1)
    return value


def _diffed(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    (of,) = operands
    place = place_along(node["dim"], of, "no differences")
    if place is None:
        return unknown(node)
    size = sizes.plus(of.dims[place], -node["n"])
    if isinstance(size, int) and size < 0:
        raise ShapeConflict(f"differences of order {node['n']} along dimension {node['dim']} of {of}")
    return resized(of, place, size)


ROWS = (
    TensorOp(
        "flip",
        attributes=(DIMS,),
        torch="{0}.flip({dims})",
        vjp=lambda node, g: (make("flip", g, dims=node["dims"]),),
        extent=_along_dims,
        shape_of=0,
        same=True,
        definition=lambda x, dims: make("flip", x, dims=dims if isinstance(dims, tuple) else (dims,)),
        **MOVES,
    ),
    TensorOp(
        "roll",
        attributes=(Attribute("shifts", "ints", required=True, fixed=True), Attribute("dims", "dims", fixed=True)),
        torch="{0}.roll({shifts}, {dims})",
        vjp=_roll_vjp,
        extent=_along_dims,
        shape_of=0,
        same=True,
        definition=_roll,
        **MOVES,
    ),
    TensorOp(
        "pad",
        attributes=(
            Attribute("pad", "sizes", required=True, fixed=True),
            Attribute("mode", "text", "constant"),
            Attribute("value", "number", ZERO),
        ),
        torch="F.pad({0}, {pad})",
        vjp=lambda node, g: (make("pad", g, pad=tuple(-n for n in node["pad"])),),
        extent=_padded,
        definition=pad,
        **MOVES,
    ),
    TensorOp(
        "diff",
        attributes=(Attribute("n", "int", 1, least=1, fixed=True), Attribute("dim", "dim", -1, fixed=True)),
        torch="torch.diff({0}, {attributes})",
        vjp=_diff_vjp,
        jvp=same_of_tangent,
        opened=_differences,
        extent=_diffed,
        linear=True,
        whole=True,
        rounds_inside=True,
    ),
)
