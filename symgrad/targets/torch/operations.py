"""Tensor operations as torch calls."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from symgrad.ir.expr import FALSE, TRUE, ZERO, Expr
from symgrad.lower.code import Code, Part, binary, code, constant, fill, joined, keyword, subscript, tuple_of
from symgrad.ops.tensors import TENSOR_OPS, Ref, is_number
from symgrad.ops.tensors.shapes import extent, shape_sources
from symgrad.ops.tensors.slices import length_along
from symgrad.targets.torch.dtypes import lender
from symgrad.targets.torch.fusions import FASTER
from symgrad.targets.torch.shapes import (
    declared_size,
    indexed,
    lender_of,
    of_shape,
    print_like,
    print_shape,
    print_size,
)

if TYPE_CHECKING:
    from symgrad.targets.torch.printer import Printer


def print_operation(printer: Printer, node: Expr) -> Code:
    """The call of a tensor operation, by the row's template or its own rule."""
    special = SPECIAL.get(node.op)
    return _by_row(printer, node) if special is None else special(printer, node)


def _by_row(printer: Printer, node: Expr) -> Code:
    """A row's template with its parts."""
    own = TENSOR_OPS[node.op].torch
    return fill(own if printer.as_written else FASTER.get(node.op, own), lambda key: _part(printer, node, key))


def _part(printer: Printer, node: Expr, key: int | str) -> Part:
    """What a row's template names."""
    if isinstance(key, int):
        return printer(node.args[key])
    if key in _PARTS:
        return _PARTS[key](printer, node)
    if key.startswith("shape"):
        return print_shape(printer, node.args[int(key.removeprefix("shape"))])
    if key.startswith("device"):
        return code("{0}.device", print_like(printer, node.args[int(key.removeprefix("device"))]))
    if key.startswith("like"):
        return print_like(printer, node.args[int(key.removeprefix("like"))])
    return attribute(printer, node[key])


_PARTS: dict[str, Callable[[Printer, Expr], Part]] = {
    "attributes": lambda printer, node: _attributes(printer, node),
    "operands": lambda printer, node: [printer.operand(a) for a in node.args],
    "rest": lambda printer, node: [printer.operand(a) for a in node.args[1:]],
}


def _attributes(printer: Printer, node: Expr) -> list[ast.keyword]:
    """The attributes that differ from their defaults, as keywords; `keepdim` needs a `dim` beside it."""
    kept = node.get("keepdim", False) is not False
    return [
        keyword(a.name, attribute(printer, node.get(a.name)))
        for a in TENSOR_OPS[node.op].attributes
        if node.get(a.name, a.default) != a.default or (a.name == "dim" and kept)
    ]


def attribute(printer: Printer, value: object) -> Code:
    """An attribute as code; a hyperparameter by its local name, and what is made of sizes as it is calculated."""
    if isinstance(value, Ref):
        return printer.local(value.name)
    if isinstance(value, tuple):
        return tuple_of([attribute(printer, v) for v in value])
    return printer.operand(value) if isinstance(value, Expr) else constant(value)


# ------------------------------------------------------------------------------------------------ shapes
def _expand(printer: Printer, node: Expr) -> Code:
    value, like = node.args
    shape = print_shape(printer, like)
    if not is_number(value):
        return code("{0}.expand({1})", printer(value), shape)
    # A number has no dtype and no device: it takes those of a tensor that is there, else of one that was.
    there = lender_of(printer, like)
    if there is not None and value.is_boolean:  # jit.trace knows no tensor filled with True
        filling: Part = {TRUE: 1, FALSE: 0}[value] if value in (TRUE, FALSE) else code("int({0})", printer(value))
        return code("{0}.new_full({1}, {2}, dtype=torch.bool)", printer(there), shape, filling)
    if there is not None:
        return code("{0}.new_full({1}, {2})", printer(there), shape, printer(value))
    kept = lender([s for s in printer.dtypes if s in like.tensors] or printer.dtypes)
    if kept is None:
        return code("torch.full({0}, {1})", shape, printer(value))
    dtype = code("torch.bool") if value.is_boolean else printer.dtypes[kept]
    return code("torch.full({0}, {1}, dtype={2}, device=rt.like(ctx).device)", shape, printer(value), dtype)


