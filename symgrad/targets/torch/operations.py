"""Tensor operations as torch calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import Formatter
from typing import TYPE_CHECKING

from symgrad.analysis.integers import is_integer
from symgrad.ir.expr import FALSE, TRUE, ZERO, Expr, split_coefficient, symbol
from symgrad.ir.traversal import substitute, topological
from symgrad.ir.truth import compare
from symgrad.ops.tensors import TENSOR_OPS, Ref, is_number
from symgrad.ops.tensors.extent import Dim, Extent
from symgrad.ops.tensors.shapes import extent, shape_sources

if TYPE_CHECKING:
    from symgrad.targets.torch.printer import Printer


def print_operation(printer: Printer, node: Expr) -> str:
    """The call of a tensor operation, by the row's format or its own rule."""
    special = SPECIAL.get(node.op)
    if special is not None:
        return special(printer, node)
    return _formatted(printer, node)


def _formatted(printer: Printer, node: Expr) -> str:
    """A row's format string with its parts."""
    return _Parts(printer, node).format(TENSOR_OPS[node.op].torch)


class _Parts(Formatter):
    """What a row's format string may name, printed when it does: what it does not name is not computed here."""

    def __init__(self, printer: Printer, node: Expr) -> None:
        self._printer, self._node = printer, node

    def get_value(self, key: int | str, args: object, kwargs: object) -> str:
        printer, node = self._printer, self._node
        if isinstance(key, int):
            # Inside of a call an operand stands by itself; before a method it is an atom.
            before = TENSOR_OPS[node.op].torch.startswith(f"{{{key}}}")
            return (printer.atom if before else printer)(node.args[key])
        if key in _PARTS:
            return _PARTS[key](printer, node)
        if key.startswith("shape"):
            return print_shape(printer, node.args[int(key.removeprefix("shape"))])
        if key.startswith("device"):
            return _device(printer, node.args[int(key.removeprefix("device"))])
        return attribute(printer, node[key])


def _comma(printer: Printer, node: Expr) -> str:
    attributes = ", ".join(_attributes(printer, node))
    return f", {attributes}" if attributes else ""


def _sequence(printer: Printer, nodes: Sequence[Expr]) -> str:
    return ", ".join(_item(printer, n) for n in nodes) + ("," if len(nodes) == 1 else "")


def _item(printer: Printer, node: Expr) -> str:
    """An operand, or a size, which is a whole number also where it is a part of another."""
    factor, rest = split_coefficient(node)
    if not is_number(node) or factor.denominator == 1:
        return printer(node)
    return f"{printer.atom(factor.numerator * rest)} // {factor.denominator}"


_PARTS: dict[str, Callable[[Printer, Expr], str]] = {
    "attributes": lambda printer, node: ", ".join(_attributes(printer, node)),
    "comma": _comma,
    "operands": lambda printer, node: _sequence(printer, node.args),
    "rest": lambda printer, node: _sequence(printer, node.args[1:]),
}


def _attributes(printer: Printer, node: Expr) -> list[str]:
    """The attributes that differ from their defaults, as keywords; `keepdim` needs a `dim` beside it."""
    kept = node.get("keepdim", False) is not False
    return [
        f"{a.name}={attribute(printer, node.get(a.name))}"
        for a in TENSOR_OPS[node.op].attributes
        if node.get(a.name, a.default) != a.default or (a.name == "dim" and kept)
    ]


def attribute(printer: Printer, value: object) -> str:
    """An attribute as Python source; a hyperparameter by its local name."""
    if isinstance(value, Ref):
        return printer.local(value.name)
    if isinstance(value, tuple):
        items = ", ".join(attribute(printer, v) for v in value)
        return f"({items},)" if len(value) == 1 else f"({items})"
    return f'"{value}"' if isinstance(value, str) else repr(value)


