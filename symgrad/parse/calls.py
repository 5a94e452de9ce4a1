"""Calls: the functions and tensor operations of the tables, and the few with a syntax of their own."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from symgrad.accuracy.evaluate import exact
from symgrad.analysis.integers import holds_integers, is_integer, is_whole_tensor
from symgrad.differentiate.modes import vjp
from symgrad.errors import shown
from symgrad.ir import truth
from symgrad.ir.branches import ends, split
from symgrad.ir.expr import FALSE, HALF, MINUS_ONE, ONE, OO, TRUE, ZERO, Expr, make, num
from symgrad.ir.traversal import topological
from symgrad.ops import functions
from symgrad.ops.functions import FUNCTIONS, SPELLINGS, Function
from symgrad.ops.tensors import TENSOR_OPS, TENSOR_SPELLINGS, Attribute, TensorOp, is_index
from symgrad.ops.tensors.row import is_number, is_size
from symgrad.ops.tensors.slices import chunks, splits
from symgrad.parse.advice import instead_of, slip_of
from symgrad.parse.alignment import paired
from symgrad.parse.arguments import bind, is_none, read_attribute, signature, tensor_arguments, whole_number
from symgrad.parse.casts import CASTS
from symgrad.parse.comparisons import comparison
from symgrad.parse.scope import Bound
from symgrad.parse.text import MODULES, TORCH

if TYPE_CHECKING:
    from symgrad.parse.build import Builder

__all__ = [
    "SPECIAL",
    "apply",
    "as_function",
    "call",
    "called",
    "operation_with_fields",
    "parts",
    "plain_name",
    "results",
    "spelled_with_fields",
]

# Arguments that may be absent although the row has no definition with a default for them.
_DEFAULTS: Mapping[str, Mapping[str, Expr]] = {
    "clamp": {"min": MINUS_ONE * OO, "max": OO},
    "heaviside": {"values": HALF},
}
OF_ELEMENTS = frozenset({"np", "numpy", "jnp", "jax.numpy", "math"})  # of others their defaults differ from torch's
# Torch's methods whose arguments are not those of the function after its first.
_OTHER_METHODS: Mapping[str, str] = {
    "max": "max(a, b) or max(a, dim=...)",
    "min": "min(a, b) or min(a, dim=...)",
    "polygamma": "polygamma(n, x)",
    "where": "where(condition, a, b)",
}
_FEWEST = {"clamp": 2}  # arguments that must be given, though it is free which
_LARGEST_ORDER = 100


def plain_name(builder: Builder, function: ast.expr) -> str | None:
    """The name of what is called, also behind that of a module as in `torch.where`; None if it has none."""
    if isinstance(function, ast.Name):
        return function.id
    if not isinstance(function, ast.Attribute):
        return None
    module = builder.syntax.source(function.value)
    if module.partition(".")[0] in builder.scope.names:
        return None
    of_elements = module in OF_ELEMENTS and (function.attr in SPELLINGS or function.attr == "where")
    return function.attr if of_elements or module in MODULES else None


def as_function(builder: Builder, node: ast.Call) -> ast.Call:
    """``sum(x, 1)`` for ``x.sum(1)`` and the like; any other call as it is."""
    function = node.func
    if not isinstance(function, ast.Attribute):
        return node
    name, owner = function.attr, function.value
    if plain_name(builder, function) is not None:
        module = builder.syntax.source(owner)
        ordered = len(node.args) > 1 or any(k.arg in ("p", "ord") for k in node.keywords)
        if module.endswith("linalg") and name == "norm" and ordered:
            builder.fail(function, "of matrices torch.linalg.norm has other orders; write norm(x, p, dim)")
        return _along(node, name) if module in TORCH else node
    if isinstance(owner, ast.Name) and owner.id not in builder.scope.names:
        return node
    plain = ast.copy_location(ast.Name(name), function)
    call = _along(ast.copy_location(ast.Call(plain, [owner, *node.args], node.keywords), node), name)
    if name in _OTHER_METHODS and len(call.args) > 1:
        builder.fail(function, f"as a method {name!r} reads its arguments in another way; write {_OTHER_METHODS[name]}")
    return call


def _along(node: ast.Call, name: str) -> ast.Call:
    """torch's ``max(x, -1)``, whose second argument is a dimension where it is a whole number."""
    if name not in ("max", "min") or len(node.args) not in (2, 3) or whole_number(node.args[1]) is None:
        return node
    pairs = zip(("dim", "keepdim"), node.args[1:])  # noqa: B905
    added = [ast.copy_location(ast.keyword(name, value), value) for name, value in pairs]
    return ast.copy_location(ast.Call(node.func, node.args[:1], [*node.keywords, *added]), node)


