"""Calls of the functions and tensor operations of the tables."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from symgrad.accuracy.evaluate import exact
from symgrad.analysis.integers import holds_integers, is_integer, is_whole_tensor, is_whole_valued
from symgrad.ir.branches import ends, split
from symgrad.ir.expr import HALF, MINUS_ONE, OO, Expr, make
from symgrad.ir.traversal import topological
from symgrad.ops import functions
from symgrad.ops.functions import FUNCTIONS, SPELLINGS, Function
from symgrad.ops.tensors import TENSOR_OPS, TENSOR_SPELLINGS, Attribute, TensorOp, is_index
from symgrad.ops.tensors.extent import extent, size_along
from symgrad.ops.tensors.lengths import length
from symgrad.ops.tensors.row import is_number, is_size, is_whole_number
from symgrad.ops.tensors.sizes import number_of
from symgrad.ops.tensors.slices import chunks, place_of, select, splits
from symgrad.parse.arguments import bind, is_none, read_attribute, signature, tensor_arguments
from symgrad.parse.scope import Bound, each_field

if TYPE_CHECKING:
    from symgrad.parse.build import Builder


# Arguments that may be absent although the row has no definition with a default for them.
_DEFAULTS: Mapping[str, Mapping[str, Expr]] = {
    "clamp": {"min": MINUS_ONE * OO, "max": OO},
    "heaviside": {"values": HALF},
}

_FEWEST = {"clamp": 2}  # arguments that must be given, though it is free which
_LARGEST_ORDER = 100


@cache
def _defaults(row: Function) -> dict[str, Expr | None]:
    """Values of the arguments that may be absent, by parameter."""
    known: dict[str, Expr | None] = dict(_DEFAULTS.get(row.name, {}))
    if row.definition:
        declared = inspect.signature(row.definition).parameters.values()
        pairs = zip(row.parameters, declared, strict=False)
        known |= {name: p.default for name, p in pairs if p.default is not inspect.Parameter.empty}
    return known


def function_call(builder: Builder, name: str, node: ast.Call) -> Expr:
    row = FUNCTIONS[SPELLINGS[name]]
    if name in builder.scope.names and len(node.args) + len(node.keywords) < row.required:
        builder.fail(node.func, f"{name!r} is not a function; for a product write '{name}*('")
    defaults = _defaults(row)
    required = len(row.parameters) - len(defaults)
    given = bind(builder, name, node, row.parameters, required)
    given = {p: a for p, a in given.items() if not (p in defaults and is_none(a))}
    if len(given) < _FEWEST.get(row.name, 1):
        builder.fail(node, f"{signature(name, row.parameters, required)} needs one of its optional arguments")

    def read(argument: tuple[str, ast.expr]) -> Expr:
        parameter, value = argument
        return _text(builder, value) if _takes_text(defaults.get(parameter)) else builder.number(value)

    values = dict(zip(given, builder.paired(*builder.each(read, given.items())), strict=True))
    known = {**defaults, **values} if row.name in _DEFAULTS else values
    last = max(row.parameters.index(parameter) for parameter in known)
    arguments = [values.get(p, defaults.get(p)) for p in row.parameters[: last + 1]]
    complete = [argument for argument in arguments if argument is not None]
    check_sizes(builder, node, complete)
    if any(argument.tensors for argument in complete[: row.orders]):
        parameter = row.parameters[0]
        hint = "a derivative that no library has; make it a number or a hyperparameter"
        builder.fail(given[parameter], f"the argument {parameter!r} of {name} would need {hint}")
    if row.name in _CHECKED:
        _CHECKED[row.name](builder, node, *complete)
    return _made(builder, node, lambda: functions.call(row.name, *complete))


def of_numbers(builder: Builder, node: ast.AST, name: str, operands: Sequence[ast.expr]) -> Expr:
    """A function of numbers that has an operator of its own."""
    values = builder.paired(*builder.each(builder.number, operands))
    check_sizes(builder, node, values)
    return functions.call(name, *values)


def check_sizes(builder: Builder, node: ast.AST, arguments: Collection[Expr]) -> None:
    """A size meets tensors in arithmetic alone: torch's functions differ in what they make of a number."""
    if any(map(is_size, arguments)) and not all(map(is_number, arguments)):
        builder.fail(node, "the size of a dimension meets tensors in + - * / alone; make it a hyperparameter")