# ------------------------------------------------------------------------------------------------ shapes
def print_shape(printer: Printer, like: Expr) -> str:
    """The shape of a value: of the value itself if it is there, else of what it broadcasts from."""
    sources = shape_sources(like)
    known = _known_shape(printer, like) or _declared_shape(printer, like) or _shape_of_alike(printer, sources)
    if known is not None:
        return known
    texts = [
        _known_shape(printer, source) or _shape_of_result(printer, source)
        for source in sorted(sources, key=lambda s: s.order)
    ]
    if not texts:
        return "torch.Size(())"
    return texts[0] if len(texts) == 1 else f"rt.broadcast_shapes({', '.join(texts)})"


def _known_shape(printer: Printer, value: Expr) -> str | None:
    if value in printer.names and not (value.op == "sym" and value.is_differential):
        return f"{printer(value)}.shape"
    return printer.shapes.get(value)


def _shape_of_alike(printer: Printer, sources: frozenset[Expr]) -> str | None:
    """The shape of a value that is there and broadcasts from the same others; cotangents do not tell from what."""
    for value, text in printer.names.items():
        there = len(sources) > 1 and text.isidentifier() and value.tensors and not value.is_differential
        if there and shape_sources(value) == sources:
            return f"{text}.shape"
    return None


def _declared_shape(printer: Printer, like: Expr) -> str | None:
    """The shape of a value whose dimensions are those of values that are there."""
    of = extent(like)
    if not of.exact or not of.dims:
        return None
    for value, text in _with_shapes(printer):
        if extent(value) == of:
            return text
    sizes = [size for dim in of.dims if (size := _size(printer, dim)) is not None]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})" if len(sizes) == len(of.dims) else None


def _size(printer: Printer, dim: Dim) -> str | None:
    """The size of a declared dimension, read where it is one of a value that is there."""
    if isinstance(dim, int):
        return str(dim)
    for value, text in _with_shapes(printer):
        known = extent(value)
        if dim in known.dims:
            place = known.dims.index(dim)
            return f"{text}[{place if known.exact else place - len(known.dims)}]"
    return None


def _with_shapes(printer: Printer) -> list[tuple[Expr, str]]:
    """The values whose shapes are at hand, and the source of these.

    A name alone does not say that a cotangent is there: it may be None, or that of another variant.
    """
    named = [
        (v, f"{text}.shape")
        for v, text in printer.names.items()
        if v.tensors and text.isidentifier() and not (v.op == "sym" and v.is_differential)
    ]
    return [*named, *printer.shapes.items()]


def _shape_of_result(printer: Printer, node: Expr) -> str:
    """The shape of a tensor operation that is not computed here, from the shapes of what it is computed from."""
    if node.op == "unsqueeze" and _known_shape(printer, node.args[0]):
        return f"{_empty(printer, node.args[0])}{_indexed(node)}.shape"
    # What is at hand is an argument by its shape, as the tensors are: an operand taken from outside would be data.
    at_hand = frozenset(n for n in topological(node) if n is not node and _is_at_hand(printer, n))
    leaves = [n for n in topological(node, leaves=at_hand) if n in at_hand or (n.op == "sym" and n.tensors)]
    names = {n: printer.names.get(n) or n.name for n in sorted(leaves, key=lambda n: n.order)}
    numbers = {n: text for n, text in printer.names.items() if n.is_static}
    # Every argument is a tensor of floats, which is no condition.
    floats = {n: symbol(name) if n.is_boolean else n for n, name in names.items()}
    conditions = {n: compare("ne", own, 0) for n, own in floats.items() if own is not n}
    texts = {own: f"{names[n]}.long()" if is_integer(n) else names[n] for n, own in floats.items()}
    inner = printer.anew({**numbers, **texts})
    shapes = ", ".join(print_shape(printer, n) for n in names)
    return f"rt.shape_of(lambda {', '.join(names.values())}: {inner(substitute(node, conditions))}, {shapes})"