def called(builder: Builder, node: ast.Call) -> str:
    """The name of the function that a call calls."""
    name = plain_name(builder, node.func)
    if name is None and isinstance(node.func, ast.Attribute):
        _check_known(builder, node.func.attr, node)
        builder.fail(node.func, f"functions are called by their plain name; write {node.func.attr}(...)")
    if name is None:
        builder.fail(node, "only functions can be called, by their name")
    builder.calls.setdefault(name, builder.syntax.offset(node.func))
    return name


def _check_known(builder: Builder, name: str, node: ast.Call) -> None:
    """Refuse the name of no function."""
    if not any(name in table for table in (SPECIAL, TENSOR_SPELLINGS, SPELLINGS)):
        known = (*SPECIAL, *TENSOR_SPELLINGS, *SPELLINGS)
        near = instead_of(name) or (slip_of(name, known) if name.isascii() else builder.suggestion(name, known))
        builder.fail(node.func, f"unknown function {shown(name)}{near}")


def call(builder: Builder, name: str, node: ast.Call) -> Expr:
    """The value of ``name(...)``."""
    if name in SPECIAL:
        return SPECIAL[name](builder, name, node)
    if name in TENSOR_SPELLINGS:
        return _tensor_call(builder, name, node)
    if name not in SPELLINGS and name in builder.scope.names:
        builder.fail(node.func, f"{name!r} is not a function; for a product write '{name}*('")
    _check_known(builder, name, node)
    return _function_call(builder, name, node)


# ------------------------------------------------------------------------------------------ functions
@cache
def _defaults(row: Function) -> dict[str, Expr | None]:
    """Values of the arguments that may be absent, by parameter."""
    known: dict[str, Expr | None] = dict(_DEFAULTS.get(row.name, {}))
    if row.definition:
        declared = inspect.signature(row.definition).parameters.values()
        pairs = zip(row.parameters, declared, strict=False)
        known |= {name: p.default for name, p in pairs if p.default is not inspect.Parameter.empty}
    return known


def _function_call(builder: Builder, name: str, node: ast.Call) -> Expr:
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

    values = dict(zip(given, paired(*builder.each(read, given.items())), strict=True))
    known = {**defaults, **values} if row.name in _DEFAULTS else values
    last = max(row.parameters.index(parameter) for parameter in known)
    arguments = [values.get(p, defaults.get(p)) for p in row.parameters[: last + 1]]
    complete = [argument for argument in arguments if argument is not None]
    _check_sizes(builder, node, complete)
    if any(argument.tensors for argument in complete[: row.orders]):
        parameter = row.parameters[0]
        hint = "a derivative that no library has; make it a number or a hyperparameter"
        builder.fail(given[parameter], f"the argument {parameter!r} of {name} would need {hint}")
    if row.name in _CHECKED:
        _CHECKED[row.name](builder, node, *complete)
    return _made(builder, node, lambda: functions.call(row.name, *complete))


def of_numbers(builder: Builder, node: ast.AST, name: str, operands: Sequence[ast.expr]) -> Expr:
    """A function of numbers that has an operator of its own."""
    values = paired(*builder.each(builder.number, operands))
    _check_sizes(builder, node, values)
    return functions.call(name, *values)


def _check_sizes(builder: Builder, node: ast.AST, arguments: Collection[Expr]) -> None:
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


