"""Machine-level expressions as C++: lanes where tensors take part, doubles elsewhere."""

from __future__ import annotations

from fractions import Fraction

from symgrad.accuracy.widening import WIDEN
from symgrad.ir import expr as ex
from symgrad.ir.expr import COMPARISONS, Expr
from symgrad.targets.constants import constant_name, constant_value
from symgrad.targets.cpp.spellings import SPELLINGS
from symgrad.targets.exactness import is_decimal
from symgrad.targets.fused.writing import PassPrinter

__all__ = ["CppPrinter"]

# Binding strength of the operators, weakest first.
_CONDITIONAL, _OR, _AND, _EQUAL, _COMPARE, _SUM, _PRODUCT, _UNARY, _ATOM = range(9)

_INFIX = {
    "add": ("+", _SUM),
    "sub": ("-", _SUM),
    "mul": ("*", _PRODUCT),
    "div": ("/", _PRODUCT),
}


class CppPrinter(PassPrinter):
    """Prints C++."""

    infix = _INFIX
    atom = _ATOM

    def lanes(self, node: Expr) -> str:
        """The source of an expression as lanes, where an argument cannot be a number."""
        return f"V({self(node)})" if node.is_static else self(node)

    def _operation(self, node: Expr) -> tuple[str, int]:
        if node.is_static:
            return self._number(node)
        if node.op == "where":
            condition, then, otherwise = node.args
            if condition.is_static:
                return f"{self(condition)} ? {self.lanes(then)} : {self.lanes(otherwise)}", _CONDITIONAL
            return f"where({self(condition)}, {self.lanes(then)}, {self.lanes(otherwise)})", _ATOM
        if node.op in ("and", "or"):
            return self._logical(node, " & " if node.op == "and" else " | ")
        if node.op == "not":
            return f"!{self._at(node.args[0], _ATOM)}", _UNARY
        if node.op == "pow":
            return self._power(node)
        if node.op == "clamp" and not any(a.symbols for a in node.args[1:]):
            return self._clamp(*node.args), _ATOM
        if node.op == "exp" and self._is_minus_abs(node.args[0]):
            return f"exp_minus_abs({self(node.args[0].args[0].args[0])})", _ATOM
        return self._shared(node) or (SPELLINGS[node.op].lanes.format(*map(self.lanes, node.args)), _ATOM)

    def _is_minus_abs(self, node: Expr) -> bool:
        """Whether an expression is -|x|, and has no name of its own."""
        return node.op == "neg" and node.args[0].op == "abs" and not {node, node.args[0]} & self.names.keys()

    def _shared(self, node: Expr) -> tuple[str, int] | None:
        """What reads alike on lanes and on doubles."""
        if node.op == "neg":
            return f"-{self._at(node.args[0], _UNARY + 1)}", _UNARY
        if node.op in COMPARISONS:
            return f" {COMPARISONS[node.op]} ".join(self._at(a, _SUM) for a in node.args), _COMPARE
        return self._operators(node)

    def _logical(self, node: Expr, symbol: str) -> tuple[str, int]:
        """`&` and `|` bind so weakly that every part that is no name stands in parentheses."""
        return symbol.join(self._at(a, _ATOM) for a in node.args), _OR

    def _power(self, node: Expr) -> tuple[str, int]:
        base, exponent = node.args
        n = exponent.number
        if n in _POWERS:
            return f"{_POWERS[n]}({self.lanes(base)})", _ATOM
        return f"pow({self.lanes(base)}, {self(exponent) if exponent.is_static else self.lanes(exponent)})", _ATOM

    def _clamp(self, value: Expr, low: Expr, high: Expr) -> str:
        """A value between constants, of which the instructions for it need not ask whether they are NaN."""
        text = self.lanes(value)
        if low is not -ex.OO:
            text = f"at_least({text}, {self(low)})"
        return text if high is ex.OO else f"at_most({text}, {self(high)})"

    # ------------------------------------------------------------------------------------------ numbers
    def _number(self, node: Expr) -> tuple[str, int]:
        if node.op == WIDEN:
            return self._number(node.args[0])  # a double, as it is
        if node in self.names:
            return self.names[node], _ATOM
        if node.op == "where":
            return "{} ? {} : {}".format(*(self._at(a, _OR) for a in node.args)), _CONDITIONAL
        if node.op in ("and", "or"):
            return self._logical(node, " && " if node.op == "and" else " || ")
        if node.op == "not":
            return f"!{self._at(node.args[0], _ATOM)}", _UNARY
        if node.op == "add":
            return " + ".join(self._at(a, _SUM + 1) for a in node.args), _SUM
        if node.op == "mul":
            return " * ".join(self._at(a, _PRODUCT + 1) for a in node.args), _PRODUCT
        if node.op == "pow":
            base, exponent = node.args
            if exponent.number == -1:
                return f"1 / {self._at(base, _UNARY)}", _PRODUCT
            if exponent.number == Fraction(1, 2):
                return f"std::sqrt({self(base)})", _ATOM
            return f"std::pow({self(base)}, {self(exponent)})", _ATOM
        return self._shared(node) or (SPELLINGS[node.op].number.format(*map(self, node.args)), _ATOM)

    def _constant(self, node: Expr) -> tuple[str, int]:
        """A constant expression: a literal, or a name for what is defined once at the top."""
        if node.op in ("true", "false"):
            return node.op, _ATOM
        if node.op == "const" and node["name"] in ("oo", "nan"):
            return {"oo": "__builtin_inf()", "nan": '__builtin_nan("")'}[node["name"]], _ATOM
        number = node.number
        if number is not None:
            return _literal(number)
        value = constant_value(node)
        if value is None:
            return self._number(node)
        if value < 0:
            return f"-{self._at(-node, _ATOM)}", _UNARY
        if value == int(value) and value < 1e6:
            return f"{int(value)}.", _ATOM
        if node not in self.constants:
            name = constant_name(node, {f"_{c}" for c in self.constants.values()}).strip("_")
            self.constants[node] = name if name[0].isalpha() else f"C{name}"
        return self.constants[node], _ATOM


_POWERS = {
    Fraction(2): "square",
    Fraction(3): "cube",
    Fraction(1, 2): "sqrt",
    Fraction(-1, 2): "rsqrt",
    Fraction(3, 2): "sqrt_cubed",
}


def _literal(value: Fraction) -> tuple[str, int]:
    """A rational as the shortest literal that is exact to a double, or as a quotient of doubles."""
    sign = "-" if value < 0 else ""
    size = abs(value)
    text = str(size) if size.denominator == 1 and size < 2**31 else repr(float(size))
    if Fraction(text) == size or float(size) == size or is_decimal(size.denominator):
        return sign + text, _UNARY if sign else _ATOM
    return f"{sign}{size.numerator}. / {size.denominator}", _PRODUCT
