"""The names that Python source takes from elsewhere: imports are for these, not for arguments of the same name."""

from __future__ import annotations

import ast

__all__ = ["free_names"]


def free_names(source: str) -> frozenset[str]:
    """The names that `source` reads where no function around them binds them."""
    found: set[str] = set()
    _visit(ast.parse(source), frozenset(), found)
    return frozenset(found)


def _visit(node: ast.AST, bound: frozenset[str], found: set[str]) -> None:
    if isinstance(node, ast.Name) and node.id not in bound:
        found.add(node.id)
    if not isinstance(node, ast.FunctionDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            _visit(child, bound, found)
        return
    body = node.body if isinstance(node.body, list) else [node.body]
    inside = [n for statement in body for n in ast.walk(statement)]
    own = {n.arg for n in ast.walk(node.args) if isinstance(n, ast.arg)}
    own |= {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {n.name for n in inside if isinstance(n, ast.FunctionDef)}
    for child in ast.iter_child_nodes(node):
        _visit(child, bound | own if child in body else bound, found)
