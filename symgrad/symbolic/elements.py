"""Whole tensors at small explicit sizes: every operation written out in formulas of elements.

So what is said of tensors becomes claims about pointwise formulas, which the judge understands: a maximum along a
dimension is a nested `maximum`, a matrix product sums of products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from symgrad.accuracy.evaluate import Environment, Exact
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.row import Ref
from symgrad.symbolic.element_rules import DECIDED, RULES, mean_of_windows, of_numbers
from symgrad.symbolic.moves import BACK, MOVES, ORDERS, array_of, put_back, taken
from symgrad.symbolic.rational_functions import Undecided

if TYPE_CHECKING:
    import numpy

__all__ = ["RANDOM_BITS", "Elements", "NeedsPoint", "symbols_of"]

RANDOM_BITS = "random bits"  # no name of a tensor
_ONE_PLACE = ("max", "min", "median")  # operations whose indices have one element along the dimension


def symbols_of(name: str, shape: tuple[int, ...], kind: str) -> numpy.ndarray:
    """A symbol for each element of a tensor."""
    found: numpy.ndarray = array_of(shape, lambda place: ex.symbol("_".join([name, *map(str, place)]), kind))
    return found


class NeedsPoint(Undecided):
    """What an operation does depends on numbers: on an order, or on which elements are picked."""


class Elements:
    """Formulas of all elements: `tensors` gives those of each tensor, `values` those of hyperparameters by name.

    `point` gives the numbers that decide orders and indices. What is detached is made of the `detached` symbols that
    stand for others, where these are given: a derivative leaves them alone.
    """

    def __init__(
        self,
        tensors: Mapping[Expr, numpy.ndarray],
        values: Mapping[str, Any],
        point: Environment | None = None,
        detached: Mapping[Expr, Expr] | None = None,
    ) -> None:
        self._detached = detached or {}
        self._known: dict[Expr, Any] = dict(tensors)
        self._values = values
        self._point = point

    def __call__(self, root: Expr) -> numpy.ndarray:
        """The elements of a value, as an array of formulas.

        Raises NeedsPoint where numbers decide and there is no point, Undecided for an operation that is not known.
        """
        for node in topological(root, leaves=self._known.keys()):
            if node not in self._known:
                self._known[node] = self._array(node, [self._known[a] for a in node.args])
        found: numpy.ndarray = self._known[root]
        return found

    def _array(self, node: Expr, args: list[Any]) -> Any:
        import numpy as np

        if not node.args:
            return array_of((), lambda place: node)
        if node.op == "random_bits":
            return _random_bits(node, args[0].shape)
        if node.op in ("held", "floated", "boundary", "detach"):
            kept = self._detached if node.op == "detach" else {}
            return array_of(args[0].shape, lambda place: substitute(args[0][place], kept)) if kept else args[0]
        if node.op not in TENSOR_OPS:
            grid = np.broadcast_arrays(*args)
            return array_of(grid[0].shape, lambda place: rebuild(node, [a[place] for a in grid]))
        found = self._tensor(np, node, self._attributes(node), args)
        if isinstance(found, np.ndarray):
            return found
        return array_of((), lambda place: ex.num(found) if isinstance(found, int) else found)

    def _tensor(self, np: Any, node: Expr, attributes: dict[str, Any], args: list[Any]) -> Any:
        """What a row makes of the elements of its operands."""
        if (written := TENSOR_OPS[node.op].opened) is not None:
            return self(written(node))
        if node.op in RULES:
            return RULES[node.op](np, attributes, *args)
        if node.op in DECIDED:
            return DECIDED[node.op](np, attributes, *args, self._numbers)
        if node.op in MOVES:
            grid = np.arange(args[0].size).reshape(args[0].shape)
            places = MOVES[node.op](np, attributes, grid, *map(self._integers, args[1:]))
            return mean_of_windows(taken(args[0], places)) if "pool" in node.op else taken(args[0], places)
        if node.op in BACK:
            value, *indices, like = args
            grid = np.arange(like.size).reshape(like.shape)
            places = MOVES[BACK[node.op]](np, attributes, grid, *map(self._integers, indices))
            if "pool" in node.op:
                value = value[..., None] / ex.num(places.shape[-1])
            return put_back(np, value, places, like.shape)
        name, _, field = node.op.partition("_")
        if name in ORDERS and field in ("values", "indices"):
            x = args[0]
            found = ORDERS[name](np, attributes, self._numbers(x))
            if field == "indices":
                return of_numbers(found)
            dropped = name in _ONE_PLACE and not attributes.get("keepdim")
            index = np.expand_dims(found, attributes["dim"]) if dropped else found
            values = np.take_along_axis(x, index, attributes["dim"])
            return np.squeeze(values, attributes["dim"]) if dropped else values
        raise Undecided(f"{node.op} is not written out in elements")

    def _numbers(self, array: Any) -> Any:
        """The values of elements at the point; numbers have one anyway."""
        import numpy as np

        found = np.empty(array.shape)
        exact = Exact([self._point or {}], 200)
        for place, value in np.ndenumerate(array):
            if value.symbols and self._point is None:
                raise NeedsPoint("an order of elements, or which of them are picked")
            found[place] = float(exact(value)[0])
        return found

    def _integers(self, array: Any) -> Any:
        return self._numbers(array).astype(int)

    def _attributes(self, node: Expr) -> dict[str, Any]:
        def value(given: Any) -> Any:
            if isinstance(given, Ref):
                return self._values[given.name]
            if isinstance(given, Expr):
                return int(self._numbers(self(given)))
            return tuple(map(value, given)) if isinstance(given, tuple) else given

        return {name: value(given) for name, given in node.attrs}


def _random_bits(node: Expr, shape: tuple[int, ...]) -> Any:
    """Symbols of their own for what is drawn: one seed draws the same everywhere."""
    draw = int.from_bytes(node.digest[:6], "big")
    return symbols_of(f"{RANDOM_BITS}_{draw}", shape, "int_tensor")
