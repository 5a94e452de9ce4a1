"""The smallest formula, among those made by taking parts away, of which something is still wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.search.draw import Drawn

__all__ = ["shrunk"]

_MOST_TRIED = 60


def shrunk(drawn: Drawn, is_wrong: Callable[[Drawn], bool]) -> Drawn:
    """The formula with operations left out for as long as `is_wrong` of it."""
    tried = 0
    best = _opened(drawn)
    if best.let != drawn.let and not is_wrong(best):
        best = drawn
    smaller = True
    while smaller and tried < _MOST_TRIED:
        smaller = False
        for formula in _smaller(best.formula):
            tried += 1
            candidate = replace(best, formula=formula)
            if tried <= _MOST_TRIED and is_wrong(candidate):
                best, smaller = candidate, True
                break
    return best


def _opened(drawn: Drawn) -> Drawn:
    """The formula without names for its parts."""
    if not drawn.let:
        return drawn
    parts = {name: ast.parse(text, mode="eval").body for name, text in drawn.let.items()}
    return replace(
        drawn, formula=_with(drawn.formula, lambda n: parts.get(n.id) if isinstance(n, ast.Name) else None), let={}
    )


def _smaller(formula: str) -> Iterator[str]:
    """The formulas with one operation replaced by one of its operands, the largest parts first."""
    count = sum(1 for _ in ast.walk(ast.parse(formula, mode="eval")))
    found: dict[str, None] = {}
    for place in range(count):
        node = list(ast.walk(ast.parse(formula, mode="eval")))[place]
        for operand in _operands(node):
            target = place

            def chosen(
                other: ast.AST, position: int, operand: ast.expr = operand, target: int = target
            ) -> ast.expr | None:
                return operand if position == target else None

            text = _by_place(formula, chosen)
            if len(text) < len(formula):
                found[text] = None
    yield from sorted(found, key=len)


def _operands(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Call):
        return [a for a in node.args if not isinstance(a, ast.List | ast.Constant)]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    return [node.operand] if isinstance(node, ast.UnaryOp) else []


def _with(formula: str, change: Callable[[ast.AST], ast.expr | None]) -> str:
    return _by_place(formula, lambda node, _: change(node))


def _by_place(formula: str, change: Callable[[ast.AST, int], ast.expr | None]) -> str:
    """The formula with the nodes for which `change` has another one; places are those of ast.walk."""
    tree = ast.parse(formula, mode="eval")
    places = {id(node): k for k, node in enumerate(ast.walk(tree))}

    class Changed(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            new = change(node, places.get(id(node), -1))
            return new if new is not None else self.generic_visit(node)

    return ast.unparse(Changed().visit(tree))