def _sum_to(printer: Printer, node: Expr) -> Code:
    value, like = node.args
    if not shape_sources(like):
        return code("{0}.sum()", printer(value))
    return code("{0}.sum_to_size({1})", printer(value), print_shape(printer, like))


def _count(printer: Printer, node: Expr) -> Code:
    like, dim = node.args[0], node["dim"]
    if dim is None and like not in printer.names and extent(like).exact:
        found = [size for d in extent(like).dims if (size := print_size(printer, d)) is not None]
        if found and len(found) == len(extent(like).dims):
            return joined("*", found)
    shape = print_shape(printer, like)
    if dim is None:
        if isinstance(shape, ast.Tuple):
            return code("math.prod({0})", shape)
        whole = printer(like) if like in printer.names else of_shape(shape)
        return code("{0}.numel()", whole if isinstance(whole, ast.Name) else shape)
    dims = dim if isinstance(dim, tuple) else (dim,)
    if extent(like).dims:  # not a scalar, which has one element along every dimension
        along = [declared_size(printer, like, d) or code("{0}[{1}]", shape, attribute(printer, d)) for d in dims]
        return joined("*", along)
    return code("rt.count({0}, {1})", shape, [attribute(printer, d) for d in dims])


def _unsqueeze(printer: Printer, node: Expr) -> Code:
    return indexed(printer(node.args[0]), node)


def _squeeze(printer: Printer, node: Expr) -> Code:
    dims, of = node["dim"], node.args[0]
    if of.op == "slice" and of not in printer.names and dims == (of["dim"],):
        return code("{0}.select({1}, {2})", printer(of.args[0]), of["dim"], of["start"])
    return code("{0}.squeeze({1})", printer(of), constant(dims[0] if len(dims) == 1 else dims))


def _drop(printer: Printer, node: Expr) -> Code:
    value, keep = printer(node.args[0]), node["keepdim"]
    dropped = code("rt.drop({0}, {1})", value, attribute(printer, node["dim"]))
    return dropped if keep is False else code("{0} if {1} else {2}", value, attribute(printer, keep), dropped)


# ------------------------------------------------------------------------------------------------ reductions
def _extremum(printer: Printer, node: Expr) -> Code:
    """torch's amax says `dim=()` for everything."""
    given = [k for k in _attributes(printer, node) if k.arg != "dim" or node["dim"] is not None]
    return code(f"{{0}}.{node.op}({{1}})", printer(node.args[0]), given)


def _logsumexp(printer: Printer, node: Expr) -> Code:
    """torch's needs a dimension."""
    keep, value = node["keepdim"], printer(node.args[0])
    if node["dim"] is not None:
        return _by_row(printer, node)
    if keep is False:
        return code("{0}.flatten().logsumexp(dim=0)", value)
    return code("{0}.logsumexp(dim=tuple(range({0}.dim())), keepdim={1})", value, attribute(printer, keep))


def _prod(printer: Printer, node: Expr) -> Code:
    keep, value = node["keepdim"], printer(node.args[0])
    if node["dim"] is not None or keep is False:
        return _by_row(printer, node)
    if keep is True:
        return code("{0}.prod().reshape([1] * {0}.dim())", value)
    return code("{0}.prod().reshape([1] * {0}.dim() if {1} else [])", value, attribute(printer, keep))


def _norm(printer: Printer, node: Expr) -> Code:
    """torch calls the order `ord`."""
    given = [keyword("ord", attribute(printer, node["p"]))] if node["p"] != 2 else []
    given += [k for k in _attributes(printer, node) if k.arg != "p"]
    return code("torch.linalg.vector_norm({0}, {1})", printer(node.args[0]), given)


def _cumsum_back(printer: Printer, node: Expr) -> Code:
    if not extent(node.args[0]).dims:  # perhaps a scalar
        return _by_row(printer, node)
    return code("{0}.flip({1}).cumsum({1}).flip({1})", printer(node.args[0]), attribute(printer, node["dim"]))


