"""Neighbours that are pairs: every other element of the last dimension, or that dimension as two.

`x[..., ::2]`, `unflatten(x, -1, P, 2)[..., 0]` and `flatten(stack([a, b], -1), -2)` take and join parts too: the first
elements of all pairs, and the second ones. A value is flat, or has the two of each pair in a dimension of their own
after that of the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.extent import SCALAR, Dim, extent
from symgrad.ops.tensors.sizes import divided, number_of, share
from symgrad.targets.fused.parts import Grid, Parted, Parts, grid
from symgrad.targets.fused.terms import Unsupported

__all__ = ["Pairs", "parts_of"]

_APART = ("expand", "sum_to", "held", "boundary", "detach")  # what works on pairs as on anything else


def parts_of(formulas: Sequence[Expr], rank: int | None) -> Parts:
    """How formulas divide a dimension, if they do. Raises Unsupported."""
    return _pairs(formulas) or Parts(grid(formulas), rank)


def _pairs(formulas: Iterable[Expr]) -> Pairs | None:
    """The parts that pairs have; None where there are no pairs."""
    numbers: list[Dim] = []
    order = topological(*formulas)
    for node in order:
        dims = extent(node.args[0]).dims if node.args else ()
        if node.op == "unflatten" and len(node.args) == 3 and node.args[2].number == 2 and dims:
            numbers += [divided(dims[-1], 2), number_of(node.args[1])]
        elif node.op == "slice" and node["step"] == 2 and dims:
            numbers.append(divided(dims[-1], 2))
        elif node.op == "flatten" and len(dims) > 1:
            numbers.append(dims[-2])
    if not any(n.op in ("unflatten", "flatten") or (n.op == "slice" and n["step"] == 2) for n in order):
        return None
    if not numbers or any(isinstance(n, int) and n < 2 for n in numbers):
        raise Unsupported("parts of one element")
    known = [extent(n) for n in order if n.op == "sym" and n.tensors]  # other values may have a dimension more
    rank = max(len(e.dims) for e in known) if all(e.exact for e in known) else None
    return Pairs(Grid(-1, numbers[0], frozenset({-1}), pairs=True), rank, units=frozenset(numbers))


@dataclass
class Pairs(Parts):
    """Rewrites formulas into those of the first and of the second of all pairs.

    `units` are the names of their number. Of a value in `_apart` the pairs have a dimension of their own; one in
    `_taken` has an element for each pair, whatever is known of its shape.
    """

    units: frozenset[Dim] = frozenset()
    _apart: set[Expr] = field(default_factory=set)
    _taken: set[Expr] = field(default_factory=set)

    def again(self, known: dict[Expr, Expr]) -> Parts:
        """The same where formulas are made of what is saved."""
        return Pairs(self.grid, self.rank, self.lengths, known, self.origin, units=self.units)

    def _lower(self, node: Expr) -> Parted:
        if node in self.known or not node.args:
            return super()._lower(node)
        args = [self._done[a] for a in node.args]
        rule = _RULES.get(node.op)
        found = None if rule is None else rule(self, node, args)
        if found is not None:
            return found
        read = [a for a in node.args if not a.is_static and extent(a) != SCALAR]
        apart = {a in self._apart for a in read}
        if True not in apart:
            lowered = super()._lower(node)
            if (node.op not in TENSOR_OPS or node.op in _APART) and not self._taken.isdisjoint(node.args):
                self._taken.add(node)
            return lowered
        if len(apart) > 1 or (node.op in TENSOR_OPS and node.op not in _APART):
            raise Unsupported(node.op)
        self._apart.add(node)
        return self._sum_to(node, args) if node.op == "sum_to" else self._each(node, args)

    def _is_of_pairs(self, value: Expr) -> bool:
        """Whether a flat value has one element for each pair."""
        dims = extent(value).dims
        if value in self._apart or isinstance(self._done[value], tuple):
            return False
        if value in self._taken or not dims:
            return value in self._taken
        size = dims[-1]
        known = size[1] if isinstance(size, tuple) and size[0] == "broadcast" else {size}
        return any(n in self.units or share(n, self._own.unit) == 1 for n in known)

    def _set_apart(self, node: Expr, found: Parted) -> Parted:
        self._apart.add(node)
        return found

    def _divided(self, node: Expr, args: Sequence[Parted]) -> Parted | None:
        if len(node.args) != 3 or node.args[2].number != 2 or node["dim"] != -1 or not isinstance(args[0], tuple):
            raise Unsupported(node.op)
        return self._set_apart(node, args[0])

    def _joined(self, node: Expr, args: Sequence[Parted]) -> Parted | None:
        if node.args[0] not in self._apart or not isinstance(args[0], tuple) or node["start_dim"] != -2:
            raise Unsupported(node.op)
        return args[0]

    def _reshaped(self, node: Expr, args: Sequence[Parted]) -> Parted | None:
        value, like = args
        if not (isinstance(value, tuple) and isinstance(like, tuple)):
            raise Unsupported(node.op)
        return self._set_apart(node, value) if node.args[1] in self._apart else value

    def _take(self, node: Expr, args: Sequence[Parted]) -> Parted | None:
        place = self._place(node, node.args[0])
        if not isinstance(args[0], tuple):
            raise Unsupported(node.op)
        (self._apart if node.args[0] in self._apart else self._taken).add(node)
        return args[0][place]

    def _put(self, node: Expr, args: Sequence[Parted]) -> Parted | None:
        value, place = args[0], self._place(node, node.args[1])
        if isinstance(value, tuple):
            raise Unsupported(node.op)
        found = (value, ex.ZERO) if place == 0 else (ex.ZERO, value)
        return self._set_apart(node, found) if node.args[1] in self._apart else found

    def _place(self, node: Expr, of: Expr) -> int:
        """Which of each pair a slice takes."""
        start, stop, step = node["start"], node["stop"], node["step"]
        if node["dim"] != -1:
            raise Unsupported(node.op)
        if of in self._apart:
            places = range(2)[start:stop:step]
            if len(places) == 1:
                return places[0]
        elif step == 2 and start in (0, 1) and stop is None:
            return int(start)
        raise Unsupported(node.op)

    def _with_place(self, node: Expr, args: Sequence[Parted]) -> Parted | None:
        """A dimension of size 1 after that of the pairs."""
        (value,) = args
        if -1 not in node["dim"] or not self._is_of_pairs(node.args[0]) or isinstance(value, tuple):
            return None
        if node["dim"] != (-1,):
            raise Unsupported(node.op)
        return self._set_apart(node, value)

    def _without_place(self, node: Expr, args: Sequence[Parted]) -> Parted | None:
        if node.args[0] not in self._apart:
            return None
        if node["dim"] != (-1,) or isinstance(args[0], tuple):
            raise Unsupported(node.op)
        self._taken.add(node)
        return args[0]

    def _stacked(self, node: Expr, args: Sequence[Parted]) -> Parted | None:
        if node["dim"] != -1 or len(args) != 2 or not all(a in self._apart for a in node.args):
            raise Unsupported(node.op)
        first, second = args
        if isinstance(first, tuple) or isinstance(second, tuple):
            raise Unsupported(node.op)
        return self._set_apart(node, (first, second))


def _refused(parts: Pairs, node: Expr, args: Sequence[Parted]) -> Parted | None:
    raise Unsupported(node.op)


_RULES: dict[str, Callable[[Pairs, Expr, Sequence[Parted]], Parted | None]] = {
    "unflatten": Pairs._divided,
    "flatten": Pairs._joined,
    "reshape_as": Pairs._reshaped,
    "slice": Pairs._take,
    "slice_back": Pairs._put,
    "unsqueeze": Pairs._with_place,
    "squeeze": Pairs._without_place,
    "cat": Pairs._stacked,
    **dict.fromkeys(("chunk", "chunk_back", "part", "roll"), _refused),
}
