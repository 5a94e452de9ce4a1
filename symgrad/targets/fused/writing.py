"""What the writers of all languages share: which nodes need no spelling, how operators are printed, what has a name."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

from symgrad.ir.expr import COMPARISONS, LOGICAL, Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, binary, code, name, names_in
from symgrad.lower.naming import Names
from symgrad.lower.temporaries import choose_temporaries

__all__ = ["POWERS", "PassPrinter", "is_structure", "name_values"]

_STRUCTURE = frozenset({"sym", "num", "const", "true", "false", "add", "sub", "mul", "div", "neg", "pow", "where"})

POWERS = {
    Fraction(2): "square",
    Fraction(3): "cube",
    Fraction(1, 2): "sqrt",
    Fraction(-1, 2): "rsqrt",
    Fraction(3, 2): "sqrt_cubed",
}
"""The powers that every language has a function for."""


def is_structure(node: Expr) -> bool:
    """Whether every language has the operation of a machine node: operators, numbers, choices."""
    return node.op in _STRUCTURE or node.op in COMPARISONS or node.op in LOGICAL


class PassPrinter(ABC):
    """Prints machine-level expressions; `names` gives the names of leaves and of values computed before, or their code.

    Constants that are not plain numbers are collected in `constants`, to be defined once. `infix` are the operators
    with two operands.
    """

    infix: ClassVar[Mapping[str, str]]

    def __init__(self, names: Mapping[Expr, str | Code], constants: dict[Expr, str]) -> None:
        self.names = names
        self.constants = constants

    def __call__(self, node: Expr) -> Code:
        """The code of an expression."""
        if node in self.names:
            known = self.names[node]
            return name(known) if isinstance(known, str) else known
        return self._constant(node) if not node.symbols else self._operation(node)

    def _operators(self, node: Expr) -> Code | None:
        """What is written with an operator between two operands."""
        if node.op in COMPARISONS:
            return code(f"{{0}} {COMPARISONS[node.op]} {{1}}", *map(self, node.args))
        if node.op not in self.infix or len(node.args) != 2:
            return None
        return binary(self.infix[node.op], *map(self, node.args))

    @abstractmethod
    def _constant(self, node: Expr) -> Code:
        """An expression without symbols."""

    @abstractmethod
    def _operation(self, node: Expr) -> Code:
        """An operation that has no name yet."""


def name_values(
    roots: Sequence[Expr],
    names: dict[Expr, str | Code],
    local: Names,
    printed: Callable[[Expr], Code],
    own: Mapping[Expr, str | Code] | None = None,
) -> list[tuple[str | Code, Code]]:
    """Name the values that are read more than once, and those in `own`: their names and code, in order.

    They are added to `names`, which `printed` reads.
    """
    own = own or {}
    order = [n for n in topological(*roots, leaves=frozenset(names)) if n not in names]
    temporaries = choose_temporaries(roots, order, names) | own.keys()
    found = []
    for node in order:
        if node in temporaries:
            value = printed(node)
            names[node] = own.get(node) or local.for_value(node, {n: _word(known) for n, known in names.items()})
            found.append((names[node], value))
    return found


def _word(known: str | Code) -> str:
    """What a value is called in the names of others: what stands in a row, by that."""
    if isinstance(known, str):
        return known
    return "row" if isinstance(known, ast.Subscript) else min(names_in(known))
