"""What a call calls: a function or a tensor operation of the tables, or one of the few special forms."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from symgrad.errors import shown
from symgrad.ir.expr import Expr
from symgrad.ops.functions import SPELLINGS
from symgrad.ops.tensors import TENSOR_SPELLINGS
from symgrad.parse.advice import instead_of, slip_of
from symgrad.parse.arguments import whole_number
from symgrad.parse.composites import Composite, composite, composite_call
from symgrad.parse.operations import function_call, tensor_call
from symgrad.parse.special import SPECIAL
from symgrad.parse.spread import spread
from symgrad.parse.text import MODULES, SYMPY, TORCH

if TYPE_CHECKING:
    from symgrad.parse.build import Builder

__all__ = ["as_function", "call", "called", "plain_name"]

OF_ELEMENTS = frozenset({"np", "numpy", "jnp", "jax.numpy", "math"})  # of others their defaults differ from torch's
# Torch's methods whose arguments are not those of the function after its first.
_OTHER_METHODS: Mapping[str, str] = {
    "max": "max(a, b) or max(a, dim=...)",
    "min": "min(a, b) or min(a, dim=...)",
    "polygamma": "polygamma(n, x)",
    "where": "where(condition, a, b)",
}

# How many of the first arguments are torch's; those after them mean something else there.
_ALIKE: Mapping[str, int] = {"dropout": 2, "cross_entropy": 3, "nll_loss": 3}
# Functions of torch, and of SymPy, that are others under the same name, and what they are.
_OTHERS: Mapping[str, str] = {
    "frac": "x - trunc(x)",
    "normal": "m + s*normal(x, seed), whose numbers have mean 0 and deviation 1",
}
_OTHERS_OF_SYMPY: Mapping[str, str] = {"sinc": "sinc(x/pi)"}


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
        if module in TORCH:
            _check_alike(builder, name, node)
        elif module in SYMPY and name in _OTHERS_OF_SYMPY:
            builder.fail(function, f"SymPy's {name} is another function; write {_OTHERS_OF_SYMPY[name]}")
        return _along(node, name) if module in TORCH else node
    if isinstance(owner, ast.Name) and owner.id not in builder.scope.names:
        return node
    plain = ast.copy_location(ast.Name(name), function)
    _check_alike(builder, name, node, owners=1)
    call = _along(ast.copy_location(ast.Call(plain, [owner, *node.args], node.keywords), node), name)
    if name in _OTHER_METHODS and len(call.args) > 1:
        builder.fail(function, f"as a method {name!r} reads its arguments in another way; write {_OTHER_METHODS[name]}")
    return call


def _without_options(builder: Builder, name: str, node: ast.Call) -> ast.Call:
    """A call without options that are of no formula: the device and dtype of what it makes, which are those of the
    tensors, and `inplace=False`; a dtype in which it computes is a cast, `softmax(cast(x, float32), -1)`."""
    kept = []
    args = list(node.args)
    for keyword in node.keywords:
        value = keyword.value
        if keyword.arg == "inplace" and isinstance(value, ast.Constant) and value.value is True:
            builder.fail(keyword, "nothing is changed in place; leave it out")
        if keyword.arg == "dtype" and name in _CASTS and args:
            args[0] = ast.copy_location(ast.Call(ast.Name("cast"), [args[0], value], []), args[0])
        elif keyword.arg != "inplace" and not (name in _MAKES and _is_of_tensors(name, keyword)):
            kept.append(keyword)
    return ast.copy_location(ast.Call(node.func, args, kept), node)


_CASTS = frozenset({"softmax", "log_softmax", "sum", "mean", "prod", "cumsum", "cumprod"})
_WHOLE = frozenset({"arange", "eye", "zeros", "ones", "zeros_like", "ones_like"})  # which rounding does not change
_MAKES = _WHOLE | {"linspace", "tensor", "full", "full_like"}


def _is_of_tensors(name: str, keyword: ast.keyword) -> bool:
    """Whether an option of what is made tells the device, or a dtype of numbers in which it is the same."""
    if keyword.arg != "dtype":
        return keyword.arg == "device"
    dtype = getattr(keyword.value, "attr", getattr(keyword.value, "id", ""))
    return dtype == "dtype" or "float" in dtype or dtype in ("double", "half") or (name in _WHOLE and dtype != "bool")


def _check_alike(builder: Builder, name: str, node: ast.Call, owners: int = 0) -> None:
    """Refuse a call by torch's name whose arguments, or whose function, are others there."""
    if name in _OTHERS:
        builder.fail(node.func, f"torch's {name} is another function; write {_OTHERS[name]}")
    first = _ALIKE.get(name, math.inf) - owners
    if len(node.args) > first:
        builder.fail(node.args[int(first)], f"torch's {name} has another argument here; give it by its name")


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
        told = "functions are torch's and called by their plain name"
        builder.fail(node.func, f"{told}; write {node.func.attr}(...) if that is meant")
    if name is None:
        builder.fail(node, "only functions can be called, by their name")
    builder.calls.setdefault(name, builder.syntax.offset(node.func))
    return name


def _of_composite(builder: Builder, name: str, row: Composite, node: ast.Call) -> Expr:
    found, *others = composite_call(builder, name, row, node)
    if others:
        builder.fail(node, f"{name}(...) has several results; add [0], [1] and so on, here or where its name is used")
    builder.sources |= found.sources
    assert found.expr is not None
    return found.expr


def _check_known(builder: Builder, name: str, node: ast.Call) -> None:
    """Refuse the name of no function."""
    if composite(name) is None and not any(name in table for table in (SPECIAL, TENSOR_SPELLINGS, SPELLINGS)):
        known = (*SPECIAL, *TENSOR_SPELLINGS, *SPELLINGS)
        near = instead_of(name) or (slip_of(name, known) if name.isascii() else builder.suggestion(name, known))
        builder.fail(node.func, f"unknown function {shown(name)}{near}")


def call(builder: Builder, name: str, node: ast.Call) -> Expr:
    """The value of ``name(...)``."""
    node = spread(builder, name, _without_options(builder, name, node))
    name = plain_name(builder, node.func) or name  # which spreading may change
    if name in SPECIAL:
        return SPECIAL[name](builder, name, node)
    if name in TENSOR_SPELLINGS:
        return tensor_call(builder, name, node)
    if name not in SPELLINGS and name in builder.scope.names and builder.syntax.source(node.func) == name:
        builder.fail(node.func, f"{name!r} is not a function; for a product write '{name}*('")
    row = composite(name)
    if row is not None:
        return _of_composite(builder, name, row, node)
    _check_known(builder, name, node)
    return function_call(builder, name, node)
