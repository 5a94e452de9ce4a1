"""Which argument of a call is which, and the constant ones as values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from symgrad.errors import shown
from symgrad.ir.expr import FALSE, OO, TRUE, Expr
from symgrad.ops.tensors import Attribute, Ref, TensorOp
from symgrad.ops.tensors.row import is_size, is_whole_number
from symgrad.parse.advice import keyword_for
from symgrad.text import counted

if TYPE_CHECKING:
    from symgrad.parse.build import Builder

__all__ = [
    "MOST_DIMS",
    "bind",
    "is_none",
    "read_attribute",
    "signature",
    "tensor_arguments",
    "whole_number",
]

_CALLED = {"axis": "dim", "keepdims": "keepdim", "ord": "p"}  # by torch as well
_LARGEST = 2**31  # of an integer that is an attribute
MOST_DIMS = 64  # of a tensor, as in torch


def signature(name: str, parameters: Sequence[str], required: int | None = None) -> str:
    """How a function is called, for messages: ``clamp(x, min=..., max=...)``."""
    fixed = len(parameters) if required is None else required
    return f"{name}({', '.join(p if i < fixed else f'{p}=...' for i, p in enumerate(parameters))})"


def bind(builder: Builder, name: str, node: ast.Call, parameters: Sequence[str], required: int) -> dict[str, ast.expr]:
    """The arguments of a call by parameter; the first ``required`` parameters must be given."""
    usage = signature(name, parameters, required)
    if len(node.args) > len(parameters):
        most = f"{'at most ' if required < len(parameters) else ''}{counted(len(parameters), 'argument')}"
        builder.fail(node.args[len(parameters)], f"{usage} takes {most}, not {len(node.args)}")
    bound = dict(zip(parameters, node.args))  # noqa: B905 (the others have keywords, or are absent)
    _bind_keywords(builder, usage, node, parameters, bound)
    missing = [parameter for parameter in parameters[:required] if parameter not in bound]
    if missing:
        builder.fail(node, f"{usage} lacks its argument {missing[0]!r}")
    return bound


def _bind_keywords(
    builder: Builder, usage: str, node: ast.Call, parameters: Sequence[str], bound: dict[str, ast.expr]
) -> None:
    for keyword in node.keywords:
        own = keyword.arg if keyword.arg in parameters else _CALLED.get(keyword.arg or "")
        if own is None or own not in parameters:
            word = keyword.arg or "**"
            near = keyword_for(word, parameters) or builder.suggestion(word, parameters)
            builder.fail(keyword, f"{usage} has no argument {shown(word)}{near}")
        if own in bound:
            builder.fail(keyword, f"{usage} is given {own!r} twice")
        bound[own] = keyword.value


def tensor_arguments(
    builder: Builder, name: str, row: TensorOp, node: ast.Call
) -> tuple[list[ast.expr], dict[str, Any]]:
    """The operands of a tensor operation, and all its attributes.

    Operands come first; a text that has no name is the next attribute of kind text, wherever it stands.
    """
    texts = [attribute.name for attribute in row.attributes if attribute.kind in ("text", "word")]
    plain = [arg for arg in node.args if not (texts and _is_text(arg))]
    named = dict(zip(texts, (arg for arg in node.args if texts and _is_text(arg))))  # noqa: B905
    operands = list(row.operands)
    attributes = [a.name for a in row.attributes if a.name not in named]
    if row.variadic:
        operands, bound = _several(row, plain, attributes)
        usage = signature(name, row.order or (*row.operands, *attributes), len(row.operands))
        _bind_keywords(builder, usage, node, (*row.operands, *attributes), bound)
        for operand in row.operands:
            if operand not in bound:
                builder.fail(node, f"{usage} lacks its argument {operand!r}")
    else:
        several = [a for a in row.attributes if a.required and a.kind in ("ints", "dims")]
        if several == list(row.attributes) and len(plain) > len(operands) + 1:  # x.permute(1, 0, 2)
            plain = [*plain[: len(operands)], ast.copy_location(ast.Tuple(plain[len(operands) :]), plain[-1])]
        call = ast.copy_location(ast.Call(node.func, plain, node.keywords), node)
        if row.order:
            bound = bind(builder, name, call, row.order, len(row.order))
        else:
            bound = bind(builder, name, call, [*operands, *attributes], len(operands) - row.optional)
    bound.update(named)
    return _operands(builder, row, operands, bound), _attributes(builder, name, row, node, bound)


def _several(row: TensorOp, plain: Sequence[ast.expr], attributes: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The names of all operands where the last one repeats, and the arguments by name.

    They may stand in a list, after which attributes come, or by themselves.
    """
    order = [n for n in row.order if n != row.operands[-1]] if row.order else list(row.operands[:-1])
    bound: dict[str, ast.expr] = dict(zip(order, plain))  # noqa: B905
    rest = list(plain[len(order) :])
    if rest and isinstance(rest[0], ast.List | ast.Tuple):
        bound |= dict(zip((a for a in attributes if a not in order), rest[1:]))  # noqa: B905
        rest = list(rest[0].elts)
    repeated = [row.operands[-1], *(f"{row.operands[-1]} {i}" for i in range(2, len(rest) + 1))][: max(1, len(rest))]
    return [*row.operands[:-1], *repeated], bound | dict(zip(repeated, rest))  # noqa: B905


def _operands(builder: Builder, row: TensorOp, names: Sequence[str], bound: Mapping[str, ast.expr]) -> list[ast.expr]:
    given = [bound[name] for name in names if name in bound and not is_none(bound[name])]
    for name in names[: len(names) - row.optional]:
        if name in bound and is_none(bound[name]):
            builder.fail(bound[name], f"the argument {name!r} cannot be None")
    return given


