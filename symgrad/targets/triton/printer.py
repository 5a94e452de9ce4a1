"""Machine-level expressions as Triton. What follows from hyperparameters alone has a name already."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from fractions import Fraction

from symgrad.accuracy.evaluate import exact
from symgrad.ir.expr import COMPARISONS, Expr
from symgrad.targets.constants import constant_name, rational
from symgrad.targets.exactness import is_decimal
from symgrad.targets.fused.writing import PassPrinter
from symgrad.targets.triton.spellings import SPELLINGS

__all__ = ["TritonPrinter"]

# Binding strength of Python's operators, weakest first.
_, _COMPARE, _OR, _AND, _SUM, _PRODUCT, _UNARY, _ATOM = range(8)

_INFIX = {
    "add": ("+", _SUM),
    "sub": ("-", _SUM),
    "mul": ("*", _PRODUCT),
}
_LOGICAL = {"and": ("&", _AND), "or": ("|", _OR)}


class TritonPrinter(PassPrinter):
    """Prints Triton; `typed` is the name of a value that has the dtype of the arithmetic."""

    infix = _INFIX
    atom = _ATOM

    def __init__(self, names: Mapping[Expr, str], constants: dict[Expr, str], typed: str) -> None:
        super().__init__(names, constants)
        self.typed = typed

    def block(self, node: Expr, *, strict: bool = True) -> str:
        """The source of an argument. A literal alone would be float32, and rounded to that before it is widened."""
        text = self(node)
        if node in self.names or not node.is_static:
            return text
        if node.is_boolean or (not strict and _is_single(_value(node))):
            return text
        return f"tl.full((), {text}, {self.typed}.dtype)"

    def _operation(self, node: Expr) -> tuple[str, int]:
        infix = self._operators(node)
        if infix is not None:
            return infix
        if node.op in COMPARISONS:
            return f" {COMPARISONS[node.op]} ".join(self._at(a, _OR) for a in node.args), _COMPARE
        if node.op in _LOGICAL:
            symbol, strength = _LOGICAL[node.op]
            return f" {symbol} ".join(self._at(a, strength + 1) for a in node.args), strength
        special = _SPECIAL.get(node.op)
        if special is not None:
            return special(self, node)
        row = SPELLINGS[node.op]
        return row.text.format(*(self.block(a, strict=row.strict) for a in node.args), typed=self.typed), _ATOM

    def _operators(self, node: Expr) -> tuple[str, int] | None:
        """Named constants stand on the right: Triton's interpreter has no operators for one on the left."""
        left = node.args[0]
        if node.op not in self.infix or left.symbols or self(left) not in self.constants.values():
            return super()._operators(node)
        symbol, strength = self.infix[node.op]
        right = f"-{self._at(node.args[1], _UNARY)}" if node.op == "sub" else self._at(node.args[1], strength)
        return f"{right} {symbol.replace('-', '+')} {self(left)}", strength

    def _inner(self, node: Expr) -> tuple[str, int]:
        return self._print(node.args[0])

    def _neg(self, node: Expr) -> tuple[str, int]:
        return f"-{self._at(node.args[0], _UNARY)}", _UNARY

    def _not(self, node: Expr) -> tuple[str, int]:
        return f"~{self._at(node.args[0], _UNARY)}", _UNARY

    def _div(self, node: Expr) -> tuple[str, int]:
        return f"divide({', '.join(map(self, node.args))})", _ATOM

    def _where(self, node: Expr) -> tuple[str, int]:
        condition, then, otherwise = node.args
        both = then.is_static and otherwise.is_static and not node.is_boolean
        branches = (self.block(b, strict=both) for b in (then, otherwise))
        return f"tl.where({self(condition)}, {', '.join(branches)})", _ATOM

    def _power(self, node: Expr) -> tuple[str, int]:
        base, exponent = node.args
        known = None if exponent.number is None else _POWERS.get(exponent.number)
        if known is not None:
            return f"{known}({self.block(base)})", _ATOM
        return f"libdevice.pow({self.block(base)}, {self.block(exponent)})", _ATOM

    def _rational(self, value: Fraction) -> tuple[str, int]:
        if not is_decimal(value.denominator):
            return rational(value), _PRODUCT
        return rational(value), _ATOM if value >= 0 else _UNARY

    def _constant(self, node: Expr) -> tuple[str, int]:
        """A constant expression: a literal, or a name for what is defined once at the top."""
        if node.op in ("true", "false"):
            return node.op.capitalize(), _ATOM
        if node.number is not None:
            return self._rational(node.number)
        value = _value(node)
        if value < 0:
            return f"-{self._at(-node, _ATOM)}", _UNARY
        if not math.isfinite(value):
            return f'float("{value}")', _ATOM
        if value == int(value) and value < 1e6:
            return f"{value}", _ATOM
        if node not in self.constants:
            self.constants[node] = constant_name(node, {*self.constants.values(), *self.names.values()})
        return self.constants[node], _ATOM


def _value(node: Expr) -> float:
    """The value of an expression without symbols, correctly rounded."""
    (value,) = exact([node], {}, 200)
    return float(value)


def _is_single(value: float) -> bool:
    """Whether float32 holds a number."""
    if not math.isfinite(value):
        return True
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return False
    return bool(rounded == value)


_POWERS = {
    Fraction(2): "square",
    Fraction(3): "cube",
    Fraction(1, 2): "sqrt",
    Fraction(-1, 2): "rsqrt",
    Fraction(3, 2): "sqrt_cubed",
}
_SPECIAL: dict[str, Callable[[TritonPrinter, Expr], tuple[str, int]]] = {
    "neg": TritonPrinter._neg,
    "not": TritonPrinter._not,
    "div": TritonPrinter._div,
    "where": TritonPrinter._where,
    "row_value": TritonPrinter._inner,
    "pow": TritonPrinter._power,
}