def _is_at_hand(printer: Printer, value: Expr) -> bool:
    return not value.is_static and printer.names.get(value, "").isidentifier()


def _empty(printer: Printer, value: Expr) -> str:
    """A tensor of the shape of `value`, of no matter what."""
    if value in printer.names:
        return printer.atom(value)
    return f'torch.empty({print_shape(printer, value)}, device="meta")'


def _expand(printer: Printer, node: Expr) -> str:
    value, like = node.args
    shape = print_shape(printer, like)
    if not is_number(value):
        return f"{printer.atom(value)}.expand({shape})"
    # A number has no dtype and no device: it takes those of a tensor that is there.
    lender = _lender(printer, like)
    if lender is not None and value.is_boolean:  # jit.trace knows no tensor filled with True
        filling = {TRUE: "1", FALSE: "0"}.get(value) or f"int({printer(value)})"
        return f"{printer.atom(lender)}.new_full({shape}, {filling}, dtype=torch.bool)"
    if lender is not None:
        return f"{printer.atom(lender)}.new_full({shape}, {printer(value)})"
    return f"torch.full({shape}, {printer(value)})"


def _lender(printer: Printer, like: Expr) -> Expr | None:
    """A tensor that surely is there: of floats that `like` is made of, else a cotangent or tangent, else another."""
    floats = [n for n in printer.names if n.op == "sym" and n["kind"] in ("tensor", "cotangent", "tangent")]
    own = [n for n in floats if n in like.tensors]
    differential = [n for n in floats if n in printer.shapes and n.is_differential]
    others = [n for n in floats if not n.is_differential]
    found = own or differential or others or [n for n in printer.names if n in like.tensors]
    return min(found, key=lambda n: n.name, default=None)


def _sum_to(printer: Printer, node: Expr) -> str:
    value, like = node.args
    if not shape_sources(like):
        return f"{printer.atom(value)}.sum()"
    return f"{printer.atom(value)}.sum_to_size({print_shape(printer, like)})"


def _conform(printer: Printer, node: Expr) -> str:
    value, like = node.args
    return f"rt.conform({printer(value)}, {print_shape(printer, like)})"


def _count(printer: Printer, node: Expr) -> str:
    like, dim = node.args[0], node["dim"]
    if dim is None and like not in printer.names and extent(like).exact:
        found = [size for d in extent(like).dims if (size := _size(printer, d)) is not None]
        if found and len(found) == len(extent(like).dims):
            return found[0] if len(found) == 1 else f"({' * '.join(found)})"
    if dim is None:
        shape = print_shape(printer, like)
        there = printer.names.get(like) or shape.removesuffix(".shape")
        if shape.startswith("("):
            return f"math.prod({shape})"
        return f"{there if there.isidentifier() else shape}.numel()"
    shape = print_shape(printer, like)
    dims = dim if isinstance(dim, tuple) else (dim,)
    if extent(like).dims:  # not a scalar, which has one element along every dimension
        sizes = [_declared(printer, like, d) or f"{shape}[{attribute(printer, d)}]" for d in dims]
        return sizes[0] if len(sizes) == 1 else f"({' * '.join(sizes)})"
    return f"rt.count({shape}, {', '.join(attribute(printer, d) for d in dims)})"


def _declared(printer: Printer, like: Expr, dim: object) -> str | None:
    """The size of a dimension that has a name, from an argument that has it."""
    dims = extent(like).dims
    if not isinstance(dim, int) or not -len(dims) <= dim < 0 or not isinstance(dims[dim], str):
        return None
    return _size(printer, dims[dim])


def _unsqueeze(printer: Printer, node: Expr) -> str:
    return f"{printer.atom(node.args[0])}{_indexed(node)}"