def _attributes(
    builder: Builder, name: str, row: TensorOp, node: ast.Call, bound: Mapping[str, ast.expr]
) -> dict[str, Any]:
    given = [attribute for attribute in row.attributes if attribute.name in bound]
    for attribute in row.attributes:
        if attribute.required and attribute.name not in bound:
            builder.fail(node, f"{name}(...) lacks its argument {attribute.name!r}")
    places = {id(bound[attribute.name]): attribute for attribute in given}

    def read(argument: ast.expr) -> Any:
        return read_attribute(builder, places[id(argument)], argument)

    values = builder.each(read, [bound[attribute.name] for attribute in given])
    defaults = {attribute.name: attribute.default for attribute in row.attributes}
    return {**defaults, **{attribute.name: value for attribute, value in zip(given, values, strict=True)}}


def whole_number(node: ast.expr) -> int | None:
    """The value of a node that is a whole number; None for anything else."""
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    plain = isinstance(inner, ast.Constant) and type(inner.value) is int
    return sign * inner.value if plain and isinstance(inner, ast.Constant) and isinstance(inner.value, int) else None


def is_none(node: ast.expr) -> bool:
    """Whether the node is ``None``."""
    return isinstance(node, ast.Constant) and node.value is None


def read_attribute(builder: Builder, attribute: Attribute, node: ast.expr) -> Any:
    """The value of an attribute of a tensor operation."""
    if is_none(node) and attribute.default is None and not attribute.required:
        return None
    value = _READERS[attribute.kind](builder, attribute.name, node)
    several = isinstance(value, tuple)
    if attribute.fixed and any(isinstance(one, Ref) for one in (value if several else (value,))):
        builder.fail(node, f"{attribute.name!r} must be made of whole numbers, not of hyperparameters")
    if several and attribute.items is not None and len(value) not in (1, attribute.items):
        builder.fail(node, f"{attribute.name!r} has one value or {attribute.items}, not {len(value)}")
    for one in value if several else (value,):
        if attribute.least is not None and isinstance(one, int) and one < attribute.least:
            builder.fail(node, f"{attribute.name!r} must be at least {attribute.least}, not {one}")
    return value


def _integer(builder: Builder, name: str, node: ast.expr) -> int | Ref:
    value, _ = builder.isolated(builder.value, node)
    if value.op == "sym" and value["kind"] == "int":
        return Ref(value.name)
    number = value.number
    if is_size(value):
        hint = "; dimensions are counted, the last is -1" if name.startswith("dim") else ""
        builder.fail(node, f"{name!r} must be an integer or a hyperparameter, not the size of a dimension{hint}")
    if number is None or number.denominator != 1 or abs(number) >= _LARGEST:
        builder.fail(node, f"{name!r} must be an integer or a hyperparameter of type int")
    return int(number)


def _size(builder: Builder, name: str, node: ast.expr) -> int | Ref | Expr:
    value, _ = builder.isolated(builder.value, node)
    return value if is_size(value) and is_whole_number(value) else _integer(builder, name, node)


def _order(builder: Builder, name: str, node: ast.expr) -> int | Ref | str:
    value, _ = builder.isolated(builder.value, node)
    return "inf" if value is OO else _integer(builder, name, node)


def _one_or_several(read: Callable[[Builder, str, ast.expr], Any]) -> Callable[[Builder, str, ast.expr], Any]:
    """A reader of one value, or of a list of them as a tuple."""

    def several(builder: Builder, name: str, node: ast.expr) -> Any:
        if not isinstance(node, ast.List | ast.Tuple):
            return read(builder, name, node)
        if not node.elts:
            builder.fail(node, f"{name!r} is an empty list")
        return tuple(builder.each(lambda item: read(builder, name, item), node.elts))

    return several


def _dims(builder: Builder, name: str, node: ast.expr) -> int | Ref | tuple[int | Ref, ...]:
    dims: int | Ref | tuple[int | Ref, ...] = _one_or_several(_integer)(builder, name, node)
    if isinstance(dims, tuple) and len(set(dims)) < len(dims):
        builder.fail(node, f"{name!r} lists a dimension twice")
    return dims


def _bool(builder: Builder, name: str, node: ast.expr) -> bool | Ref:
    value, _ = builder.isolated(builder.value, node)
    if value.op == "sym" and value["kind"] == "bool":
        return Ref(value.name)
    if value not in (TRUE, FALSE):
        builder.fail(node, f"{name!r} must be True, False or a hyperparameter of type bool")
    return value is TRUE


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _text(builder: Builder, name: str, node: ast.expr) -> str:
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        builder.fail(node, f"{name!r} must be a text in quotes")
    return node.value


def _number(builder: Builder, name: str, node: ast.expr) -> Expr:
    value, _ = builder.isolated(builder.number, node)
    if not value.is_static:
        builder.fail(node, f"{name!r} must be a number or made of hyperparameters")
    return value


def _word(builder: Builder, name: str, node: ast.expr) -> Expr:
    value, _ = builder.isolated(builder.value, node)
    if value.op != "text" and value.get("kind") != "str":
        builder.fail(node, f"{name!r} must be a text in quotes or a hyperparameter of type str")
    return value


_READERS: Mapping[str, Callable[[Builder, str, ast.expr], Any]] = {
    "dim": _integer,
    "dims": _dims,
    "int": _integer,
    "ints": _one_or_several(_integer),
    "size": _size,
    "sizes": _one_or_several(_size),
    "order": _order,
    "bool": _bool,
    "text": _text,
    "number": _number,
    "word": _word,
}
