"""Machine-level expressions as C++: lanes where tensors take part, doubles elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

from symgrad.accuracy.widening import WIDEN, is_double
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.lower.code import Code, all_of, any_of, binary, code, constant, joined, minus, name
from symgrad.targets.constants import constant_name, constant_value, is_decimal
from symgrad.targets.cpp.spellings import SPELLINGS
from symgrad.targets.fused.writing import POWERS, PassPrinter

__all__ = ["CppPrinter"]


class CppPrinter(PassPrinter):
    """Prints C++."""

    infix: ClassVar[Mapping[str, str]] = {"add": "+", "sub": "-", "mul": "*", "div": "/"}

    def lanes(self, node: Expr, beside: Sequence[Expr] = ()) -> Code:
        """An expression as lanes, where an argument cannot be a number: of the type of what is beside it."""
        kind = "InDouble" if any(map(is_double, beside)) else "V"
        return code(f"{kind}({{0}})", self(node)) if node.is_static else self(node)

    def _operation(self, node: Expr) -> Code:
        if node.is_static:
            return self._number(node)
        if node.op == "where":
            condition, then, otherwise = node.args
            template = "{1} if {0} else {2}" if condition.is_static else "where({0}, {1}, {2})"
            return code(template, self(condition), *(self.lanes(b, node.args) for b in (then, otherwise)))
        if node.op in ("and", "or"):
            return joined("&" if node.op == "and" else "|", list(map(self, node.args)))
        if node.op == "pow":
            return self._power(node)
        if node.op == "clamp" and not any(a.symbols for a in node.args[1:]):
            return self._clamp(*node.args)
        if node.op == "exp" and self._is_minus_abs(node.args[0]):
            return code("exp_minus_abs({0})", self(node.args[0].args[0].args[0]))
        return self._shared(node) or code(SPELLINGS[node.op].lanes, *(self.lanes(a, node.args) for a in node.args))

    def _is_minus_abs(self, node: Expr) -> bool:
        """Whether an expression is -|x|, and has no name of its own."""
        return node.op == "neg" and node.args[0].op == "abs" and not {node, node.args[0]} & self.names.keys()

    def _shared(self, node: Expr) -> Code | None:
        """What reads alike on lanes and on doubles."""
        if node.op in ("neg", "not"):
            return code("-{0}" if node.op == "neg" else "not {0}", self(node.args[0]))
        if (
            node.op == "sub"
            and any(map(_is_product, node.args))
            and all(_is_product(a) or _is_of_row(a) for a in node.args)
        ):
            return code("difference({0}, {1})", *map(self, node.args))  # of equal products 0: neither is fused with it
        return self._operators(node)

    def _power(self, node: Expr) -> Code:
        base, exponent = node.args
        n = exponent.number
        if n in POWERS:
            return code(f"{POWERS[n]}({{0}})", self.lanes(base))
        found = self.lanes(base, node.args)
        return code("pow({0}, {1})", found, self(exponent) if exponent.is_static else self.lanes(exponent))

    def _clamp(self, value: Expr, low: Expr, high: Expr) -> Code:
        """A value between constants, of which the instructions for it need not ask whether they are NaN."""
        found = self.lanes(value)
        if low is not -ex.OO:
            found = code("at_least({0}, {1})", found, self(low))
        return found if high is ex.OO else code("at_most({0}, {1})", found, self(high))

    # ------------------------------------------------------------------------------------------ numbers
    def _number(self, node: Expr) -> Code:
        if node.op == WIDEN:
            return self._number(node.args[0])  # a double, as it is
        if node in self.names:
            return self(node)
        parts = [self(a) for a in node.args]
        if node.op == "where":
            return code("{1} if {0} else {2}", *parts)
        if node.op in ("and", "or"):
            return (all_of if node.op == "and" else any_of)(parts)
        if node.op in ("add", "mul"):
            return joined("+" if node.op == "add" else "*", parts)
        if node.op == "pow":
            exponent = node.args[1].number
            if exponent == -1:
                return code("1 / {0}", parts[0])
            return code("__builtin_sqrt({0})" if exponent == Fraction(1, 2) else "__builtin_pow({0}, {1})", *parts)
        return self._shared(node) or code(SPELLINGS[node.op].number, *parts)

    def _constant(self, node: Expr) -> Code:
        """A constant expression: a literal, or a name for what is defined once at the top."""
        if node.op in ("true", "false"):
            return constant(node.op == "true")
        if node.op == "const" and node["name"] in ("oo", "nan"):
            return code({"oo": "__builtin_inf()", "nan": '__builtin_nan("")'}[node["name"]])
        if node.number is not None:
            return _literal(node.number)
        value = constant_value(node)
        if value is None or not math.isfinite(value):
            return self._number(node)
        if value < 0:
            return minus(self(-node))
        if value == int(value) and value < 1e6:
            return constant(value)
        if node not in self.constants:
            own = constant_name(node, {f"_{c}" for c in self.constants.values()}).strip("_")
            self.constants[node] = own if own[0].isalpha() else f"C{own}"
        return name(self.constants[node])


def _is_product(node: Expr) -> bool:
    node = node.args[0] if node.op == "neg" else node
    return not node.is_static and (node.op == "mul" or (node.op == "pow" and node.args[1].number in (2, 3)))


_INTEGERS = 2**31
_EXACT = 2**53  # whole numbers below it are doubles; those from 2**64 on are no integers of C++


def _literal(value: Fraction) -> Code:
    """A rational as the shortest literal that is exact to a double, or as a quotient of doubles."""
    if value < 0:
        return minus(_literal(-value))
    if value.denominator == 1 and value < _INTEGERS:
        return constant(int(value))
    simple = Fraction(repr(float(value))) == value or float(value) == value or is_decimal(value.denominator)
    if simple or max(value.numerator, value.denominator) > _EXACT:
        return constant(float(value))
    return binary("/", constant(float(value.numerator)), constant(value.denominator))


def _is_of_row(value: Expr) -> bool:
    """Whether a value is the largest or smallest of a row, or is made of it: of a product it may leave nothing."""
    return value.op in _EXTREMA or (value.op in ("add", "sub", "where", "neg") and any(map(_is_of_row, value.args)))


_EXTREMA = ("row_max", "row_min")
