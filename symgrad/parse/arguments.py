"""Which argument of a call is which, and the constant ones as values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from symgrad.errors import shown
from symgrad.ir.expr import FALSE, OO, TRUE
from symgrad.ops.tensors import Attribute, Ref, TensorOp
from symgrad.ops.tensors.row import is_size
from symgrad.parse.advice import keyword_for

if TYPE_CHECKING:
    from symgrad.parse.build import Builder

__all__ = ["bind", "is_none", "read_attribute", "signature", "tensor_arguments"]

_LARGEST = 2**31  # of an integer that is an attribute


def signature(name: str, parameters: Sequence[str], required: int | None = None) -> str:
    """How a function is called, for messages: ``clamp(x, min=..., max=...)``."""
    fixed = len(parameters) if required is None else required
    return f"{name}({', '.join(p if i < fixed else f'{p}=...' for i, p in enumerate(parameters))})"


def bind(builder: Builder, name: str, node: ast.Call, parameters: Sequence[str], required: int) -> dict[str, ast.expr]:
    """The arguments of a call by parameter; the first ``required`` parameters must be given."""
    usage = signature(name, parameters, required)
    if len(node.args) > len(parameters):
        most = f"{'at most ' if required < len(parameters) else ''}{_counted(len(parameters))}"
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
        if keyword.arg is None or keyword.arg not in parameters:
            word = keyword.arg or "**"
            near = keyword_for(word, parameters) or builder.suggestion(word, parameters)
            builder.fail(keyword, f"{usage} has no argument {shown(word)}{near}")
        if keyword.arg in bound:
            builder.fail(keyword, f"{usage} is given {keyword.arg!r} twice")
        bound[keyword.arg] = keyword.value


def tensor_arguments(
    builder: Builder, name: str, row: TensorOp, node: ast.Call
) -> tuple[list[ast.expr], dict[str, Any]]:
    """The operands of a tensor operation, and all its attributes.

    Operands come first; a text that has no name is the next attribute of kind text, wherever it stands.
    """
    texts = [attribute.name for attribute in row.attributes if attribute.kind == "text"]
    plain = [arg for arg in node.args if not (texts and _is_text(arg))]
    named = dict(zip(texts, (arg for arg in node.args if texts and _is_text(arg))))  # noqa: B905
    operands = list(row.operands)
    if row.variadic:
        operands += [f"{row.operands[-1]} {i}" for i in range(len(operands) + 1, len(plain) + 1)]
    attributes = [a.name for a in row.attributes if a.name not in named]
    if row.variadic:
        bound = dict(zip(operands, plain))  # noqa: B905
        usage = signature(name, (*row.operands, *attributes), len(row.operands))
        _bind_keywords(builder, usage, node, (*row.operands, *attributes), bound)
        if row.operands[0] not in bound:
            builder.fail(node, f"{usage} lacks its argument {row.operands[0]!r}")
    else:
        call = ast.Call(node.func, plain, node.keywords)
        required = len(operands) - row.optional
        bound = bind(builder, name, ast.copy_location(call, node), [*operands, *attributes], required)
    bound.update(named)
    return _operands(builder, row, operands, bound), _attributes(builder, name, row, node, bound)


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


def is_none(node: ast.expr) -> bool:
    """Whether the node is ``None``."""
    return isinstance(node, ast.Constant) and node.value is None


def read_attribute(builder: Builder, attribute: Attribute, node: ast.expr) -> Any:
    """The value of an attribute of a tensor operation."""
    if is_none(node) and attribute.default is None and not attribute.required:
        return None
    value = _READERS[attribute.kind](builder, attribute.name, node)
    several = isinstance(value, tuple)
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


def _order(builder: Builder, name: str, node: ast.expr) -> int | Ref | str:
    value, _ = builder.isolated(builder.value, node)
    return "inf" if value is OO else _integer(builder, name, node)


def _integers(builder: Builder, name: str, node: ast.expr) -> int | Ref | tuple[int | Ref, ...]:
    if not isinstance(node, ast.List | ast.Tuple):
        return _integer(builder, name, node)
    if not node.elts:
        builder.fail(node, f"{name!r} is an empty list")
    return tuple(builder.each(lambda item: _integer(builder, name, item), node.elts))


def _dims(builder: Builder, name: str, node: ast.expr) -> int | Ref | tuple[int | Ref, ...]:
    dims = _integers(builder, name, node)
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


_READERS: Mapping[str, Callable[[Builder, str, ast.expr], Any]] = {
    "dim": _integer,
    "dims": _dims,
    "int": _integer,
    "ints": _integers,
    "order": _order,
    "bool": _bool,
    "text": _text,
}


def _counted(number: int) -> str:
    return f"{number} argument{'s' if number > 1 else ''}"
