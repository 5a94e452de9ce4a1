"""Expressions of generated code as data: syntax trees of Python, made of templates, that know what they read.

A template is an expression in which `{0}` or `{name}` stands for another, as rows spell their operations. Brackets are
the printer's: a part binds as tightly as its operator says, wherever it is put.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import copysign, inf, isfinite
from typing import Any, TypeAlias

__all__ = [
    "Code",
    "Part",
    "added",
    "all_of",
    "any_of",
    "arguments",
    "attribute",
    "binary",
    "chained",
    "code",
    "constant",
    "fill",
    "joined",
    "keyword",
    "minus",
    "name",
    "names_in",
    "source",
    "starred",
    "subscript",
    "tuple_of",
    "words",
]

Code: TypeAlias = ast.expr
Part: TypeAlias = "Code | str | int | Sequence[Code | ast.keyword | str]"
"""What fills a hole: an expression, a name, a whole number, or several of them among arguments or items."""


def code(template: str, *parts: Part, **named: Part) -> Code:
    """The expression of a template with its holes filled."""
    return fill(template, lambda key: parts[key] if isinstance(key, int) else named[key])


def fill(template: str, part: Callable[[int | str], Part]) -> Code:
    """The expression of a template; what fills a hole is asked for by its number or name, once it is met."""
    filled: Code = _filled(_parsed(template), part)
    return filled


@cache
def _parsed(template: str) -> ast.expr:
    return ast.parse(template, mode="eval").body


def _filled(node: Any, part: Callable[[int | str], Part]) -> Any:
    """A syntax tree anew, with holes filled; several parts stand among arguments or items."""
    if isinstance(node, list):
        return [own for item in node for own in _several(_filled(item, part))]
    if not isinstance(node, ast.AST):
        return node
    key = _hole(node)
    if key is not None:
        return _made(part(key))
    fields = {field: _filled(value, part) for field, value in ast.iter_fields(node)}
    if isinstance(node, ast.Call):
        given = fields["args"]
        fields["args"] = [a for a in given if not isinstance(a, ast.keyword)]
        fields["keywords"] = [*(a for a in given if isinstance(a, ast.keyword)), *fields["keywords"]]
    return type(node)(**fields)


def _hole(node: ast.AST) -> int | str | None:
    """The number or name of a hole, which is a set of one item for Python; None for all else."""
    if not isinstance(node, ast.Set) or len(node.elts) > 1:
        return None
    (item,) = node.elts
    if isinstance(item, ast.Constant) and isinstance(item.value, int):
        return item.value
    return item.id if isinstance(item, ast.Name) else None


def _made(part: Part | ast.keyword) -> Any:
    if isinstance(part, str):
        return name(part)
    if isinstance(part, int):
        return constant(part)
    return [_made(p) for p in part] if isinstance(part, Sequence) else part


def _several(made: Any) -> list[Any]:
    return made if isinstance(made, list) else [made]


def words(template: str) -> frozenset[str]:
    """The names that a template reads by itself; none where there is no template."""
    return names_in(fill(template, lambda key: constant(None))) if template else frozenset()


def name(text: str) -> Code:
    """A local name, as it is: a parser would normalise what is no letter of ASCII."""
    return ast.Name(text, ast.Load())


def constant(value: Any) -> Code:
    """A Python value as a literal; a list as a tuple, and a negative number as a negated one."""
    if isinstance(value, (tuple, list)):
        return tuple_of([constant(v) for v in value])
    if isinstance(value, dict):
        return ast.Dict([constant(k) for k in value], [constant(v) for v in value.values()])
    if isinstance(value, (int, float)) and not isinstance(value, bool) and copysign(1, value) < 0:
        return minus(constant(-value))
    if isinstance(value, float) and not isfinite(value):
        return code("math.inf" if value == inf else "math.nan")
    return ast.Constant(value)


def binary(sign: str, left: Code, right: Code) -> Code:
    """Two operands with an operator between them."""
    return ast.BinOp(left, _OPERATORS[sign](), right)


_OPERATORS: dict[str, type[ast.operator]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "@": ast.MatMult,
    "**": ast.Pow,
    "&": ast.BitAnd,
    "|": ast.BitOr,
    "//": ast.FloorDiv,
}
_SUMS, _PRODUCTS = (ast.Add, ast.Sub), (ast.Mult, ast.Div, ast.MatMult)


def chained(sign: str, left: Code, right: Code) -> Code:
    """Two operands of which the right one needs no brackets: where it is a sum or product too, its parts follow."""
    alike = _SUMS if sign in "+-" else _PRODUCTS
    if isinstance(right, ast.BinOp) and isinstance(right.op, alike):
        return ast.BinOp(chained(sign, left, right.left), right.op, right.right)
    return binary(sign, left, right)


def joined(sign: str, operands: Sequence[Code]) -> Code:
    """Operands with an operator between each two, from the left."""
    first, *rest = operands
    for operand in rest:
        first = binary(sign, first, operand)
    return first


def minus(value: Code) -> Code:
    """A value, negated."""
    return ast.UnaryOp(ast.USub(), value)


def added(total: Code, term: Code) -> Code:
    """A sum and one more term, which is subtracted where a minus leads it."""
    positive = _without_minus(term)
    return binary("+", total, term) if positive is None else binary("-", total, positive)


def _without_minus(term: Code) -> Code | None:
    """A product without the minus that leads it; None if none does."""
    if isinstance(term, ast.UnaryOp) and isinstance(term.op, ast.USub):
        return term.operand
    if isinstance(term, ast.BinOp) and isinstance(term.op, _PRODUCTS):
        first = _without_minus(term.left)
        return None if first is None else ast.BinOp(first, term.op, term.right)
    return None


def all_of(conditions: Sequence[Code]) -> Code:
    """That all of some conditions hold."""
    return conditions[0] if len(conditions) == 1 else ast.BoolOp(ast.And(), list(conditions))


def any_of(conditions: Sequence[Code]) -> Code:
    """That one of some conditions holds."""
    return conditions[0] if len(conditions) == 1 else ast.BoolOp(ast.Or(), list(conditions))


def keyword(name: str, value: Code) -> ast.keyword:
    """`name=value` among the arguments of a call."""
    return ast.keyword(name, value)


def attribute(value: Code, of: str) -> Code:
    """`value.of`."""
    return ast.Attribute(value, of, ast.Load())


def tuple_of(items: Sequence[Code | str]) -> Code:
    """A tuple of expressions and names."""
    return ast.Tuple([name(i) if isinstance(i, str) else i for i in items], ast.Load())


def subscript(value: Code, items: Sequence[Code]) -> Code:
    """`value[items]`, of expressions and slices."""
    return ast.Subscript(value, items[0] if len(items) == 1 else tuple_of(items), ast.Load())


def starred(values: Code) -> Code:
    """`*values` among arguments."""
    return ast.Starred(values, ast.Load())


def arguments(names: Sequence[str]) -> ast.arguments:
    """Those of a lambda."""
    return ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[])


def names_in(*expressions: ast.AST) -> frozenset[str]:
    """The names that expressions read, but for those that they bind themselves."""
    return frozenset(_names(expressions))


def _names(nodes: Iterable[ast.AST]) -> Iterable[str]:
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Lambda):
            own = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
            yield from (n for n in _names([node.body]) if n not in own)
        else:
            yield from _names(ast.iter_child_nodes(node))


def source(expression: ast.AST) -> str:
    """An expression as Python."""
    return ast.unparse(expression)
