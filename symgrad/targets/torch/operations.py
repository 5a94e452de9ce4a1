"""Tensor operations as torch calls."""

from __future__ import annotations

import ast
from collections.abc import Callable
from math import lcm
from operator import attrgetter
from typing import TYPE_CHECKING

from symgrad.analysis.integers import is_integer
from symgrad.ir.expr import FALSE, TRUE, ZERO, Expr, split_coefficient, symbol
from symgrad.ir.traversal import substitute, topological
from symgrad.ir.truth import compare
from symgrad.lower.code import Code, Part, arguments, binary, code, constant, fill, joined, keyword, subscript, tuple_of
from symgrad.ops.tensors import TENSOR_OPS, Ref, is_number
from symgrad.ops.tensors.extent import Dim, Extent
from symgrad.ops.tensors.shapes import extent, shape_sources
from symgrad.ops.tensors.sizes import terms
from symgrad.targets.torch.fusions import FASTER

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
        return _device(printer, node.args[int(key.removeprefix("device"))])
    return attribute(printer, node[key])


def _item(printer: Printer, node: Expr) -> Code:
    """An operand, or a size, which is a whole number also where it is a part of another."""
    factor, rest = split_coefficient(node)
    if not is_number(node) or factor.denominator == 1:
        return printer(node)
    return binary("//", printer(factor.numerator * rest), constant(factor.denominator))


