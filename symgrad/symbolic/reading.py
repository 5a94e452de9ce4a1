"""Formulas and their derivatives as elements of the field (`field.py`), node by node of the DAG.

Sums, products, powers, exponentials and logarithms are differentiated by the rules of a differential field, every other
function by SymPy; the chain rule puts these together, so that what a formula shares is read once. None of it is the
table of derivatives that is judged. SymPy is imported where a function needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

from symgrad.accuracy.widening import DOUBLE, SINGLE, WIDEN
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.symbolic.field import Field
from symgrad.symbolic.functions import SympyReader
from symgrad.symbolic.rational_functions import Element, Undecided

__all__ = ["is_zero"]

Values = Callable[["Expr | None"], Sequence[Any]]
"""The values of a symbol at the points that decide signs; of None, zeros."""

_SAME = frozenset({"held", "floated", WIDEN, DOUBLE, SINGLE})


def is_zero(formula: Expr, emitted: Expr, values: Values, by: Expr | None = None, factor: Expr = ex.ONE) -> bool:
    """Whether `formula`, or with `by` its derivative times `factor`, less `emitted` is 0, which is a proof.

    Raises Undecided where it is too large, or has a part that is no function of a real number.
    """
    field = Field(values)

    def difference() -> Element:
        reader = _Reader(field)
        if by is None:
            return field.difference(reader.value(formula), reader.value(emitted))
        slope = reader.slope(formula, by)
        weighted = field.zero if slope is None else field.product(slope, reader.value(factor))
        return field.difference(weighted, reader.value(emitted))

    return field.vanishes(difference)


class _Reader:
    """Elements of one field by the nodes that they are the values of."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._of_sympy = SympyReader(field)
        self._values: dict[Expr, Element | int] = {}  # numbers: signs of what is infinite
        self._slopes: dict[Expr, Element | None] = {}
        self._opened: dict[Expr, Expr] = {}
        self._in_sympy: dict[Expr, tuple[Any, dict[Expr, Any]]] = {}

    def value(self, root: Expr) -> Element:
        """The value of a formula. Raises Undecided where it is infinite."""
        for node in topological(root, leaves=self._values.keys()):
            if node not in self._values and not node.is_boolean:
                found = self._read(node)
                self._values[node] = found if isinstance(found, int) else self._field.reduced(found)
        result = self._values[root]
        if isinstance(result, int):
            raise Undecided("it is infinite")
        return result

    def slope(self, root: Expr, by: Expr) -> Element | None:
        """The derivative of a formula; None where it is 0."""
        self.value(root)
        for node in topological(root, leaves=self._slopes.keys()):
            if node not in self._slopes and not node.is_boolean:
                is_constant = by not in node.symbols or isinstance(self._values[node], int)
                found = None if is_constant else self._derived(node, by)
                self._slopes[node] = None if found is None else self._field.reduced(found)
        return self._slopes[root]

    # ------------------------------------------------------------------------------------------ values
    def _read(self, node: Expr) -> Element | int:
        op, field = node.op, self._field
        if node.number is not None:
            return field.constant(node.number)
        if op == "sym":
            return field.generator(("symbol", node))
        if op == "const":
            return 1 if node is ex.OO else field.named(node["name"])
        if op == "where":
            return self.value(self._branch(node))
        if any(isinstance(self._values.get(a), int) for a in node.args):
            return self._infinite(node)
        args = [self.value(a) for a in node.args]
        if op in ("add", "mul"):
            return reduce(field.sum if op == "add" else field.product, args)
        if op == "pow":
            return field.power(args[0], args[1], node.args[1].number)
        if op in _ARITHMETIC:
            return _ARITHMETIC[op](field, *args)
        if op in _SAME:
            return args[0]
        opened = self._open(node)
        if opened is not None:
            return self.value(opened)
        expression, holes = self._sympy(node)
        return self._of_sympy(expression, {hole: self.value(a) for a, hole in holes.items()})

    def _infinite(self, node: Expr) -> Element | int:
        """The value of a node of whose arguments some are infinite."""
        field = self._field
        args = [self._values[a] for a in node.args]
        signs = [a if isinstance(a, int) else field.sign(a) for a in args] if node.op == "mul" else []
        ways = {a for a in args if isinstance(a, int)}
        power = node.args[1].number if node.op == "pow" else None
        if node.op == "add" and len(ways) == 1:
            return ways.pop()
        if node.op == "mul":
            return math.prod(signs)
        if node.op == "exp":
            return 1 if ways == {1} else field.zero
        if power is not None and power < 0:
            return field.zero
        opened = self._open(node)
        if opened is not None:
            return self.value(opened)
        raise Undecided("a part is infinite")

    def _branch(self, node: Expr) -> Expr:
        """The branch of a choice that is taken but at single points, where something is 0 that is not so everywhere."""
        condition, *branches = node.args
        if condition.op not in ("eq", "ne"):
            raise Undecided("a choice that is not open")
        left, right = map(self.value, condition.args)
        same = self._field.difference(left, right).over == 0
        return branches[0 if same == (condition.op == "eq") else 1]

    def _open(self, node: Expr) -> Expr | None:
        """A function by its definition, where SymPy has no class for it."""
        row = FUNCTIONS.get(node.op)
        if row is None or row.opened is None or row.sympy or row.in_sympy is not None:
            return None
        if node not in self._opened:
            self._opened[node] = row.opened(*node.args)
        return self._opened[node]

    def _sympy(self, node: Expr) -> tuple[Any, dict[Expr, Any]]:
        """A function as SymPy's of symbols that stand for the arguments; those without symbols are what they are."""
        from sympy import Dummy

        from symgrad.symbolic.to_sympy import to_sympy

        if node not in self._in_sympy:
            holes = {a: Dummy(real=True) for a in node.args if a.symbols}
            self._in_sympy[node] = self._of_sympy.opened(to_sympy(node, holes)), holes
        return self._in_sympy[node]

    # ------------------------------------------------------------------------------------------ derivatives
    def _derived(self, node: Expr, by: Expr) -> Element | None:
        op, field = node.op, self._field
        if node is by:
            return field.one
        if op == "where":
            return self.slope(self._branch(node), by)
        slopes = [self._slopes[a] for a in node.args]
        if not any(slopes):  # as of exp(x - oo)
            return None
        args = [self.value(a) for a in node.args]
        if op == "mul":
            before = list(accumulate(args, field.product, initial=field.one))
            after = list(accumulate(reversed(args), field.product, initial=field.one))[::-1]
            return self._total(slopes, lambda k: field.product(before[k], after[k + 1]))
        if op == "pow":
            return self._of_power(node, args, slopes)
        if op in _SLOPES:
            return self._total(slopes, lambda k: _SLOPES[op](field, k, *args))
        opened = self._open(node)
        if opened is not None:
            return self.slope(opened, by)
        import sympy

        expression, holes = self._sympy(node)
        bound = {hole: self.value(a) for a, hole in holes.items()}

        def partial(k: int) -> Element:
            hole = holes[node.args[k]]
            if hole in seen:  # an argument that stands twice has its share in one derivative
                return field.zero
            seen.add(hole)
            return self._of_sympy(sympy.diff(expression, hole), bound)

        seen: set[Any] = set()
        return self._total(slopes, partial)

    def _of_power(self, node: Expr, args: Sequence[Element], slopes: Sequence[Element | None]) -> Element | None:
        field = self._field
        base, exponent = args
        number = node.args[1].number

        def partial(k: int) -> Element:
            if k == 0:
                below = None if number is None else number - 1
                lowered = field.power(base, field.difference(exponent, field.one), below)
                return field.product(exponent, lowered)
            return field.product(self.value(node), field.log(base))

        return self._total(slopes, partial)

    def _total(self, slopes: Sequence[Element | None], partial: Callable[[int], Element]) -> Element | None:
        """The chain rule."""
        field = self._field
        terms = [field.product(field.reduced(partial(k)), s) for k, s in enumerate(slopes) if s is not None]
        return reduce(field.sum, terms) if terms else None


def _sign(field: Field, a: Element) -> Element:
    return field.constant(field.sign(a))


_ARITHMETIC: dict[str, Callable[..., Element]] = {
    "sub": lambda field, a, b: field.difference(a, b),
    "div": lambda field, a, b: field.product(a, field.inverse(b)),
    "neg": lambda field, a: field.negative(a),
    "exp": lambda field, a: field.exp(a),
    "log": lambda field, a: field.log(a),
    "abs": lambda field, a: field.product(a, _sign(field, a)),
    "sign": _sign,
}

# The derivative by the argument of number `k`.
_SLOPES: dict[str, Callable[..., Element]] = {
    **dict.fromkeys(("add", *_SAME), lambda field, k, *args: field.one),
    "sub": lambda field, k, a, b: field.negative(field.one) if k else field.one,
    "div": lambda field, k, a, b: (
        field.negative(field.product(a, field.inverse(field.product(b, b)))) if k else field.inverse(b)
    ),
    "neg": lambda field, k, a: field.negative(field.one),
    "exp": lambda field, k, a: field.exp(a),
    "log": lambda field, k, a: field.inverse(a),
    "abs": lambda field, k, a: _sign(field, a),
    "sign": lambda field, k, a: field.zero,
}