def _indexed(node: Expr) -> str:
    """`[:, None]`, or a call for each dimension where these are easier to read."""
    of, dims = extent(node.args[0]), node["dim"]
    if len(dims) > 1 and set(dims) == set(range(-len(dims), 0)):
        return f"[...{', None' * len(dims)}]"
    if dims == (-1,) or not of.exact:
        return "".join(f".unsqueeze({d})" for d in sorted(dims, reverse=True))
    rank = len(of.dims) + len(dims)
    marks = ["None" if k - rank in dims else ":" for k in range(rank)]
    while marks[-1] == ":":
        marks.pop()
    return f"[{', '.join(marks)}]"


def _squeeze(printer: Printer, node: Expr) -> str:
    dims, of = node["dim"], node.args[0]
    if of.op == "slice" and of not in printer.names and dims == (of["dim"],):
        return f"{printer.atom(of.args[0])}.select({of['dim']}, {of['start']})"
    return f"{printer.atom(of)}.squeeze({dims[0] if len(dims) == 1 else dims})"


def _restore(printer: Printer, node: Expr) -> str:
    value, of = node.args
    return f"rt.restore({printer(value)}, {attribute(printer, node['dim'])}, {print_shape(printer, of)})"


def _drop(printer: Printer, node: Expr) -> str:
    value, keep = printer(node.args[0]), node["keepdim"]
    squeezed = f"rt.drop({value}, {attribute(printer, node['dim'])})"
    if keep is False:
        return squeezed
    return f"({printer.atom(node.args[0])} if {attribute(printer, keep)} else {squeezed})"


# ------------------------------------------------------------------------------------------------ reductions
def _extremum(printer: Printer, node: Expr) -> str:
    """torch's amax says `dim=()` for everything."""
    text = [t for t in _attributes(printer, node) if t != "dim=None"]
    return f"{printer.atom(node.args[0])}.{node.op}({', '.join(text)})"


def _logsumexp(printer: Printer, node: Expr) -> str:
    """torch's needs a dimension."""
    keep, value = node["keepdim"], printer.atom(node.args[0])
    if node["dim"] is not None:
        return _formatted(printer, node)
    if keep is False:
        return f"{value}.flatten().logsumexp(dim=0)"
    return f"{value}.logsumexp(dim=tuple(range({value}.dim())), keepdim={attribute(printer, keep)})"


def _prod(printer: Printer, node: Expr) -> str:
    keep, value = node["keepdim"], printer.atom(node.args[0])
    if node["dim"] is not None or keep is False:
        return _formatted(printer, node)
    ones = f"[1] * {value}.dim()"
    return f"{value}.prod().reshape({ones if keep is True else f'{ones} if {attribute(printer, keep)} else []'})"


def _norm(printer: Printer, node: Expr) -> str:
    """torch calls the order `ord`."""
    text = [f"ord={attribute(printer, node['p'])}"] if node["p"] != 2 else []
    text += [t for t in _attributes(printer, node) if not t.startswith("p=")]
    return f"torch.linalg.vector_norm({', '.join([printer(node.args[0]), *text])})"


def _helper(name: str) -> Callable[[Printer, Expr], str]:
    """A call of a helper with the operands and the dimension."""
    return lambda printer, node: f"{name}({', '.join([*map(printer, node.args), attribute(printer, node['dim'])])})"


def _cumsum_back(printer: Printer, node: Expr) -> str:
    dim, of = attribute(printer, node["dim"]), node.args[0]
    if not extent(of).dims:  # perhaps a scalar
        return f"rt.cumsum_backward({printer(of)}, {dim})"
    return f"{printer.atom(of)}.flip({dim}).cumsum({dim}).flip({dim})"