_PARTS: dict[str, Callable[[Printer, Expr], Part]] = {
    "attributes": lambda printer, node: _attributes(printer, node),
    "operands": lambda printer, node: [_item(printer, a) for a in node.args],
    "rest": lambda printer, node: [_item(printer, a) for a in node.args[1:]],
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
    return _item(printer, value) if isinstance(value, Expr) else constant(value)


# ------------------------------------------------------------------------------------------------ shapes
def print_shape(printer: Printer, like: Expr) -> Code:
    """The shape of a value: of the value itself if it is there, else of what it broadcasts from."""
    sources = shape_sources(like)
    known = _known_shape(printer, like) or _declared_shape(printer, like) or _shape_of_alike(printer, sources)
    if known is not None:
        return known
    shapes = [
        _known_shape(printer, source) or _shape_of_result(printer, source)
        for source in sorted(sources, key=lambda s: s.order)
    ]
    if not shapes:
        return code("torch.Size(())")
    return shapes[0] if len(shapes) == 1 else code("rt.broadcast_shapes({0})", shapes)


def _known_shape(printer: Printer, value: Expr) -> Code | None:
    if value in printer.names and not (value.op == "sym" and value.is_differential):
        return code("{0}.shape", printer(value))
    return printer.shapes.get(value)


def _shape_of_alike(printer: Printer, sources: frozenset[Expr]) -> Code | None:
    """The shape of a value that is there and broadcasts from the same others; cotangents do not tell from what."""
    for value in printer.names:
        there = len(sources) > 1 and printer.is_local(value) and value.tensors and not value.is_differential
        if there and shape_sources(value) == sources:
            return code("{0}.shape", printer(value))
    return None


def _declared_shape(printer: Printer, like: Expr) -> Code | None:
    """The shape of a value whose dimensions are those of values that are there."""
    of = extent(like)
    if not of.exact or not of.dims:
        return None
    for value, shape in _with_shapes(printer):
        if extent(value) == of:
            return shape
    sizes = [size for dim in of.dims if (size := _size(printer, dim)) is not None]
    return tuple_of(sizes) if len(sizes) == len(of.dims) else None


def _size(printer: Printer, dim: Dim) -> Code | None:
    """The size of a declared dimension, read where it is one of a value that is there."""
    if isinstance(dim, int):
        return constant(dim)
    for value, shape in _with_shapes(printer):
        known = extent(value)
        if dim in known.dims:
            place = known.dims.index(dim)
            return code("{0}[{1}]", shape, place if known.exact else place - len(known.dims))
    if isinstance(dim, tuple) and dim[0] == "product":
        sizes = [size for part in dim[1] if (size := _size(printer, part)) is not None]
        return joined("*", sizes) if len(sizes) == len(dim[1]) else None
    return _calculated_size(printer, dim) if isinstance(dim, tuple) and dim[0] == "linear" else None


def _calculated_size(printer: Printer, dim: Dim) -> Code | None:
    """What slices, joins and borders make of the sizes of declared dimensions."""
    parts, rest = terms(dim)
    denominator = lcm(rest.denominator, *(factor.denominator for factor in parts.values()))
    total: Code | None = None
    for part, factor in (*parts.items(), (1, rest)):
        size, times = _size(printer, part), int(factor * denominator)
        if size is None:
            return None
        if times and total is None:
            total = _times(times, size, part)
        elif times and total is not None:
            total = binary("-" if times < 0 else "+", total, _times(abs(times), size, part))
    return total if total is None or denominator == 1 else binary("//", total, constant(denominator))


def _times(factor: int, size: Code, part: Dim) -> Code:
    if part == 1:
        return constant(factor)
    return size if factor == 1 else binary("*", constant(factor), size)


def _with_shapes(printer: Printer) -> list[tuple[Expr, Code]]:
    """The values whose shapes are at hand, and these.

    A name alone does not say that a cotangent is there: it may be None, or that of another variant.
    """
    named = [
        (v, code("{0}.shape", printer(v)))
        for v in printer.names
        if v.tensors and printer.is_local(v) and not (v.op == "sym" and v.is_differential)
    ]
    return [*named, *printer.shapes.items()]


def _shape_of_result(printer: Printer, node: Expr) -> Code:
    """The shape of a tensor operation that is not computed here, from the shapes of what it is computed from."""
    if node.op == "unsqueeze" and _known_shape(printer, node.args[0]):
        return code("{0}.shape", _indexed(_empty(printer, node.args[0]), node))
    # What is at hand is an argument by its shape, as the tensors are: an operand taken from outside would be data.
    at_hand = frozenset(n for n in topological(node) if n is not node and not is_number(n) and printer.is_local(n))
    inside = topological(node, leaves=at_hand)
    sized = [t for n in inside for _, value in n.attrs for size in _sizes_in(value) for t in size.tensors]
    leaves = {n for n in inside if n in at_hand or (n.op == "sym" and n.tensors)} | set(sized)
    names = {
        n: own if isinstance(own := printer.names.get(n), str) else n.name
        for n in sorted(leaves, key=attrgetter("order"))
    }
    numbers = {n: own for n, own in printer.names.items() if n.is_static}
    # Every argument is a tensor of floats, which is no condition.
    floats = {n: symbol(name) if n.is_boolean else n for n, name in names.items()}
    conditions = {n: compare("ne", own, 0) for n, own in floats.items() if own is not n}
    called = {own: code("{0}.long()", names[n]) if is_integer(n) else names[n] for n, own in floats.items()}
    body = printer.anew({**numbers, **called})(substitute(node, {n: n for n in at_hand} | conditions))
    of_arguments = ast.Lambda(arguments([*names.values()]), body)
    return code("rt.shape_of({0}, {1})", of_arguments, [print_shape(printer, n) for n in names])


def _sizes_in(attribute: object) -> list[Expr]:
    """What an attribute calculates of sizes."""
    values = attribute if isinstance(attribute, tuple) else (attribute,)
    return [v for v in values if isinstance(v, Expr)]


def _empty(printer: Printer, value: Expr) -> Code:
    """A tensor of the shape of `value`, of no matter what."""
    if value in printer.names:
        return printer(value)
    return code('torch.empty({0}, device="meta")', print_shape(printer, value))


def _expand(printer: Printer, node: Expr) -> Code:
    value, like = node.args
    shape = print_shape(printer, like)
    if not is_number(value):
        return code("{0}.expand({1})", printer(value), shape)
    # A number has no dtype and no device: it takes those of a tensor that is there.
    lender = _lender(printer, like)
    if lender is not None and value.is_boolean:  # jit.trace knows no tensor filled with True
        filling: Part = {TRUE: 1, FALSE: 0}[value] if value in (TRUE, FALSE) else code("int({0})", printer(value))
        return code("{0}.new_full({1}, {2}, dtype=torch.bool)", printer(lender), shape, filling)
    if lender is not None:
        return code("{0}.new_full({1}, {2})", printer(lender), shape, printer(value))
    return code("torch.full({0}, {1})", shape, printer(value))


def _lender(printer: Printer, like: Expr) -> Expr | None:
    """A tensor that surely is there: of floats that `like` is made of, else a cotangent or tangent, else another."""
    floats = [n for n in printer.names if n.op == "sym" and n["kind"] in ("tensor", "cotangent", "tangent")]
    own = [n for n in floats if n in like.tensors]
    differential = [n for n in floats if n in printer.shapes and n.is_differential]
    others = [n for n in floats if not n.is_differential]
    found = own or differential or others or [n for n in printer.names if n in like.tensors]
    return min(found, key=lambda n: n.name, default=None)


def _sum_to(printer: Printer, node: Expr) -> Code:
    value, like = node.args
    if not shape_sources(like):
        return code("{0}.sum()", printer(value))
    return code("{0}.sum_to_size({1})", printer(value), print_shape(printer, like))


def _conform(printer: Printer, node: Expr) -> Code:
    value, like = node.args
    return code("rt.conform({0}, {1})", printer(value), print_shape(printer, like))


def _count(printer: Printer, node: Expr) -> Code:
    like, dim = node.args[0], node["dim"]
    if dim is None and like not in printer.names and extent(like).exact:
        found = [size for d in extent(like).dims if (size := _size(printer, d)) is not None]
        if found and len(found) == len(extent(like).dims):
            return joined("*", found)
    shape = print_shape(printer, like)
    if dim is None:
        if isinstance(shape, ast.Tuple):
            return code("math.prod({0})", shape)
        whole = printer(like) if like in printer.names else _of_shape(shape)
        return code("{0}.numel()", whole if isinstance(whole, ast.Name) else shape)
    dims = dim if isinstance(dim, tuple) else (dim,)
    if extent(like).dims:  # not a scalar, which has one element along every dimension
        along = [_declared(printer, like, d) or code("{0}[{1}]", shape, attribute(printer, d)) for d in dims]
        return joined("*", along)
    return code("rt.count({0}, {1})", shape, [attribute(printer, d) for d in dims])


def _of_shape(shape: Code) -> Code:
    """What has a shape, where that is asked of a value."""
    return shape.value if isinstance(shape, ast.Attribute) and shape.attr == "shape" else shape


def _declared(printer: Printer, like: Expr, dim: object) -> Code | None:
    """The size of a dimension that has a name, from an argument that has it."""
    dims = extent(like).dims
    if not isinstance(dim, int) or not -len(dims) <= dim < 0 or not isinstance(dims[dim], str):
        return None
    return _size(printer, dims[dim])


def _unsqueeze(printer: Printer, node: Expr) -> Code:
    return _indexed(printer(node.args[0]), node)


def _indexed(value: Code, node: Expr) -> Code:
    """`value[:, None]`, or a call for each dimension where these are easier to read."""
    of, dims = extent(node.args[0]), node["dim"]
    none, all_ = constant(None), ast.Slice()
    if len(dims) > 1 and set(dims) == set(range(-len(dims), 0)):
        return subscript(value, [constant(...), *[none] * len(dims)])
    if dims == (-1,) or not of.exact:
        for d in sorted(dims, reverse=True):
            value = code("{0}.unsqueeze({1})", value, d)
        return value
    rank = len(of.dims) + len(dims)
    marks = [k - rank in dims for k in range(rank)]
    while not marks[-1]:
        marks.pop()
    return subscript(value, [none if new else all_ for new in marks])


def _squeeze(printer: Printer, node: Expr) -> Code:
    dims, of = node["dim"], node.args[0]
    if of.op == "slice" and of not in printer.names and dims == (of["dim"],):
        return code("{0}.select({1}, {2})", printer(of.args[0]), of["dim"], of["start"])
    return code("{0}.squeeze({1})", printer(of), constant(dims[0] if len(dims) == 1 else dims))


def _restore(printer: Printer, node: Expr) -> Code:
    value, of = node.args
    return code("rt.restore({0}, {1}, {2})", printer(value), attribute(printer, node["dim"]), print_shape(printer, of))


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


def _helper(template: str) -> Callable[[Printer, Expr], Code]:
    """A call of a helper with the operands and the dimension."""
    return lambda printer, node: code(template, [*map(printer, node.args), attribute(printer, node["dim"])])


def _cumsum_back(printer: Printer, node: Expr) -> Code:
    dim, of = attribute(printer, node["dim"]), node.args[0]
    if not extent(of).dims:  # perhaps a scalar
        return code("rt.cumsum_backward({0}, {1})", printer(of), dim)
    return code("{0}.flip({1}).cumsum({1}).flip({1})", printer(of), dim)


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
    sizes = [_size_along(e, dim) for e in map(extent, parts)]
    before = sizes[: index + 1]
    if all(isinstance(size, int) for size in before):
        start = sum(size for size in before[:-1] if isinstance(size, int))
        return code("{0}.narrow({1}, {2}, {3})", printer(value), dim, start, constant(before[-1]))
    shapes = [print_shape(printer, e) for e in parts[: index + 1]]
    return code("rt.part({0}, {1}, {2})", printer(value), dim, shapes)


def _size_along(of: Extent, dim: int) -> Dim | None:
    return of.dims[dim] if -len(of.dims) <= dim < len(of.dims) else None


def _device(printer: Printer, like: Expr) -> Code:
    """The device of a tensor that is at hand."""
    lender = _lender(printer, like)
    if lender is None:  # backward may have kept labels alone
        tensors = (n for n in printer.names if n.op == "sym" and not n.is_static)
        lender = min(tensors, key=lambda n: (n.is_differential, n.name))
    return code("{0}.device", printer(lender))


# ------------------------------------------------------------------------------------------------ products
def _matmul_left(printer: Printer, node: Expr) -> Code:
    g, b, like = node.args
    return code("rt.matmul_left({0}, {1}, {2})", printer(g), printer(b), print_shape(printer, like))


def _matmul_right(printer: Printer, node: Expr) -> Code:
    a, g, like = node.args
    known = extent(like)
    if known.exact and len(known.dims) == 2:
        return code("rt.rows({0}).mT @ rt.rows({1})", printer(a), printer(g))
    return code("rt.matmul_right({0}, {1}, {2})", printer(a), printer(g), print_shape(printer, like))


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
    "conform": _conform,
    "count": _count,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "restore": _restore,
    "drop": _drop,
    "amax": _extremum,
    "amin": _extremum,
    "logsumexp": _logsumexp,
    "prod": _prod,
    "norm": _norm,
    "others": _helper("rt.others({0})"),
    "others_slope": _helper("rt.others_slope({0})"),
    "cumsum_back": _cumsum_back,
    "slice": _slice,
    "part": _joined_part,
    "matmul_left": _matmul_left,
    "matmul_right": _matmul_right,
    "einsum": _einsum,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _conv),
    **dict.fromkeys((f"conv{n}d_{of}" for n in (1, 2, 3) for of in ("input", "weight")), _conv_slope),
}