def _check_order(builder: Builder, node: ast.Call, order: Expr, x: Expr) -> None:
    """An order is an integer; its function has no constant of a negative number, which takes long to find."""
    number = order.number
    named = order.op == "sym" and order["kind"] == "int"
    if not named and (number is None or number.denominator != 1 or not 0 <= number <= _LARGEST_ORDER):
        message = f"the order must be an integer from 0 to {_LARGEST_ORDER} or a hyperparameter of type int"
        builder.fail(node.args[0] if node.args else node, message)
    if not x.symbols and exact([x], {}, 64)[0] <= 0:
        builder.fail(node, "this constant is undefined")


_CHECKED: Mapping[str, Callable[..., None]] = {"polygamma": _check_order}


def _takes_text(default: Expr | None) -> bool:
    return default is not None and default.op == "text"


def _text(builder: Builder, node: ast.expr) -> Expr:
    value = builder.value(node)
    if value.op != "text":
        builder.fail(node, "this argument is a text in quotes")
    return value


def _made(builder: Builder, node: ast.AST, construct: Callable[[], Expr]) -> Expr:
    """What a row's definition constructs; by a ValueError it says what is wrong with the arguments."""
    try:
        return construct()
    except ValueError as error:
        builder.fail(node, str(error))


def tensor_call(builder: Builder, name: str, node: ast.Call) -> Expr:
    row = TENSOR_OPS[TENSOR_SPELLINGS[name]]
    if row.fields:
        names = each_field("", (field for field, _ in row.fields))
        builder.fail(node, f"{name}(...) has several results; add {names}")
    operands, attributes = tensor_arguments(builder, name, row, node)
    values = builder.each(builder.scoped, operands)
    return builder.shaped(apply(builder, node, row, values, attributes))


def apply(
    builder: Builder, node: ast.AST, row: TensorOp, operands: Sequence[Expr], attributes: Mapping[str, Any]
) -> Expr:
    """A tensor operation on values; absent attributes have their defaults."""
    operands = [_as_places(a) if k in row.integer else a for k, a in enumerate(operands)]
    _need_tensors(builder, node, row, operands)
    complete = {**{a.name: a.default for a in row.attributes}, **attributes}
    definition = row.definition or (lambda *args, **attrs: make(row.name, *args, **attrs))
    return _made(builder, node, lambda: definition(*operands, **complete))


def _as_places(value: Expr) -> Expr:
    """Places that were counted among floats, as integers."""
    if is_number(value) or is_whole_tensor(value) or is_index(value) or not is_whole_valued(value):
        return value
    return make("to_int", value)


def _need_tensors(builder: Builder, node: ast.AST, row: TensorOp, operands: Sequence[Expr]) -> None:
    for k, value in enumerate(operands):
        if k in row.numbers:
            _need_size(builder, node, row, value)
            continue
        if k in row.seeds:
            _need_seed(builder, node, row, value)
            continue
        if is_number(value):
            builder.fail(node, f"{row.name} works on tensors; {value} depends on none")
        if k in row.integer and not (is_whole_tensor(value) or is_index(value)):
            names = " and ".join(sorted(repr(s.name) for s in value.tensors))
            builder.fail(node, f"{row.name} needs integers, and {value} is none; declare {names} with 'dtype: int'")
        if row.floats and is_whole_tensor(value):
            builder.fail(node, f"{row.name} works on floats, and {value} is of integers; multiply it by 1.0")
        for end in ends(split({"value": value}, {})):
            side = end["value"]
            if is_number(side):
                builder.fail(node, f"{row.name} works on tensors; {value} may be {side}, which depends on none")
    whole = [value for value in operands if holds_integers(value)]
    if whole and row.linear and not row.recompute and not all(map(is_integer, operands)):
        names = " and ".join(sorted(repr(s.name) for s in whole[0].tensors if s["kind"] == "int_tensor"))
        told = f"{row.name} takes tensors of one type, and {whole[0]} is of integers"
        builder.fail(node, f"{told}; declare {names} without 'dtype: int'")


def _need_size(builder: Builder, node: ast.AST, row: TensorOp, value: Expr) -> None:
    """Refuse what is no whole number: sizes are whole numbers, named dimensions, and hyperparameters of type int."""
    leaves = [n for n in topological(value, leaves=_sizes_in(value)) if not n.args or n.op == "count"]
    whole = all(n.op == "count" or n.number is not None or n.get("kind") == "int" for n in leaves)
    if not is_number(value) or not whole or (value.number is not None and value.number.denominator != 1):
        builder.fail(node, f"{row.name} needs sizes: whole numbers, named dimensions or hyperparameters of type int")