# ------------------------------------------------------------------------------------------ tensor operations
def _tensor_call(builder: Builder, name: str, node: ast.Call) -> Expr:
    row = TENSOR_OPS[TENSOR_SPELLINGS[name]]
    if row.fields:
        names = " or ".join(f".{field}" for field, _ in row.fields)
        builder.fail(node, f"{name}(...) has several results; add {names}")
    operands, attributes = tensor_arguments(builder, name, row, node)
    values = builder.each(builder.scoped, operands)
    return builder.shaped(apply(builder, node, row, values, attributes))


def apply(
    builder: Builder, node: ast.AST, row: TensorOp, operands: Sequence[Expr], attributes: Mapping[str, Any]
) -> Expr:
    """A tensor operation on values; absent attributes have their defaults."""
    _need_tensors(builder, node, row, operands)
    complete = {**{a.name: a.default for a in row.attributes}, **attributes}
    definition = row.definition or (lambda *args, **attrs: make(row.name, *args, **attrs))
    return _made(builder, node, lambda: definition(*operands, **complete))


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


def operation_with_fields(name: str, node: ast.Call) -> str | None:
    """The operation that ``name(...)`` calls, if it has several results with names of their own."""
    operation = TENSOR_SPELLINGS.get(name)
    if operation is None or not TENSOR_OPS[operation].fields:
        return None
    reduces = name not in _EXTREMA or any(keyword.arg in ("dim", "axis") for keyword in node.keywords)
    return operation if reduces else None


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
    operand, attribute = PARTS[name], ("chunks" if name == "chunk" else "sizes")
    bound = bind(builder, name, node, ("input", attribute, "dim"), 2)
    value = builder.scoped(bound["input"])
    _need_tensors(builder, node, TENSOR_OPS["slice"], [value])
    count = read_attribute(builder, Attribute(attribute, "ints", fixed=True), bound[attribute])
    dim = read_attribute(builder, Attribute("dim", "dim"), bound["dim"]) if "dim" in bound else 0
    try:
        return operand(value, count, dim)
    except ValueError as error:
        builder.fail(node, str(error))


PARTS: Mapping[str, Callable[[Expr, Any, Any], list[Expr]]] = {"chunk": chunks, "split": splits}


def _parts_without_number(builder: Builder, name: str, node: ast.Call) -> Expr:
    parts(builder, name, node)
    builder.fail(node, f"{name}(...) has several results; add [0], [1] and so on, here or where its name is used")


# ------------------------------------------------------------------------------------------ special forms
def _where(builder: Builder, name: str, node: ast.Call) -> Expr:
    parameters = ("condition", "input", "other")
    bound = bind(builder, name, node, parameters, len(parameters))
    return _choose(builder, [(bound["input"], bound["condition"])], bound["other"])


def conditional(builder: Builder, node: ast.IfExp) -> Expr:
    """``a if condition else b``."""
    return _choose(builder, [(node.body, node.test)], node.orelse)


def _piecewise(builder: Builder, name: str, node: ast.Call) -> Expr:
    usage = "Piecewise((a, condition), ..., (b, True))"
    if node.keywords or not node.args:
        builder.fail(node, f"{name} is written {usage}")
    cases: list[tuple[ast.expr, ast.expr]] = []
    for case in node.args:
        if not isinstance(case, ast.Tuple) or len(case.elts) != 2:
            builder.fail(case, f"each case of {usage} is a pair of a value and its condition")
        cases.append((case.elts[0], case.elts[1]))
    otherwise, last = cases[-1]
    if not (isinstance(last, ast.Constant) and last.value is True):
        builder.fail(last, f"the last condition of {usage} is True")
    return _choose(builder, cases[:-1], otherwise)


