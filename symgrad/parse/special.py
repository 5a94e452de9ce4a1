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
from symgrad.ops.tensors.positions import unit_matrix
from symgrad.ops.tensors.row import is_number, is_whole_number
from symgrad.ops.tensors.shapes import extent
from symgrad.ops.tensors.shaping import unsqueeze
from symgrad.parse.arguments import bind, whole_number
from symgrad.parse.casts import CASTS
from symgrad.parse.comparisons import comparison
from symgrad.parse.operations import PARTS, apply, check_sizes, parts, tensor_call
from symgrad.spec.python_names import shape_of

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


def _size_of(builder: Builder, name: str, node: ast.Call) -> Expr:
    """torch's `x.size(0)`."""
    given = bind(builder, name, node, ("input", "dim"), 2)
    return builder.size(given["input"], given["dim"])


def _length(builder: Builder, name: str, node: ast.Call) -> Expr:
    """`len(x)`: the size of the first dimension."""
    (tensor,) = bind(builder, name, node, ("input",), 1).values()
    return builder.size(tensor, ast.copy_location(ast.Constant(0), node))


def _number_of_elements(builder: Builder, name: str, node: ast.Call) -> Expr:
    """torch's `x.numel()`."""
    (tensor,) = bind(builder, name, node, ("input",), 1).values()
    value = builder.scoped(tensor)
    if is_number(value):
        builder.fail(node, "a number has no elements to count")
    return make("count", value, dim=None)


def _filled(builder: Builder, name: str, node: ast.Call) -> Expr:
    """`zeros(N, M)`, `ones((N, M))` and `full((N, M), value)`: the number has their shape where it is an operand."""
    truths = [k for k in node.keywords if k.arg == "dtype" and builder.syntax.source(k.value).endswith("bool")]
    items = list(node.args)
    named = [k for k in node.keywords if k.arg == "fill_value"]
    given = named[0].value if named else items.pop() if name == "full" and len(items) == 2 else None
    if len(node.keywords) > len(truths) + len(named) or (name == "full") != (given is not None):
        builder.fail(node, f"{name}(...) takes sizes{' in brackets, and a value' if name == 'full' else ''}")
    _reach(builder, items)
    value = _FILLED[name] if given is None else builder.value(given)
    return truth.compare("ne", value, ZERO) if truths and not value.is_boolean else value


_FILLED: Mapping[str, Expr] = {"zeros": ZERO, "ones": ONE, "full": ZERO}


def _expanded(builder: Builder, name: str, node: ast.Call) -> Expr:
    """`x.expand(-1, N)`, `broadcast_to(x, (M, N))`: in the shape of the sizes, of which -1 is that of x itself."""
    if node.keywords or len(node.args) < 2:
        builder.fail(node, f"{name}(x, ...) takes sizes")
    value = builder.number(node.args[0])
    _reach(builder, node.args[1:])
    return value


def _reach(builder: Builder, items: Sequence[ast.expr]) -> None:
    """Let the shape of a formula reach these sizes: by the places along each of them."""
    like = shape_of(items[0]) if len(items) == 1 else None
    if like is not None:
        builder.sources.add(builder.scoped(like))
        return
    sizes = items[0].elts if len(items) == 1 and isinstance(items[0], ast.Tuple | ast.List) else items
    for k, size in enumerate(sizes):
        if whole_number(size) in (1, -1):
            continue
        call = ast.copy_location(ast.Call(ast.copy_location(ast.Name("arange"), size), [size], []), size)
        places, _ = builder.isolated(builder.value, call)
        others = [d - len(sizes) for d in range(len(sizes)) if d != k]
        builder.sources.add(unsqueeze(places, *others) if others else places)


def _number_itself(builder: Builder, name: str, node: ast.Call) -> Expr:
    """torch's `tensor(2.0)`, which is a number to the tensors that it meets."""
    (given,) = bind(builder, name, node, ("data",), 1).values()
    value = builder.number(given)
    if not is_number(value):
        builder.fail(node, "what is made of tensors is a tensor already; leave it out")
    return value


def _arange(builder: Builder, name: str, node: ast.Call) -> Expr:
    """``arange(end)``; ``arange(start, end, step)`` as ``step * arange((end - start + step - 1) // step) + start``."""
    if len(node.args) + len(node.keywords) < 2:
        (size,) = bind(builder, name, node, ("end",), 1).values()
        return _places(builder, node, builder.scoped(size))
    bound = bind(builder, name, node, ("start", "end", "step"), 2)
    start, end = builder.each(builder.scoped, (bound["start"], bound["end"]))
    step = whole_number(bound["step"]) if "step" in bound else 1
    if step is None or step < 1:
        builder.fail(bound["step"], "a step is a whole number, and at least 1")
    count = end - start if step == 1 else functions.call("floor", (end - start + (step - 1)) / step)
    return step * _places(builder, node, count) + start


def _eye(builder: Builder, name: str, node: ast.Call) -> Expr:
    (size,) = bind(builder, name, node, ("n",), 1).values()
    places = _lent(builder, builder.scoped(size))
    return tensor_call(builder, name, node) if places is None else unit_matrix(builder.shaped(places))


def _places(builder: Builder, node: ast.Call, size: Expr) -> Expr:
    lent = _lent(builder, size)
    return builder.shaped(apply(builder, node, TENSOR_OPS["arange"], (size,), {}) if lent is None else lent)


def _lent(builder: Builder, size: Expr) -> Expr | None:
    """The places along a dimension of which no tensor has the size, for it is a number or a hyperparameter: one lends
    its device, if possible one that has a dimension of that number."""
    if not size.is_static or not is_whole_number(size) or (size.integer or 0) < 0:
        return None
    tensors = [b.expr for b in builder.scope.names.values() if b.expr is not None and b.expr.get("kind") in _SHAPED]
    same = [t for t in tensors if size.integer in extent(t).dims]
    return make("arange", size, [*same, *tensors][0]) if tensors else None


_SHAPED = frozenset({"tensor", "int_tensor", "bool_tensor"})

SPECIAL: Mapping[str, Callable[[Builder, str, ast.Call], Expr]] = {
    "grad": _grad,
    "again": _again,
    "detach": _detached,
    "size": _size_of,
    "len": _length,
    **dict.fromkeys(_FILLED, _filled),
    **dict.fromkeys(("expand", "broadcast_to"), _expanded),
    **dict.fromkeys(("tensor", "as_tensor"), _number_itself),
    **dict.fromkeys(("numel", "nelement"), _number_of_elements),
    **CASTS,
    **dict.fromkeys(("contiguous", "clone"), _as_it_is),
    "arange": _arange,
    "eye": _eye,
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