def _need_seed(builder: Builder, node: ast.AST, row: TensorOp, value: Expr) -> None:
    whole = value.number is not None and value.number.denominator == 1
    if not whole and not any(s["kind"] in ("int", "int_tensor") for s in value.symbols):
        told = "a hyperparameter of type int, or a tensor of dtype int and shape []"
        builder.fail(node, f"{row.name} needs a seed that is {told}, and {value} is none")


def _sizes_in(value: Expr) -> frozenset[Expr]:
    return frozenset(n for n in topological(value) if n.op == "count")


def spelled_with_fields() -> str:
    """The operations that have several results, for messages."""
    names = [row.name for row in TENSOR_OPS.values() if row.fields]
    return ", ".join(f"{name}(..., dim=...)" for name in names) or "no operation"


def results(builder: Builder, operation: str, node: ast.Call) -> dict[str, Bound]:
    """All results of an operation that has several."""
    row = TENSOR_OPS[operation]
    operands, attributes = tensor_arguments(builder, row.name, row, node)
    values = builder.each(builder.scoped, operands)
    _need_tensors(builder, node, row, values)
    made = {field: make(op, *values, **attributes) for field, op in row.fields}
    return {field: Bound(value, frozenset({value})) for field, value in made.items()}


def parts(builder: Builder, name: str, node: ast.Call) -> list[Expr]:
    """The parts of a tensor that a call divides it into, each of which is picked by its number: `chunk(x, 2)[0]`."""
    return PARTS[name](builder, node)


def _chunked(builder: Builder, node: ast.Call) -> list[Expr]:
    """`x.chunk(count, dim)`."""
    count = Attribute("chunks", "int", fixed=True)
    return _divided(builder, "chunk", node, "chunks", lambda given: read_attribute(builder, count, given), chunks)


def _split(builder: Builder, node: ast.Call) -> list[Expr]:
    """`x.split(sizes, dim)`."""
    return _divided(builder, "split", node, "sizes", lambda given: _sizes_of_parts(builder, given), splits)


def _divided(
    builder: Builder,
    name: str,
    node: ast.Call,
    how: str,
    read: Callable[[ast.expr], Any],
    divide: Callable[[Expr, Any, Any], list[Expr]],
) -> list[Expr]:
    """What `divide` makes of a tensor, by what is `read` of the argument that says how, and of a dimension."""
    bound = bind(builder, name, node, ("input", how, "dim"), 2)
    value = builder.scoped(bound["input"])
    _need_tensors(builder, node, TENSOR_OPS["slice"], [value])
    given = read(bound[how])
    dim = read_attribute(builder, Attribute("dim", "dim"), bound["dim"]) if "dim" in bound else 0
    try:
        return divide(value, given, dim)
    except ValueError as error:
        builder.fail(node, str(error))


def _unbound(builder: Builder, node: ast.Call) -> list[Expr]:
    """`x.unbind(dim)`: the slices along a dimension whose size is a number."""
    bound = bind(builder, "unbind", node, ("input", "dim"), 1)
    value = builder.scoped(bound["input"])
    dim = read_attribute(builder, Attribute("dim", "dim", fixed=True), bound["dim"]) if "dim" in bound else 0
    try:
        place = place_of(dim, value, "unbind")
        known = size_along(place, extent(value))
        size = number_of(length(value, place)) if known is None else known
    except ValueError as error:
        builder.fail(node, str(error))
    if not isinstance(size, int):
        builder.fail(node, "unbind needs a dimension whose size is a number; write x[..., 0], x[..., 1] and so on")
    return [select(value, place, k) for k in range(size)]


def _sizes_of_parts(builder: Builder, node: ast.expr) -> int | Expr | tuple[int | Expr, ...]:
    """The size of each part, or of all: whole numbers, and what is calculated of sizes and hyperparameters."""
    several = isinstance(node, ast.List | ast.Tuple)
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    values = builder.each(lambda item: builder.isolated(builder.value, item)[0], items)
    for item, value in zip(items, values, strict=True):
        if not is_number(value) or not is_whole_number(value):
            builder.fail(item, "the sizes of the parts are whole numbers, and what is made of sizes, such as D // 2")
    sizes = tuple(value if value.integer is None else value.integer for value in values)
    return sizes if several else sizes[0]


PARTS: Mapping[str, Callable[[Builder, ast.Call], list[Expr]]] = {
    "chunk": _chunked,
    "split": _split,
    "unbind": _unbound,
}