# ------------------------------------------------------------------------------------------------ slices
def _slice(printer: Printer, node: Expr) -> str:
    """A subscript; by `narrow`, which refuses what is beyond the size, where that is not known."""
    value, dim = printer.atom(node.args[0]), node["dim"]
    start, stop, step = node["start"], node["stop"], node["step"]
    of = extent(node.args[0])
    known = of.dims[dim] if -len(of.dims) <= dim < len(of.dims) else None
    if step == 1 and not isinstance(known, int):
        if stop is not None and 0 <= start <= stop:
            return f"{value}.narrow({dim}, {start}, {stop - start})"
        if stop is None and start < 0:
            return f"{value}.narrow({dim}, {start}, {-start})"
    bounds = f"{start or ''}:{'' if stop is None else stop}{'' if step == 1 else f':{step}'}"
    if dim < 0:
        return f"{value}[..., {', '.join([bounds, *[':'] * (-1 - dim)])}]"
    return f"{value}[{', '.join([*[':'] * dim, bounds])}]"


def _part(printer: Printer, node: Expr) -> str:
    """Of what was joined, the one at an index."""
    value, *joined = node.args
    dim, index = node["dim"], node["index"]
    sizes = [_size_along(e, dim) for e in map(extent, joined)]
    before = sizes[: index + 1]
    if all(isinstance(size, int) for size in before):
        start = sum(size for size in before[:-1] if isinstance(size, int))
        return f"{printer.atom(value)}.narrow({dim}, {start}, {before[-1]})"
    shapes = ", ".join(print_shape(printer, e) for e in joined[: index + 1])
    return f"rt.part({printer(value)}, {dim}, {shapes})"


def _size_along(of: Extent, dim: int) -> Dim | None:
    return of.dims[dim] if -len(of.dims) <= dim < len(of.dims) else None


def _device(printer: Printer, like: Expr) -> str:
    """The device of a tensor that is at hand."""
    lender = _lender(printer, like)
    assert lender is not None, like
    return f"{printer.atom(lender)}.device"


# ------------------------------------------------------------------------------------------------ products
def _matmul_left(printer: Printer, node: Expr) -> str:
    g, b, like = node.args
    return f"rt.matmul_left({printer(g)}, {printer(b)}, {print_shape(printer, like)})"


def _matmul_right(printer: Printer, node: Expr) -> str:
    a, g, like = node.args
    known = extent(like)
    if known.exact and len(known.dims) == 2:
        return f"rt.rows({printer(a)}).mT @ rt.rows({printer(g)})"
    return f"rt.matmul_right({printer(a)}, {printer(g)}, {print_shape(printer, like)})"


def _einsum(printer: Printer, node: Expr) -> str:
    """Of a cotangent or tangent by products that autograd can batch."""
    name = "rt.einsum" if node.is_differential else "torch.einsum"
    return f'{name}("{node["equation"]}", {", ".join(map(printer, node.args))})'


def _conv(printer: Printer, node: Expr) -> str:
    """A bias that is a number comes from a tensor that was not given."""
    operands = [printer(a) for a in node.args if not a.is_static]
    shift = [a for a in node.args if a.is_static and a is not ZERO]
    call = f"F.{node.op}({', '.join([*operands, *_attributes(printer, node)])})"
    return f"({call} + {printer(shift[0])})" if shift else call


def _conv_slope(printer: Printer, node: Expr) -> str:
    first, second, like = node.args
    shape = print_shape(printer, like)
    parts = (
        [shape, printer(second), printer(first)]
        if node.op.endswith("input")
        else [printer(first), shape, printer(second)]
    )
    return f"rt.{node.op}({', '.join([*parts, *_attributes(printer, node)])})"


SPECIAL: dict[str, Callable[[Printer, Expr], str]] = {
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
    "others": _helper("rt.others"),
    "others_slope": _helper("rt.others_slope"),
    "cumsum_back": _cumsum_back,
    "slice": _slice,
    "part": _part,
    "matmul_left": _matmul_left,
    "matmul_right": _matmul_right,
    "einsum": _einsum,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _conv),
    **dict.fromkeys((f"conv{n}d_{of}" for n in (1, 2, 3) for of in ("input", "weight")), _conv_slope),
}
