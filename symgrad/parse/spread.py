"""Sizes that are spread over the arguments of a call: `x.reshape(*x.shape[:-1], a, b)`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from symgrad.ops.tensors.extent import extent
from symgrad.parse.arguments import MOST_DIMS, whole_number
from symgrad.spec.python_names import shape_of

if TYPE_CHECKING:
    from symgrad.parse.build import Builder

__all__ = ["spread"]

N = TypeVar("N", bound=ast.expr)


def spread(builder: Builder, name: str, node: ast.Call) -> ast.Call:
    """A call whose arguments are written out: `f(x.shape[0], x.shape[1])` for `f(*x.shape[:2])`.

    Of a shape that is not declared only the last dimensions are known: `x.reshape(*x.shape[:-1], a, b)` is
    `x.unflatten(-1, (a, b))`.
    """
    starred = [argument for argument in node.args if isinstance(argument, ast.Starred)]
    if not starred:
        return node
    args: list[ast.expr] = []
    for argument in node.args:
        if not isinstance(argument, ast.Starred):
            args.append(argument)
            continue
        found = _sizes(builder, argument)
        if found is None:
            break
        args += found
    else:
        return ast.copy_location(ast.Call(node.func, args, node.keywords), node)
    return _unflattened(builder, name, node, starred)


def _sizes(builder: Builder, argument: ast.Starred) -> list[ast.expr] | None:
    """The sizes that `*x.shape[a:b]` are; None where it is not known how many."""
    value = argument.value
    bounds = value.slice if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) else ast.Slice()
    of = shape_of(value.value if isinstance(value, ast.Subscript) else value)
    if of is None:
        builder.fail(argument, "only sizes are spread, as in *x.shape[:-1]")
    low, high, step = (None if b is None else whole_number(b) for b in (bounds.lower, bounds.upper, bounds.step))
    unread = (low, high, step).count(None) > [bounds.lower, bounds.upper, bounds.step].count(None)
    if unread or step == 0 or (low is not None and low < -MOST_DIMS):
        builder.fail(argument, "the sizes that are spread are counted, as in *x.shape[:-1]")
    known = extent(builder.scoped(of))
    if known.exact:
        places = range(len(known.dims))[slice(low, high, step)]
    elif low is not None and low < 0 and step is None and (high is None or high < 0):
        places = range(low, 0 if high is None else high)
    else:
        return None
    shape = _at(argument, ast.Attribute(of, "shape"))
    return [_at(argument, ast.Subscript(shape, _number(argument, k))) for k in places]


def _unflattened(builder: Builder, name: str, node: ast.Call, starred: Sequence[ast.Starred]) -> ast.Call:
    """`x.reshape(*x.shape[:-k], ...)` as a change of the last k dimensions alone."""
    value, tensor = starred[0].value, node.args[0]
    bounds = value.slice if isinstance(value, ast.Subscript) else None
    last = whole_number(bounds.upper) if isinstance(bounds, ast.Slice) and bounds.upper is not None else None
    own = isinstance(value, ast.Subscript) and ast.dump(shape_of(value.value) or value) == ast.dump(tensor)
    reshapes = name in ("reshape", "view") and node.args[1:2] == starred
    if not own or not reshapes or last is None or last >= 0:
        builder.fail(starred[0], "the shape is not declared: it is not known how many sizes these are")
    if last < -1:
        tensor = _at(
            node, ast.Call(_at(node, ast.Name("flatten")), [tensor, *(_number(node, k) for k in (last, -1))], [])
        )
    sizes = _at(node, ast.Tuple(node.args[2:]))
    return _at(node, ast.Call(_at(node, ast.Name("unflatten")), [tensor, _number(node, -1), sizes], []))


def _number(where: ast.expr, number: int) -> ast.expr:
    digits = _at(where, ast.Constant(abs(number)))
    return digits if number >= 0 else _at(where, ast.UnaryOp(ast.USub(), digits))


def _at(where: ast.expr, node: N) -> N:
    """A node that stands where another does, for messages."""
    return ast.copy_location(node, where)