def _choose(builder: Builder, cases: Sequence[tuple[ast.expr, ast.expr]], otherwise: ast.expr) -> Expr:
    """The value of the first case whose condition holds, or ``otherwise``.

    A condition without tensors becomes a branch in Python: then the shape is that of the branch taken.
    """
    conditions = {condition for _, condition in cases}
    order = [node for case in cases for node in reversed(case)] + [otherwise]

    def read(node: ast.expr) -> tuple[Expr, frozenset[Expr]]:
        return builder.isolated(builder.truth if node in conditions else _number_or_truth(builder), node)

    found = dict(zip(order, builder.each(read, order), strict=True))
    branches = [value for value, _ in cases] + [otherwise]
    boolean = all(found[branch][0].is_boolean for branch in branches)
    value, sources = found[otherwise]
    total = value if boolean else _as_number(value)
    for branch, test in reversed(cases):
        condition, condition_sources = found[test]
        _check_sizes(builder, branch, (condition, found[branch][0], total))
        value, own = found[branch]
        value = value if boolean else _as_number(value)
        if condition.is_static and condition not in (TRUE, FALSE):
            total = truth.where(condition, builder.whole(branch, value, own), builder.whole(branch, total, sources))
            sources = frozenset({total} if total.tensors else ())
        else:
            total = truth.where(condition, value, total)
            sources |= own | condition_sources
        builder.settled(branch, total)
    builder.sources |= sources
    return total


def _number_or_truth(builder: Builder) -> Callable[[ast.expr], Expr]:
    def read(node: ast.expr) -> Expr:
        value = builder.value(node)
        return value if value.is_boolean else builder.as_number(node, value)

    return read


def _as_number(value: Expr) -> Expr:
    return truth.where(value, ONE, ZERO) if value.is_boolean else value


_EXTREMA: Mapping[str, tuple[str, str | None]] = {  # element-wise function, reduction of a single argument
    "max": ("maximum", "amax"),
    "min": ("minimum", "amin"),
    "Max": ("maximum", None),
    "Min": ("minimum", None),
    "maximum": ("maximum", None),
    "minimum": ("minimum", None),
}


def _extremum(builder: Builder, name: str, node: ast.Call) -> Expr:
    """Element-wise of two or more; over all elements of one; along a ``dim`` it has two results."""
    function, reduction = _EXTREMA[name]
    if reduction and (operation_with_fields(name, node) or (node.keywords and len(node.args) < 2)):
        return _tensor_call(builder, name, node)
    if node.keywords:
        builder.fail(node.keywords[0], f"{name}(a, b) of two expressions has no other arguments")
    if len(node.args) == 1 and reduction:
        operand = builder.scoped(node.args[0])
        return builder.shaped(apply(builder, node, TENSOR_OPS[reduction], (operand,), {}))
    if len(node.args) < 2:
        builder.fail(node, f"{name}(a, b) takes at least 2 arguments")
    values = paired(*builder.each(builder.number, node.args))
    _check_sizes(builder, node, values)
    if name not in FUNCTIONS and len(values) == 2 and ZERO in values:  # torch's own names mean torch's own slopes
        return functions.extremum_with_zero(function, values[values[0] is ZERO])
    return functions.extremum(function, values)


_RELATIONS = {"Eq": "eq", "Ne": "ne", "Lt": "lt", "Le": "le", "Gt": "gt", "Ge": "ge"}


def _relation(builder: Builder, name: str, node: ast.Call) -> Expr:
    """SymPy's `Le(a, b)`."""
    given = bind(builder, name, node, ("left", "right"), 2)
    sides = list(given.values())
    left, right = builder.each(builder.value, sides)
    return comparison(builder, sides, _RELATIONS[name], left, right)


def _connective(builder: Builder, name: str, node: ast.Call) -> Expr:
    """SymPy's `And(a, b, ...)`, `Or`, `Not` and `Xor`."""
    if node.keywords or not node.args or (name == "Not" and len(node.args) > 1):
        builder.fail(node, f"{name} takes conditions, such as {name}(x > 0{'' if name == 'Not' else ', y > 0'})")
    values = builder.each(builder.truth, node.args)
    return truth.exclusive(*values) if name == "Xor" else truth.logical(name.lower(), *values)


