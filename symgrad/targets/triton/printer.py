"""Machine-level expressions as Triton. What follows from hyperparameters alone has a name already."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import ClassVar

from symgrad.ir.expr import Expr
from symgrad.lower.code import Code, binary, code, constant, joined, minus, name
from symgrad.targets.constants import constant_name, constant_value, number
from symgrad.targets.fused.writing import POWERS, PassPrinter
from symgrad.targets.triton.spellings import SPELLINGS

__all__ = ["TritonPrinter"]


class TritonPrinter(PassPrinter):
    """Prints Triton; `typed` is the name of a value that has the dtype of the arithmetic."""

    infix: ClassVar[Mapping[str, str]] = {"add": "+", "sub": "-", "mul": "*"}

    def __init__(self, names: Mapping[Expr, str | Code], constants: dict[Expr, str], typed: str) -> None:
        super().__init__(names, constants)
        self.typed = typed

    def block(self, node: Expr, *, strict: bool = True) -> Code:
        """The code of an argument. A literal alone would be float32, and rounded to that before it is widened."""
        value = self(node)
        if node in self.names or not node.is_static:
            return value
        if node.is_boolean or (not strict and _is_single(constant_value(node))):
            return value
        return code("tl.full((), {0}, {1}.dtype)", value, self.typed)

    def _operation(self, node: Expr) -> Code:
        infix = self._operators(node)
        if infix is not None:
            return infix
        if node.op in ("and", "or"):
            return joined("&" if node.op == "and" else "|", list(map(self, node.args)))
        special = _SPECIAL.get(node.op)
        if special is not None:
            return special(self, node)
        row = SPELLINGS[node.op]
        return code(row.text, *(self.block(a, strict=row.strict) for a in node.args), typed=self.typed)

    def _operators(self, node: Expr) -> Code | None:
        """Named constants stand on the right: Triton's interpreter has no operators for one on the left."""
        if node.op not in self.infix or not self._is_constant(node.args[0]):
            return super()._operators(node)
        left, right = map(self, node.args)
        if node.op == "sub":
            return binary("+", minus(right), left)
        return binary(self.infix[node.op], right, left)

    def _is_constant(self, node: Expr) -> bool:
        """Whether an expression is one of the named constants."""
        return not node.symbols and (self(node), node in self.constants)[1]

    def _inner(self, node: Expr) -> Code:
        return self(node.args[0])

    def _neg(self, node: Expr) -> Code:
        return minus(self(node.args[0]))

    def _not(self, node: Expr) -> Code:
        return code("~{0}", self(node.args[0]))

    def _div(self, node: Expr) -> Code:
        return code("divide({0}, {1})", *map(self, node.args))

    def _where(self, node: Expr) -> Code:
        condition, then, otherwise = node.args
        both = then.is_static and otherwise.is_static and not node.is_boolean
        return code("tl.where({0}, {1})", self(condition), [self.block(b, strict=both) for b in (then, otherwise)])

    def _power(self, node: Expr) -> Code:
        base, exponent = node.args
        known = None if exponent.number is None else POWERS.get(exponent.number)
        if known is not None:
            return code(f"{known}({{0}})", self.block(base))
        return code("libdevice.pow({0}, {1})", self.block(base), self.block(exponent))

    def _constant(self, node: Expr) -> Code:
        """A constant expression: a literal, or a name for what is defined once at the top."""
        if node.op in ("true", "false"):
            return constant(node.op == "true")
        if node.number is not None:
            return number(node.number)
        value = constant_value(node)
        assert value is not None
        if value < 0:
            return minus(self(-node))
        if not math.isfinite(value):
            return code("float({0})", constant(str(value)))
        if value == int(value) and value < 1e6:
            return constant(value)
        if node not in self.constants:
            taken = {*self.constants.values(), *(own for own in self.names.values() if isinstance(own, str))}
            self.constants[node] = constant_name(node, taken)
        return name(self.constants[node])


def _is_single(value: float | None) -> bool:
    """Whether float32 holds a number, if it is one."""
    if value is None or not math.isfinite(value):
        return True
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return False
    return bool(rounded == value)


_SPECIAL: dict[str, Callable[[TritonPrinter, Expr], Code]] = {
    "neg": TritonPrinter._neg,
    "not": TritonPrinter._not,
    "div": TritonPrinter._div,
    "where": TritonPrinter._where,
    "row_value": TritonPrinter._inner,
    "pow": TritonPrinter._power,
}
