"""Calls with a syntax or a meaning of their own: where, Piecewise, max, conditions, grad, again."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from symgrad.differentiate.modes import vjp
from symgrad.ir import truth
from symgrad.ir.expr import FALSE, ONE, TRUE, ZERO, Expr, make, num
from symgrad.ops import functions
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS, TENSOR_SPELLINGS
from symgrad.ops.tensors.row import is_number
from symgrad.parse.arguments import bind
from symgrad.parse.casts import CASTS
from symgrad.parse.comparisons import comparison
from symgrad.parse.operations import PARTS, apply, check_sizes, parts, tensor_call
from symgrad.parse.sized import SIZED

if TYPE_CHECKING:
    from symgrad.parse.build import Builder


def _parts_without_number(builder: Builder, name: str, node: ast.Call) -> Expr:
    parts(builder, name, node)
    builder.fail(node, f"{name}(...) has several results; add [0], [1] and so on, here or where its name is used")


def _where(builder: Builder, name: str, node: ast.Call) -> Expr:
    parameters = ("condition", "input", "other")
    bound = bind(builder, name, node, parameters, len(parameters))
    return _choose(builder, [(bound["input"], bound["condition"])], bound["other"])


def conditional(builder: Builder, node: ast.IfExp) -> Expr:
    """``a if condition else b``; of a condition that is known, the one of the two that it chooses."""
    return _choose(builder, [(node.body, node.test)], node.orelse, alone=True)


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


def _choose(
    builder: Builder, cases: Sequence[tuple[ast.expr, ast.expr]], otherwise: ast.expr, *, alone: bool = False
) -> Expr:
    """The value of the first case whose condition holds, or ``otherwise``.

    A condition without tensors becomes a branch in Python: then the shape is that of the branch taken. With ``alone``
    that is so of a condition that is known, too.
    """
    conditions = {condition for _, condition in cases}
    order = [node for case in cases for node in reversed(case)] + [otherwise]

    def read(node: ast.expr) -> tuple[Expr, frozenset[Expr]]:
        return builder.isolated(builder.truth if node in conditions else _number_or_truth(builder), node)

    found = dict(zip(order, builder.each(read, order), strict=True))
    branches = [value for value, _ in cases] + [otherwise]
    boolean = all(found[branch][0].is_boolean for branch in branches)
    value, sources = found[otherwise]
    total = value if boolean else truth.as_number(value)
    for branch, test in reversed(cases):
        condition, condition_sources = found[test]
        check_sizes(builder, branch, (condition, found[branch][0], total))
        value, own = found[branch]
        value = value if boolean else truth.as_number(value)
        if alone and condition in (TRUE, FALSE):
            total, sources = (value, own) if condition is TRUE else (total, sources)
        elif condition.is_static and condition not in (TRUE, FALSE):
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
        return tensor_call(builder, name, node)
    if node.keywords:
        builder.fail(node.keywords[0], f"{name}(a, b) of two expressions has no other arguments")
    if len(node.args) == 1 and reduction:
        operand = builder.scoped(node.args[0])
        return builder.shaped(apply(builder, node, TENSOR_OPS[reduction], (operand,), {}))
    if len(node.args) + len(node.keywords) < 2:
        builder.fail(node, f"{name}(a, b) takes at least 2 arguments")
    values = builder.paired(*builder.each(builder.number, node.args))
    check_sizes(builder, node, values)
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


def _detached(builder: Builder, name: str, node: ast.Call) -> Expr:
    """``detach(x)``; truth values, and numbers, have no gradient as they are."""
    (operand,) = bind(builder, name, node, ("input",), 1).values()
    value, sources = builder.isolated(builder.value, operand)
    if not value.is_boolean and not is_number(value):
        return tensor_call(builder, name, node)
    builder.sources |= sources
    return value


SPECIAL: Mapping[str, Callable[[Builder, str, ast.Call], Expr]] = {
    "grad": _grad,
    "again": _again,
    "detach": _detached,
    **CASTS,
    **SIZED,
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


def operation_with_fields(name: str, node: ast.Call) -> str | None:
    """The operation that ``name(...)`` calls, if it has several results with names of their own."""
    operation = TENSOR_SPELLINGS.get(name)
    if operation is None or not TENSOR_OPS[operation].fields:
        return None
    reduces = name not in _EXTREMA or any(keyword.arg in ("dim", "axis") for keyword in node.keywords)
    return operation if reduces else None
