"""How the shape of a value, and a size of it, is written in torch."""

from __future__ import annotations

import ast
from math import lcm
from operator import attrgetter
from typing import TYPE_CHECKING

from symgrad.accuracy.machine import machine
from symgrad.analysis.integers import is_integer
from symgrad.ir.expr import Expr, symbol
from symgrad.ir.traversal import substitute, topological
from symgrad.ir.truth import compare
from symgrad.lower.code import Code, arguments, binary, code, constant, joined, subscript, tuple_of
from symgrad.ops.tensors import is_number
from symgrad.ops.tensors.extent import Dim
from symgrad.ops.tensors.shapes import extent, outline, shape_sources
from symgrad.ops.tensors.sizes import terms

if TYPE_CHECKING:
    from symgrad.targets.torch.printer import Printer


def print_shape(printer: Printer, like: Expr) -> Code:
    """The shape of a value: of the value itself if it is there, else of what it broadcasts from."""
    sources = shape_sources(like)
    known = _known_shape(printer, like) or _declared_shape(printer, like) or _shape_of_alike(printer, sources)
    if known is not None:
        return known
    shapes = [
        _known_shape(printer, source) or _shape_of_result(printer, outline(source))
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
    sizes = [size for dim in of.dims if (size := print_size(printer, dim)) is not None]
    return tuple_of(sizes) if len(sizes) == len(of.dims) else None


def print_size(printer: Printer, dim: Dim) -> Code | None:
    """The size of a declared dimension, read where it is one of a value that is there."""
    if isinstance(dim, int):
        return constant(dim)
    for value, shape in _with_shapes(printer):
        known = extent(value)
        if dim in known.dims:
            place = known.dims.index(dim)
            return code("{0}[{1}]", shape, place if known.exact else place - len(known.dims))
    if isinstance(dim, tuple) and dim[0] == "product":
        sizes = [size for part in dim[1] if (size := print_size(printer, part)) is not None]
        return joined("*", sizes) if len(sizes) == len(dim[1]) else None
    return _calculated_size(printer, dim) if isinstance(dim, tuple) and dim[0] == "linear" else None


def _calculated_size(printer: Printer, dim: Dim) -> Code | None:
    """What slices, joins and borders make of the sizes of declared dimensions."""
    parts, rest = terms(dim)
    denominator = lcm(rest.denominator, *(factor.denominator for factor in parts.values()))
    total: Code | None = None
    for part, factor in (*parts.items(), (1, rest)):
        size, times = print_size(printer, part), int(factor * denominator)
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
        return code("{0}.shape", indexed(_empty(printer, node.args[0]), node))
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
    form, *known = machine([substitute(node, {n: n for n in at_hand} | conditions), *called])
    body = printer.anew({**numbers, **dict(zip(known, called.values(), strict=True))})(form)
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


def lender_of(printer: Printer, like: Expr) -> Expr | None:
    """A tensor that surely is there: of floats that `like` is made of, else a cotangent or tangent, else another."""
    floats = [n for n in printer.names if n.op == "sym" and n["kind"] in ("tensor", "cotangent", "tangent")]
    own = [n for n in floats if n in like.tensors]
    differential = [n for n in floats if n in printer.shapes and n.is_differential]
    others = [n for n in floats if not n.is_differential]
    found = own or differential or others or [n for n in printer.names if n in like.tensors]
    return min(found, key=lambda n: n.name, default=None)


def of_shape(shape: Code) -> Code:
    """What has a shape, where that is asked of a value."""
    return shape.value if isinstance(shape, ast.Attribute) and shape.attr == "shape" else shape


def declared_size(printer: Printer, like: Expr, dim: object) -> Code | None:
    """The size of a dimension that has a name, from an argument that has it."""
    dims = extent(like).dims
    if not isinstance(dim, int) or not -len(dims) <= dim < 0 or not isinstance(dims[dim], str):
        return None
    return print_size(printer, dims[dim])


def print_like(printer: Printer, like: Expr) -> Code:
    """A tensor that is at hand, for its device and dtype."""
    lender = lender_of(printer, like)
    if lender is None:  # labels alone may be kept; in forward mode no single tangent is surely there
        kept = (n for n in printer.names if n.op == "sym" and not n.is_static and not n.is_differential)
        lender = min(kept, key=lambda n: n.name, default=None)
    return code("rt.like(ctx)") if lender is None else printer(lender)


def indexed(value: Code, node: Expr) -> Code:
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
