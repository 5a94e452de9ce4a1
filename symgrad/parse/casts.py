"""Casts and the limits of dtypes.

A formula is computed in float32 at least and its results have the dtype of the tensors, so that a cast to float32 that
is cast back says what is done anyway. One that is not would give a result of another dtype, and is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from symgrad.analysis.integers import is_whole_tensor
from symgrad.ir.expr import MINUS_ONE, OO, Expr, make, num
from symgrad.ir.truth import as_number
from symgrad.ops.tensors import is_index
from symgrad.parse.arguments import bind

if TYPE_CHECKING:
    from symgrad.parse.build import Builder

__all__ = ["CASTS", "limit", "widen"]

_FORMATS: Mapping[str, tuple[int, int]] = {  # digits of the significand, and the largest exponent
    "float16": (11, 15),
    "half": (11, 15),
    "bfloat16": (8, 127),
    "float32": (24, 127),
    "float": (24, 127),
    "float64": (53, 1023),
    "double": (53, 1023),
}
_WIDE = ("float32", "float")


def _largest(digits: int, exponent: int) -> Fraction:
    return Fraction(2) ** (exponent + 1) - Fraction(2) ** (exponent + 1 - digits)


def _smallest(digits: int, exponent: int) -> Fraction:
    return Fraction(2) ** (1 - exponent)


_LIMITS: Mapping[str, Callable[[int, int], Fraction]] = {
    "eps": lambda digits, exponent: Fraction(2) ** (1 - digits),
    "max": _largest,
    "min": lambda digits, exponent: -_largest(digits, exponent),
    "tiny": _smallest,
    "smallest_normal": _smallest,
}


def limit(builder: Builder, node: ast.Attribute) -> Expr | None:
    """The number that `finfo(float32).eps` and the like are; None for anything else."""
    called = node.value
    if not isinstance(called, ast.Call) or builder.syntax.source(called.func).rpartition(".")[2] != "finfo":
        return None
    (dtype,) = bind(builder, "finfo", called, ("dtype",), 1).values()
    name = builder.syntax.source(dtype).rpartition(".")[2]
    if name not in _FORMATS:
        builder.fail(dtype, "the dtype of a tensor is known at a call alone; name one, as in finfo(float32).eps")
    if node.attr not in _LIMITS:
        builder.fail(node, f"finfo has {', '.join(_LIMITS)}")
    return num(_LIMITS[node.attr](*_FORMATS[name]))


def _cast(builder: Builder, name: str, node: ast.Call) -> Expr:
    """`cast(x, float32)`, `x.float()`, `x.to(torch.float32)`; and back by `cast(x, x.dtype)`, `x.type_as(x)`."""
    parameters = ("input",) if name in _REFUSED else ("input", "other" if name == "type_as" else "dtype")
    bound = bind(builder, name, node, parameters, len(parameters))
    operand, dtype = bound["input"], bound[parameters[-1]]
    if name == "float" and isinstance(operand, ast.Constant):  # of Python: `float("-inf")`
        return _INFINITIES[operand.value] if operand.value in _INFINITIES else builder.value(operand)
    whole = _whole(builder, operand)
    if whole is not None:
        is_moved = whole.is_boolean or name in ("int", "long")
        return as_number(whole) if is_moved else make("floated", whole)
    if name == "float" or builder.syntax.source(dtype).rpartition(".")[2] in _WIDE:
        widen(builder, node)
        return builder.value(operand)
    if name in _REFUSED:
        builder.fail(node, _REFUSED[name])
    like = dtype.value if isinstance(dtype, ast.Attribute) and dtype.attr == "dtype" else dtype
    if name != "type_as" and like is dtype:
        builder.fail(dtype, _OTHERS)
    tensor = builder.value(like)
    outer, builder.casting = builder.casting, True
    try:
        value = builder.value(operand)
    finally:
        builder.casting = outer
    others = {s for s in value.tensors if s["kind"] == "tensor"} - {tensor}
    if tensor.op != "sym" or others or not value.tensors:
        names = " and ".join(sorted(s.name for s in others)) or "nothing"
        builder.fail(node, f"the result has the dtype of all that it is made of, here of {names}, too; {_PART}")
    return as_number(value)


def widen(builder: Builder, node: ast.AST) -> None:
    """Note that a value has another dtype, which is cast back around it, or in what reads this intermediate."""
    if not builder.casting and not builder.scope.may_widen:
        builder.fail(node, _NOT_BACK)
    builder.widened |= not builder.casting


def _whole(builder: Builder, operand: ast.expr) -> Expr | None:
    """The value of what is cast where these are truth values or integers, which any dtype holds; None for others."""
    outer, builder.casting = builder.casting, True
    sources = builder.sources
    try:
        value, own = builder.isolated(builder.value, operand)
    finally:
        builder.casting = outer
    if not (value.is_boolean or is_whole_tensor(value) or is_index(value)):
        return None
    builder.sources = sources | own
    return value


_INFINITIES: Mapping[object, Expr] = {"inf": OO, "+inf": OO, "-inf": MINUS_ONE * OO}
_NOT_BACK = (
    "a result has the dtype of the tensors; formulas are computed in float32 at least, so leave the cast out, or cast "
    "back: cast(..., x.dtype)"
)
_OTHERS = "there are casts to float32, and back to the dtype of a tensor: cast(..., x.dtype)"
_REFUSED = {  # methods that name a dtype
    "float": _NOT_BACK,
    "double": _NOT_BACK,
    **dict.fromkeys(("int", "long"), "of floats there are no integers; write floor(x), or trunc(x)"),
}
_PART = "cast the part alone that is of one tensor"

CASTS: Mapping[str, Callable[[Builder, str, ast.Call], Expr]] = dict.fromkeys(
    ("cast", "to", "type_as", *_REFUSED), _cast
)
