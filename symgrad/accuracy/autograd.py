"""What torch's autograd makes of a formula as written, in a floating-point format: reverse mode, node by node.

Each operation is rounded as in `simulate.py`, and pulls its cotangent back by the formula that torch uses for it. So
derivatives that overflow, cancel or are NaN there are so here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from symgrad.accuracy.evaluate import Environment, Format
from symgrad.accuracy.machine import machine, machine_form
from symgrad.accuracy.simulate import Simulation
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS

__all__ = ["Autograd"]

_COTANGENT, _RESULT = symbol("cotangent"), symbol("result")


class Autograd:
    """The derivatives of a pointwise formula at points, as autograd computes them in a format."""

    def __init__(self, formula: Expr, points: Sequence[Environment], target: Format) -> None:
        self._target = target
        self._forward = Simulation(points, target)
        (self._root,) = machine([formula])
        self._adjoints = self._pulled(len(points))

    def __call__(self, by: Expr) -> list[float]:
        """The derivative by a tensor at each point, 0 where the formula does not depend on it."""
        return self._adjoints.get(by) or [0.0] * len(self._forward.points)

    def _pulled(self, count: int) -> dict[Expr, list[float]]:
        self._forward(self._root)
        found: dict[Expr, list[float]] = {self._root: [1.0] * count}
        for node in reversed(topological(self._root)):
            if node in found and node.args and node.tensors:
                for argument, column in self._to_operands(node, found[node]):
                    before = found.get(argument)
                    if before is not None:
                        column = [self._target.round(a + b) for a, b in zip(before, column, strict=True)]
                    found[argument] = column
        return found

    def _to_operands(self, node: Expr, cotangent: list[float]) -> list[tuple[Expr, list[float]]]:
        holes = [_hole(k, a) for k, a in enumerate(node.args)]
        values = [self._forward(a) for a in node.args]
        rows = zip(cotangent, self._forward(node), *values, strict=True)
        points = [dict(zip((_COTANGENT, _RESULT, *holes), row, strict=True)) for row in rows]
        pull = Simulation(points, self._target)
        parts = zip(node.args, _pull(node, holes), strict=True)
        return [(a, pull(machine_form(part))) for a, part in parts if part is not None and a.tensors]


def _hole(k: int, operand: Expr) -> Expr:
    """A symbol for an operand; a constant stays what it is, for exponents are powers by their value."""
    if operand.is_static and not operand.symbols:
        return operand
    return symbol(f"operand{k}", "bool_tensor" if operand.is_boolean else "tensor")


def _pull(node: Expr, holes: Sequence[Expr]) -> Sequence[Expr | None]:
    """What each operand gets of the cotangent."""
    rule = _RULES.get(node.op)
    if rule is not None:
        return rule(_COTANGENT, _RESULT, *holes)
    row = FUNCTIONS.get(node.op)
    if row is not None and row.partials is not None:
        return [_COTANGENT * partial for partial in row.partials(*holes)]
    return [_COTANGENT if len(node.args) == 1 else None, *(None for _ in node.args[1:])]


def _power(g: Expr, y: Expr, x: Expr, p: Expr) -> Sequence[Expr]:
    if p is ex.HALF:
        return g / (2 * y), ex.ZERO
    base = g * (p * ex.power(x, p - 1))
    return base, ex.ZERO if not p.symbols else g * (y * make("log", x))


def _extremum(op: str) -> Callable[..., Sequence[Expr]]:
    def rule(g: Expr, y: Expr, a: Expr, b: Expr) -> Sequence[Expr]:
        tied = make("where", make("eq", a, b), g / 2, ex.ZERO)
        return make("where", make(op, a, b), g, tied), make("where", make(op, b, a), g, tied)

    return rule


_RULES: Mapping[str, Callable[..., Sequence[Any]]] = {
    "add": lambda g, y, *args: [g for _ in args],
    "sub": lambda g, y, a, b: (g, -g),
    "neg": lambda g, y, a: (-g,),
    "mul": lambda g, y, a, b: (g * b, g * a),
    "div": lambda g, y, a, b: (g / b, -g * (y / b)),
    "pow": _power,
    "where": lambda g, y, c, a, b: (None, make("where", c, g, ex.ZERO), make("where", c, ex.ZERO, g)),
    "maximum": _extremum("gt"),
    "minimum": _extremum("lt"),
    "exp": lambda g, y, x: (g * y,),
    "expm1": lambda g, y, x: (g * (y + 1),),
    "sigmoid": lambda g, y, x: (g * ((1 - y) * y),),
    "tanh": lambda g, y, x: (g * (1 - y**2),),
    "log": lambda g, y, x: (g / x,),
}