def _number_of(builder: Builder, name: str, node: ast.Call) -> Expr:
    """SymPy's `Rational(1, 3)`, `Float(0.1)`, `Integer(2)` and `S(1)`; a text in quotes is read as a number."""
    parameters = ("p", "q") if name == "Rational" else ("x",)
    given = list(bind(builder, name, node, parameters, 1).values())
    values: list[Fraction] = []
    for argument in given:
        value = builder.value(argument)
        number = _decimal(value["value"]) if value.op == "text" else value.number
        if number is None or (len(values) == 1 and number == 0):
            builder.fail(argument, f"{name} takes numbers")
        values.append(number)
    return num(values[0] / values[1]) if len(values) > 1 else num(values[0])


def _decimal(text: str) -> Fraction | None:
    """The number that a short text spells."""
    form = r"[-+]?[0-9]{1,40}(\.[0-9]{1,40}|/[1-9][0-9]{0,39})?(e[-+]?[0-9]{1,3})?"
    return Fraction(text) if re.fullmatch(form, text) else None


def _grad(builder: Builder, name: str, node: ast.Call) -> Expr:
    """`grad(expr, x)`: the gradient in a tensor of the sum of a formula, for auxiliary losses under 'gradients'."""
    if not any(b.expr is not None and b.expr.get("kind") == "cotangent" for b in builder.scope.names.values()):
        builder.fail(node.func, "'grad' is known under 'gradients' only")
    bound = bind(builder, name, node, ("expr", "tensor"), 2)
    value, wrt = builder.each(lambda item: builder.isolated(builder.number, item), [bound["expr"], bound["tensor"]])
    whole, (tensor, _) = builder.whole(bound["expr"], *value), wrt
    if tensor.op != "sym" or tensor["kind"] != "tensor":
        builder.fail(bound["tensor"], "the second argument of grad(expr, x) is the name of a tensor of floats")
    if is_number(whole):
        builder.fail(bound["expr"], "this depends on no tensor, so it has no gradient")
    slope = vjp({whole: make("expand", ONE, whole)}, [tensor]).get(tensor, ZERO)
    return builder.shaped(slope) if slope.tensors else slope


def _again(builder: Builder, name: str, node: ast.Call) -> Expr:
    """`again(y)`: an output as this operation computes it, whose derivative is the rule that is given, again."""
    (output,) = bind(builder, name, node, ("output",), 1).values()
    outputs, arguments = builder.scope.outputs, builder.scope.arguments
    if not outputs:
        builder.fail(node.func, "'again' is known under 'gradients' only")
    if not isinstance(output, ast.Name) or output.id not in outputs:
        builder.fail(output, f"again(...) is of an output: {' or '.join(outputs)}")
    if not arguments:
        builder.fail(node.func, "'again' is for operations without optional tensors")
    value = builder.scoped(output)
    place = outputs.index(output.id) if len(outputs) > 1 else -1
    return builder.shaped(make("again", value, *arguments, place=place))


def _as_it_is(builder: Builder, name: str, node: ast.Call) -> Expr:
    """What changes no value: `x.contiguous()`."""
    (value,) = bind(builder, name, node, ("input",), 1).values()
    return builder.number(value)


def _size_of(builder: Builder, name: str, node: ast.Call) -> Expr:
    """torch's `x.size(0)`."""
    given = bind(builder, name, node, ("input", "dim"), 2)
    return builder.size(given["input"], given["dim"])


SPECIAL: Mapping[str, Callable[[Builder, str, ast.Call], Expr]] = {
    "grad": _grad,
    "again": _again,
    "size": _size_of,
    **CASTS,
    **dict.fromkeys(("contiguous", "clone"), _as_it_is),
    "where": _where,
    "ITE": _where,
    **dict.fromkeys(_RELATIONS, _relation),
    **dict.fromkeys(("And", "Or", "Not", "Xor"), _connective),
    **dict.fromkeys(("Rational", "Float", "Integer", "S"), _number_of),
    "Piecewise": _piecewise,
    **dict.fromkeys(_EXTREMA, _extremum),
    **dict.fromkeys(PARTS, _parts_without_number),
}
