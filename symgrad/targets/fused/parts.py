"""Parts of a dimension: halves that are rotated, a gate and a value that lie side by side, what is joined of several.

Where formulas take slices of a dimension and join them again, a pass runs over the elements of one part. A tensor that
is several parts long is read, or written, as so many tensors: views of it, which lie beside each other. So its formula
is one for each part, and no element is moved. All parts are equally long: constant bounds of slices have a common
divisor, chunks are equal, and what is joined is a multiple of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial, reduce
from typing import Any, TypeAlias

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import rebuild, topological
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.extent import Dim, extent, positions
from symgrad.ops.tensors.reductions import OF_ROWS
from symgrad.ops.tensors.sizes import divided, share
from symgrad.targets.fused.model import Part
from symgrad.targets.fused.terms import NOT_LAST, Unsupported

__all__ = ["Grid", "Parts", "grid"]

_MOST_PARTS = 8  # of a dimension: each has formulas of its own
_MOST_OF_TENSOR = 12  # which is longer than what is divided: each part may be a copy
_LARGEST = {"amax": "maximum", "amin": "minimum"}
_CUTS = ("chunk", "slice", "cat", "part", "roll")
SEVERAL = "parts of several dimensions"

Parted: TypeAlias = "Expr | tuple[Expr, ...]"
"""A value of one part, or one that is the same for all; or the values of several parts, one after the other."""


@dataclass(frozen=True)
class Grid:
    """The dimension that a pass has a part of, counted from the end, and how long a part is.

    `called` is how operations of the formulas name it: by its place from the start, perhaps. `pairs`: its two parts are
    the first and the second elements of pairs of neighbours.
    """

    dim: int
    unit: Dim
    called: frozenset[int] = frozenset()
    pairs: bool = False

    @property
    def single(self) -> bool:
        """Whether the parts are single elements of the last dimension, which then has one everywhere in a pass."""
        return self.dim == -1 and self.unit == 1

    def part(self, index: int, count: int) -> Part:
        """One of so many parts."""
        return Part(self.dim, index, count, self.pairs)

    def count(self, value: Expr) -> int:
        """How many parts long a value is: 1 for what is no multiple, and broadcasts or has other dimensions there."""
        dims = extent(value).dims
        ratio = share(dims[self.dim], self.unit) if len(dims) >= -self.dim else None
        return int(ratio) if ratio is not None and ratio.denominator == 1 and ratio > 1 else 1


def grid(formulas: Iterable[Expr]) -> Grid | None:
    """How formulas divide a dimension; None if they do not. Raises Unsupported."""
    cuts = [n for n in topological(*formulas) if n.op in _CUTS]
    if not cuts:
        return None
    dims = {_dim(n) for n in cuts}
    if len(dims) > 1:
        raise Unsupported(SEVERAL)
    (dim,) = dims
    lengths = [length for n in cuts for length in _lengths(n, dim)]
    if not lengths:
        raise Unsupported(cuts[0].op)
    unit = lengths[0]
    for length in lengths:
        ratio = share(length, unit)
        if ratio is None:
            raise Unsupported("parts of sizes that have nothing to do with each other")
        unit = divided(unit, ratio.denominator)
    found = Grid(dim, unit, frozenset(d for n in cuts for d in _dims(n) if isinstance(d, int)))
    if max(_ratio(length, unit) for length in lengths) > _MOST_PARTS:
        raise Unsupported(f"more than {_MOST_PARTS} parts of a dimension")
    return found


def _ratio(length: Dim, unit: Dim) -> Fraction:
    return share(length, unit) or Fraction(0)


def _dims(node: Expr) -> tuple[Any, ...]:
    return tuple(node["dims"]) if node.op == "roll" else (node["dim"],)


def _dim(node: Expr, called: frozenset[int] = frozenset(), known: int = 0) -> int:
    """The dimension that an operation divides or joins, counted from the end: the known one, if it is called so."""
    dims = _dims(node)
    for operand in node.args:
        found = positions(dims, extent(operand)) if extent(operand).dims else None
        if found is not None and len(found) == 1:
            return found[0]
    if len(dims) == 1 and isinstance(dims[0], int) and (dims[0] < 0 or dims[0] in called):
        return dims[0] if dims[0] < 0 else known
    raise Unsupported(node.op)


def _lengths(node: Expr, dim: int) -> list[Dim]:
    """Lengths of which a part is a divisor, as far as they are known."""
    known = [e.dims[dim] for e in map(extent, node.args) if len(e.dims) >= -dim]
    if node.op == "chunk":
        return [divided(size, node["chunks"]) for size in known]
    if node.op == "slice" and known:
        bounds = range(known[0])[node["start"] : node["stop"]] if isinstance(known[0], int) else None
        if bounds is None or node["step"] != 1:
            raise Unsupported(node.op)
        return [n for n in (bounds.start, bounds.stop, *known) if n]
    if node.op == "roll":
        return [*known, *map(abs, node["shifts"])]
    return [size for size in known if not isinstance(size, tuple) or size[0] == "linear"]


@dataclass
class Parts:
    """Rewrites formulas into those of single parts.

    `rank` is how many dimensions the pass has. `lengths` is how many parts long the values are that symbols stand for,
    by name, where their shapes do not tell; `known` are saved values and the symbols that they are read from. `origin`
    collects the symbols that stand for parts, and what they are parts of.
    """

    grid: Grid | None
    rank: int | None = None
    lengths: dict[str, int] = field(default_factory=dict)
    known: Mapping[Expr, Expr] = field(default_factory=dict)
    origin: dict[Expr, tuple[Expr, Part]] = field(default_factory=dict)
    _done: dict[Expr, Parted] = field(default_factory=dict)
    _moved: dict[Expr, int] = field(default_factory=dict)  # values whose parts are of another dimension, and which

    def __call__(self, root: Expr) -> tuple[Expr, ...]:
        """The formula of each part of a value. Raises Unsupported."""
        if self.grid is None:
            return (root,)
        for node in topological(root, leaves=self.known):
            if node not in self._done:
                self._done[node] = self._lower(node)
        if root in self._moved:
            raise Unsupported(SEVERAL)
        found = self._done[root]
        return found if isinstance(found, tuple) else (found,)

    def again(self, known: dict[Expr, Expr]) -> Parts:
        """The same where formulas are made of what is saved."""
        return Parts(self.grid, self.rank, self.lengths, known, self.origin)

    def of(self, terms: Sequence[Expr], count: int) -> list[list[Expr]]:
        """What several terms of a value so many parts long give to each part of it."""
        found = [self(t) for t in terms]
        if any(len(t) not in (1, count) for t in found):
            raise Unsupported("parts of different numbers")
        return [[t[k % len(t)] for t in found] for k in range(count)]

    def symbols(self, tensor: Expr) -> tuple[Expr, ...]:
        """The symbols of the parts of a tensor, which is itself its only one where it is not longer."""
        count = self.length(tensor)
        if count == 1 or self.grid is None:
            return (tensor,)
        if count > _MOST_OF_TENSOR:
            raise Unsupported(f"more than {_MOST_OF_TENSOR} parts of a tensor")
        found = []
        for k in range(count):
            shape = None if tensor.is_differential else tensor.get("shape")
            if shape is not None:
                place = len(shape) + self.grid.dim
                shape = (*shape[:place], self.grid.unit, *shape[place + 1 :])
            own = symbol(f"{tensor.name}[{k}:{count}]", tensor["kind"], shape)
            self.origin[own] = tensor, self.grid.part(k, count)
            found.append(own)
        return tuple(found)

    def of_whole(self, tensor: Expr) -> Expr:
        """What a tensor is a part of, or itself."""
        return self.origin[tensor][0] if tensor in self.origin else tensor

    def length(self, tensor: Expr) -> int:
        """How many parts long a tensor is."""
        if self.grid is None:
            return 1
        return self.lengths.get(tensor.name) or self.grid.count(tensor)

    # ------------------------------------------------------------------------------------------ operations
    def _lower(self, node: Expr) -> Parted:
        if node in self.known:
            return self._one(self.symbols(self.known[node])) if self.length(self.known[node]) > 1 else node
        if node.op == "sym" and node.tensors:
            return self._one(self.symbols(node))
        if not node.args:
            return node
        args = [self._done[a] for a in node.args]
        own = self._own.dim
        dims = {self._moved.get(a, own) for a, parts in zip(node.args, args, strict=True) if isinstance(parts, tuple)}
        if len(dims) > 1:
            raise Unsupported(SEVERAL)
        found = _RULES.get(node.op, Parts._each)(self, node, args)
        if isinstance(found, tuple):
            dim = self._after(node, dims.pop() if dims else own)
            if dim != own:
                self._moved[node] = dim
        elif self._own.count(node) > 1:  # or it has other dimensions
            raise Unsupported(node.op)
        if node.op in TENSOR_OPS and node.op not in _RULES and isinstance(found, tuple):
            raise Unsupported(node.op)
        return found

    def _after(self, node: Expr, dim: int) -> int:
        """Which dimension of a result that of its operands is, of which there are parts."""
        if node.op in ("unsqueeze", "restore") and node.get("keepdim", False) is not True:
            for place in sorted(self._places(node), reverse=True):
                dim -= place >= dim
        elif node.op in ("squeeze", "drop", *OF_ROWS) and node.get("keepdim", False) is not True:
            dim += sum(place > dim for place in self._places(node))
        return dim

    @property
    def _own(self) -> Grid:
        assert self.grid is not None
        return self.grid

    @staticmethod
    def _one(parts: Sequence[Expr]) -> Parted:
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _each(self, node: Expr, args: Sequence[Parted]) -> Parted:
        """The same operation on each part."""
        counts = {len(a) for a in args if isinstance(a, tuple)}
        if len(counts) > 1:
            raise Unsupported("parts of different numbers")
        if not counts:
            return rebuild(node, [a for a in args if isinstance(a, Expr)])
        (count,) = counts
        each = ([a[k] if isinstance(a, tuple) else a for a in args] for k in range(count))
        return tuple(ex.ZERO if own[0] is ex.ZERO and node.op in _OF_ZERO else rebuild(node, own) for own in each)

    def _chunk(self, node: Expr, args: Sequence[Parted]) -> Parted:
        parts, count = self._cut(node, args[0]), node["chunks"]
        if len(parts) % count:
            raise Unsupported(node.op)
        length = len(parts) // count
        return self._one(parts[node["index"] * length : (node["index"] + 1) * length])

    def _chunk_back(self, node: Expr, args: Sequence[Parted]) -> Parted:
        own = self._parts(args[0])
        self._cut(node, args[1])
        return self._among(node, own, node["index"] * len(own), len(own) * node["chunks"])

    def _slice(self, node: Expr, args: Sequence[Parted]) -> Parted:
        parts = self._cut(node, args[0])
        start, stop = self._bounds(node, node.args[0], len(parts))
        return self._one(parts[start:stop])

    def _slice_back(self, node: Expr, args: Sequence[Parted]) -> Parted:
        count = len(self._cut(node, args[1]))
        start, _ = self._bounds(node, node.args[1], count)
        return self._among(node, self._parts(args[0]), start, count)

    def _bounds(self, node: Expr, of: Expr, count: int) -> tuple[int, int]:
        """The bounds of a slice in parts."""
        unit = self._own.unit
        if not isinstance(unit, int) or node["step"] != 1:
            raise Unsupported(node.op)
        bounds = range(unit * count)[node["start"] : node["stop"]]
        if bounds.start % unit or bounds.stop % unit or len(bounds) == 0:
            raise Unsupported(node.op)
        return bounds.start // unit, bounds.stop // unit

    def _cat(self, node: Expr, args: Sequence[Parted]) -> Parted:
        self._require_own(node)
        sizes = [extent(a).dims[self._own.dim :][:1] for a in node.args]  # empty where it is that of a cotangent
        single = {size for size, a in zip(sizes, args, strict=True) if size and not isinstance(a, tuple)}
        if len(single) > 1 or (single & {(1,)} and not self._own.single):
            raise Unsupported("a join of what broadcasts")
        return self._one([part for a in args for part in self._parts(a)])

    def _part(self, node: Expr, args: Sequence[Parted]) -> Parted:
        parts, counts = self._cut(node, args[0]), [len(self._parts(a)) for a in args[1:]]
        start = sum(counts[: node["index"]])
        if sum(counts) != len(parts):
            raise Unsupported(node.op)
        return self._one(parts[start : start + counts[node["index"]]])

    def _roll(self, node: Expr, args: Sequence[Parted]) -> Parted:
        parts, unit = self._cut(node, args[0]), self._own.unit
        (shift,) = node["shifts"]
        if not isinstance(unit, int) or shift % unit:
            raise Unsupported(node.op)
        start = -shift // unit % len(parts)
        return (*parts[start:], *parts[:start])

    def _cut(self, node: Expr, value: Parted) -> tuple[Expr, ...]:
        """The parts of what an operation divides."""
        self._require_own(node)
        if not isinstance(value, tuple):
            raise Unsupported(node.op)
        return value

    def _require_own(self, node: Expr) -> None:
        if any(a in self._moved for a in node.args) or _dim(node, self._own.called, self._own.dim) != self._own.dim:
            raise Unsupported(SEVERAL)

    @staticmethod
    def _parts(value: Parted) -> tuple[Expr, ...]:
        return value if isinstance(value, tuple) else (value,)

    @staticmethod
    def _among(node: Expr, own: Sequence[Expr], start: int, count: int) -> Parted:
        """Parts among zeros."""
        if start + len(own) > count:
            raise Unsupported(node.op)
        return (*[ex.ZERO] * start, *own, *[ex.ZERO] * (count - start - len(own)))

    def _sum_to(self, node: Expr, args: Sequence[Parted]) -> Parted:
        value, like = args
        if isinstance(value, tuple) and not isinstance(like, tuple):
            if node.args[0] in self._moved:
                raise Unsupported(SEVERAL)
            return rebuild(node, [ex.add(*value), like])
        return self._each(node, args)

    def _restore(self, node: Expr, args: Sequence[Parted]) -> Parted:
        value, of = args
        return self._each(node, [value, self._parts(of)[0]])

    def _reduction(self, node: Expr, args: Sequence[Parted]) -> Parted:
        """What is reduced over all parts, or over other dimensions of each."""
        (value,) = args
        if not (isinstance(value, tuple) and self._reduces(node)):
            return self._each(node, args)
        if node.op == "norm" and node["p"] == 2:
            squares = ex.add(*(v**2 for v in value))
            return ex.sqrt(make("sum", squares, dim=node["dim"], keepdim=node["keepdim"]))
        if node.op in _LARGEST:
            return rebuild(node, [reduce(partial(make, _LARGEST[node.op]), value)])
        if node.op not in ("sum", "mean"):
            raise Unsupported(f"{node.op} over parts")
        return rebuild(node, [ex.add(*value)]) / (len(value) if node.op == "mean" else 1)

    def _count(self, node: Expr, args: Sequence[Parted]) -> Parted:
        (value,) = args
        if isinstance(value, tuple) and self._reduces(node):
            return len(value) * rebuild(node, [value[0]])
        return rebuild(node, [self._parts(value)[0]])

    def _reduces(self, node: Expr) -> bool:
        """Whether a reduction is over the dimension of which there are parts, too."""
        if node["dim"] is None:
            return True
        return self._moved.get(node.args[0], self._own.dim) in self._places(node)

    def _places(self, node: Expr) -> tuple[int, ...]:
        """The dimensions of an operation, counted from the end."""
        dims = node["dim"] if isinstance(node["dim"], tuple) else (node["dim"],)
        if any(not isinstance(d, int) or (d >= 0 and self.rank is None) for d in dims):
            raise Unsupported(NOT_LAST)
        return tuple(d if d < 0 else d - (self.rank or 0) for d in dims)


# What makes 0 of a part that is 0.
_OF_ZERO = frozenset(
    {"sum", "mean", "amax", "amin", "norm", "sum_to", "expand", "restore", "drop", "squeeze", "unsqueeze"}
)
_RULES: dict[str, Callable[[Parts, Expr, Sequence[Parted]], Parted]] = {
    "chunk": Parts._chunk,
    "chunk_back": Parts._chunk_back,
    "slice": Parts._slice,
    "slice_back": Parts._slice_back,
    "cat": Parts._cat,
    "part": Parts._part,
    "roll": Parts._roll,
    "expand": Parts._each,
    "sum_to": Parts._sum_to,
    "restore": Parts._restore,
    "drop": Parts._each,
    "squeeze": Parts._each,
    "held": Parts._each,
    "boundary": Parts._each,
    "detach": Parts._each,
    "unsqueeze": Parts._each,
    "count": Parts._count,
    **dict.fromkeys(OF_ROWS, Parts._reduction),
}
