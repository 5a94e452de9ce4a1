"""What the writers of all languages share: which nodes need no spelling, how operators are printed, what has a name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from symgrad.ir.expr import COMPARISONS, LOGICAL, Expr
from symgrad.ir.traversal import topological
from symgrad.targets.naming import Names
from symgrad.targets.torch.schedule import choose_temporaries

__all__ = ["PassPrinter", "is_structure", "name_values"]

_STRUCTURE = frozenset({"sym", "num", "const", "true", "false", "add", "sub", "mul", "div", "neg", "pow", "where"})


def is_structure(node: Expr) -> bool:
    """Whether every language has the operation of a machine node: operators, numbers, choices."""
    return node.op in _STRUCTURE or node.op in COMPARISONS or node.op in LOGICAL


class PassPrinter(ABC):
    """Prints machine-level expressions; `names` gives the names of leaves and of values computed before.

    Constants that are not plain numbers are collected in `constants`, to be defined once. `infix` holds operators
    with two operands and how strongly they bind, `atom` how strongly a name does; 0 is the loosest.
    """

    infix: Mapping[str, tuple[str, int]]
    atom: int

    def __init__(self, names: Mapping[Expr, str], constants: dict[Expr, str]) -> None:
        self.names = names
        self.constants = constants

    def __call__(self, node: Expr) -> str:
        """The source of an expression."""
        return self._at(node, 0)

    def _at(self, node: Expr, strength: int) -> str:
        text, own = self._print(node)
        return text if own >= strength else f"({text})"

    def _print(self, node: Expr) -> tuple[str, int]:
        """The source of an expression, and how strongly it binds."""
        if node in self.names:
            return self.names[node], self.atom
        return self._constant(node) if not node.symbols else self._operation(node)

    def _operators(self, node: Expr) -> tuple[str, int] | None:
        """What is written with an operator between two operands."""
        if node.op not in self.infix or len(node.args) != 2:
            return None
        symbol, strength = self.infix[node.op]
        left, right = node.args
        return f"{self._at(left, strength)} {symbol} {self._at(right, strength + 1)}", strength

    @abstractmethod
    def _constant(self, node: Expr) -> tuple[str, int]:
        """An expression without symbols."""

    @abstractmethod
    def _operation(self, node: Expr) -> tuple[str, int]:
        """An operation that has no name yet."""


def name_values(
    roots: Sequence[Expr],
    names: dict[Expr, str],
    local: Names,
    printed: Callable[[Expr], str],
    own: Mapping[Expr, str] | None = None,
) -> list[tuple[str, str]]:
    """Name the values that are read more than once, and those in `own`: their names and sources, in order.

    They are added to `names`, which `printed` reads.
    """
    own = own or {}
    order = [n for n in topological(*roots, leaves=frozenset(names)) if n not in names]
    temporaries = choose_temporaries(roots, order, names) | own.keys()
    found = []
    for node in order:
        if node in temporaries:
            text = printed(node)
            described = {n: "row" if "[" in t else t for n, t in names.items()}
            names[node] = own.get(node) or local.for_value(node, described)
            found.append((names[node], text))
    return found
