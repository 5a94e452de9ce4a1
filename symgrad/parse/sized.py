"""Calls that ask for sizes, and that make tensors of them: `size`, `numel`, `ones`, `expand`, `arange`, `eye`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from symgrad.ir import truth
from symgrad.ir.expr import ONE, ZERO, Expr, make
from symgrad.ops import functions
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.positions import unit_matrix
from symgrad.ops.tensors.row import is_number, is_whole_number
from symgrad.ops.tensors.shapes import extent
from symgrad.ops.tensors.shaping import unsqueeze
from symgrad.parse.arguments import bind, whole_number
from symgrad.parse.operations import apply, tensor_call
from symgrad.spec.python_names import shape_of

if TYPE_CHECKING:
    from symgrad.parse.build import Builder

__all__ = ["SIZED"]


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
    lenders = builder.scope.lenders
    same = [t for t in lenders if size.integer in extent(t).dims]
    return make("arange", size, [*same, *lenders][0]) if lenders else None


SIZED: Mapping[str, Callable[[Builder, str, ast.Call], Expr]] = {
    "size": _size_of,
    "len": _length,
    **dict.fromkeys(("numel", "nelement"), _number_of_elements),
    **dict.fromkeys(_FILLED, _filled),
    **dict.fromkeys(("expand", "broadcast_to"), _expanded),
    **dict.fromkeys(("tensor", "as_tensor"), _number_itself),
    "arange": _arange,
    "eye": _eye,
}
