"""Sizes for tensors of which the spec does not declare them: some that every operation of the formulas accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import floor
from typing import Any, TypeAlias

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, num
from symgrad.ir.traversal import rebuild, substitute, topological, transform
from symgrad.ops.tensors import TENSOR_OPS, Ref
from symgrad.ops.tensors.extent import SCALAR, Extent, ShapeConflict, broadcast

Given: TypeAlias = "Mapping[Expr, tuple[int, ...]]"
"""Shapes of tensor symbols."""

_OF_SOME = frozenset({"mean", "var", "amax", "amin"})  # which no elements have
_MOST_TRIES = 30_000
_MOST_CHANGES = 3  # of named dimensions at once
_SIZES = (2, 3, 4, 6, 8, 1)


class Fitting:
    """Which shapes the formulas accept, with each of some values of the hyperparameters."""

    def __init__(self, formulas: Sequence[Expr], values: Sequence[Mapping[str, Any]]) -> None:
        roots = [_with_values(f, v) for v in values or ({},) for f in formulas]
        self._nodes = [n for n in dict.fromkeys(topological(*roots)) if n.op != "sym"]
        self._tries = 0

    def conflict(self, shapes: Given, *, may_be_empty: bool = False) -> str | None:
        """Why tensors cannot have these shapes, as far as they are given; None if they can.

        A mean, a variance or an extremum of slices that leave no element is a reason too, unless they `may_be_empty`.
        """
        self._tries += 1
        may_be_empty |= any(0 in shape for shape in shapes.values())
        known: dict[Expr, Extent] = {symbol: Extent(shape) for symbol, shape in shapes.items()}
        try:
            for node in self._nodes:
                if node.is_static:
                    known[node] = SCALAR
                    continue
                sized = _sized(node, shapes)
                there = [a for a in sized.args if a in known or a.is_static]
                operands = tuple(known.get(a, SCALAR) for a in there)
                if node.op in _OF_SOME and there and 0 in operands[0].dims and not may_be_empty:
                    return f"a {node.op} of nothing"
                if len(there) == len(node.args):
                    known[node] = _result(sized, operands)
                elif len(there) >= _required(node) and there == [*sized.args[: len(there)]]:
                    _result(sized, operands)
        except ShapeConflict as conflict:
            return str(conflict)
        return None

    def shapes(self, declared: Given, free: Sequence[Expr]) -> Given | None:
        """Shapes of all tensors, those of some being given; None where none is found."""
        if self._tries > _MOST_TRIES or self.conflict(declared):
            return None
        if not free:
            return declared
        for shape in _candidates(frozenset(size for known in declared.values() for size in known)):
            found = self.shapes({**declared, free[0]: shape}, free[1:])
            if found is not None:
                return found
        return None


def sizes(base: Mapping[str, int], more: Iterable[int] = ()) -> Iterator[dict[str, int]]:
    """Sizes of named dimensions: as they are, then with few of them changed, to some sizes and `more`."""
    tried = tuple(dict.fromkeys((*_SIZES, *more)))
    for changes in range(min(len(base), _MOST_CHANGES) + 1):
        for names in combinations(base, changes):
            for others in product(tried, repeat=changes):
                yield {**base, **dict(zip(names, others, strict=True))}


def _candidates(there: frozenset[int]) -> Iterator[tuple[int, ...]]:
    """Shapes to try, also of sizes that other tensors have; those of different sizes tell most."""
    more = tuple(sorted(there - {1, 2, 3, 4}))
    for rank in (2, 1, 3, 0, 4):
        sizes = (2, 3, 4, *more, 1) if rank < 4 else (2, 3, 4)
        yield from sorted(product(sizes, repeat=rank), key=lambda shape: (1 in shape, -len(set(shape))))


def _with_values(root: Expr, values: Mapping[str, Any]) -> Expr:
    """A formula whose attributes, and operands that are numbers, are what they are with some hyperparameters."""
    numbers = {s: num(v) for s in root.symbols if isinstance(v := values.get(s.name), int) and s["kind"] == "int"}

    def valued(attribute: Any) -> Any:
        if isinstance(attribute, tuple):
            return tuple(valued(a) for a in attribute)
        return values.get(attribute.name, attribute) if isinstance(attribute, Ref) else attribute

    mapped: dict[Expr, Expr] = {}
    for node in topological(root):
        args = [mapped[a] for a in node.args]
        if node.op in TENSOR_OPS:
            row = TENSOR_OPS[node.op]
            args = [substitute(a, numbers) if k in row.numbers else a for k, a in enumerate(args)]
            mapped[node] = ex.make(node.op, *args, **{name: valued(a) for name, a in node.attrs})
        else:
            mapped[node] = rebuild(node, args)
    return mapped[root]


def with_sizes(value: Expr, shapes: Mapping[Expr, tuple[int, ...]]) -> Expr:
    """What is made of sizes with numbers for those that shapes tell. Raises ShapeConflict where one has too few."""
    counts = [n for n in topological(value) if n.op == "count" and n.args[0] in shapes]
    single = [n for n in counts if isinstance(n["dim"], tuple) and len(n["dim"]) == 1]
    for node in single:
        rank, dim = len(shapes[node.args[0]]), node["dim"][0]
        if not -rank <= dim < rank:
            raise ShapeConflict(f"there is no dimension {dim} in {Extent(shapes[node.args[0]])}")
    found = substitute(value, {n: num(shapes[n.args[0]][n["dim"][0]]) for n in single})
    return transform(found, _rounded) if single else found


def _rounded(node: Expr) -> Expr:
    number = node.args[0].number if node.op == "floor" else None
    return node if number is None else num(floor(number))


def _sized(node: Expr, shapes: Given) -> Expr:
    """The node with numbers for the sizes among its operands that shapes tell."""
    row = TENSOR_OPS.get(node.op)
    if row is None:
        return node

    def valued(attribute: Any) -> Any:
        if isinstance(attribute, tuple):
            return tuple(map(valued, attribute))
        return int(with_sizes(attribute, shapes).number or 0) if isinstance(attribute, Expr) else attribute

    args = [with_sizes(a, shapes) if k in row.numbers else a for k, a in enumerate(node.args)]
    return ex.make(node.op, *args, **{name: valued(a) for name, a in node.attrs})


def _required(node: Expr) -> int:
    """How many operands suffice to tell that they do not fit."""
    row = TENSOR_OPS.get(node.op)
    return len(node.args) if row is None or not row.optional else len(row.operands) - row.optional


def _result(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    row = TENSOR_OPS.get(node.op)
    if row is None:
        return operands[1] if node.op == "where" and node.args[0].is_static else broadcast(operands)
    if row.extent is not None:
        return row.extent(node, operands)
    return operands[row.shape_of or 0]
