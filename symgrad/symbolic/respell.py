"""What SymPy has a class for and the language has no word: said in words that it has, where SymPy knows some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from symgrad.symbolic.bounded import bounded

__all__ = ["SYMPY_FAULTS", "in_other_words"]

SYMPY_FAULTS = (TypeError, ValueError, AttributeError, NotImplementedError, ZeroDivisionError, RecursionError)
"""What SymPy raises by its own faults with what it has no answer for."""

_DIGITS = 25  # of a number that has no name here


def in_other_words(node: Any, is_word: Callable[[Any], bool]) -> Any:
    """A SymPy expression equal to `node` whose every part `is_word`; None where SymPy has none.

    A number without a name is its decimal.
    """
    import sympy

    for respelled in _respellings(node):
        if respelled != node and all(map(is_word, sympy.preorder_traversal(respelled))):
            return respelled
    return None


def _respellings(node: Any) -> Iterator[Any]:
    import sympy

    if isinstance(node, sympy.Poly):
        yield node.as_expr()
    if isinstance(node, sympy.Contains):
        with suppress(*SYMPY_FAULTS):
            yield node.args[1].as_relational(node.args[0])
    if not isinstance(node, sympy.Expr) or node.is_Matrix:
        return
    kinds = (sympy.Piecewise, sympy.digamma, sympy.gamma, sympy.exp, sympy.log, sympy.cos, sympy.Pow, sympy.Min)
    ways: tuple[Callable[[Any], Any], ...] = (
        sympy.expand_func,
        lambda e: e.doit(),
        *(lambda e, kind=kind: e.rewrite(kind) for kind in kinds),
        *(lambda e, kind=kind: sympy.expand_func(e.rewrite(kind)) for kind in (sympy.jn, sympy.yn)),  # of half an order
        sympy.hyperexpand,
    )
    for way in ways:
        try:
            found = bounded(partial(way, node), node)
        except SYMPY_FAULTS:
            continue
        if isinstance(found, sympy.Piecewise) and found.args[-1].cond != True:  # noqa: E712 (SymPy's own true)
            continue
        yield found
    if not node.free_symbols:
        value = node.evalf(_DIGITS)
        if value.is_Float and value.is_finite:
            yield value