# ------------------------------------------------------------------------------------------------ slices
def _slice(printer: Printer, node: Expr) -> Code:
    """A subscript; by `narrow`, which refuses what is beyond the size, where that is not known."""
    value, dim = printer(node.args[0]), node["dim"]
    start, stop, step = node["start"], node["stop"], node["step"]
    of = extent(node.args[0])
    known = of.dims[dim] if -len(of.dims) <= dim < len(of.dims) else None
    if step == 1 and not isinstance(known, int):
        if stop is not None and 0 <= start <= stop:
            return code("{0}.narrow({1}, {2}, {3})", value, dim, start, stop - start)
        if stop is None and start < 0:
            return code("{0}.narrow({1}, {2}, {3})", value, dim, start, -start)
    own = ast.Slice(
        constant(start) if start else None,
        None if stop is None else constant(stop),
        None if step == 1 else constant(step),
    )
    if dim < 0:
        return subscript(value, [constant(...), own, *[ast.Slice()] * (-1 - dim)])
    return subscript(value, [*[ast.Slice()] * dim, own])


def _joined_part(printer: Printer, node: Expr) -> Code:
    """Of what was joined, the one at an index."""
    value, *parts = node.args
    dim, index = node["dim"], node["index"]
    sizes = [length_along(e, dim) for e in map(extent, parts)]
    before = sizes[: index + 1]
    if all(isinstance(size, int) for size in before):
        start = sum(size for size in before[:-1] if isinstance(size, int))
        return code("{0}.narrow({1}, {2}, {3})", printer(value), dim, start, constant(before[-1]))
    shapes = [print_shape(printer, e) for e in parts[: index + 1]]
    return code("rt.part({0}, {1}, {2})", printer(value), dim, shapes)


# ------------------------------------------------------------------------------------------------ products
def _matmul_right(printer: Printer, node: Expr) -> Code:
    a, g, like = node.args
    known = extent(like)
    if known.exact and len(known.dims) == 2:
        return code("rt.rows({0}).mT @ rt.rows({1})", printer(a), printer(g))
    return _by_row(printer, node)


def _einsum(printer: Printer, node: Expr) -> Code:
    """Of a cotangent or tangent by products that autograd can batch."""
    template = "rt.einsum({0}, {1})" if node.is_differential else "torch.einsum({0}, {1})"
    return code(template, constant(node["equation"]), [*map(printer, node.args)])


def _conv(printer: Printer, node: Expr) -> Code:
    """A bias that is a number comes from a tensor that was not given."""
    operands = [printer(a) for a in node.args if not a.is_static]
    shift = [a for a in node.args if a.is_static and a is not ZERO]
    call = code(f"F.{node.op}({{0}})", [*operands, *_attributes(printer, node)])
    return binary("+", call, printer(shift[0])) if shift else call


def _conv_slope(printer: Printer, node: Expr) -> Code:
    first, second, like = node.args
    shape = print_shape(printer, like)
    parts = (
        [shape, printer(second), printer(first)]
        if node.op.endswith("input")
        else [printer(first), shape, printer(second)]
    )
    return code(f"rt.{node.op}({{0}})", [*parts, *_attributes(printer, node)])


def _again(printer: Printer, node: Expr) -> Code:
    """A call of the operation itself, where what is printed may be differentiated; else the formula."""
    if not printer.differentiable:
        return printer(node.args[0])
    results = code("_call({0})", list(map(printer, node.args[1:])))
    return results if node["place"] < 0 else code("{0}[{1}]", results, node["place"])


SPECIAL: dict[str, Callable[[Printer, Expr], Code]] = {
    "again": _again,
    "expand": _expand,
    "sum_to": _sum_to,
    "count": _count,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "drop": _drop,
    "amax": _extremum,
    "amin": _extremum,
    "logsumexp": _logsumexp,
    "prod": _prod,
    "norm": _norm,
    "cumsum_back": _cumsum_back,
    "slice": _slice,
    "part": _joined_part,
    "matmul_right": _matmul_right,
    "einsum": _einsum,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _conv),
    **dict.fromkeys((f"conv{n}d_{of}" for n in (1, 2, 3) for of in ("input", "weight")), _conv_slope),
}
