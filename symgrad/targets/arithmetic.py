"""What printers for Python have in common: names, constants, and arithmetic on Python numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

from symgrad.ir import expr as ex
from symgrad.ir.expr import COMPARISONS, Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, added, all_of, any_of, binary, code, constant, joined, minus, name, source
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import is_number
from symgrad.ops.tensors.row import is_whole_number
from symgrad.targets.constants import constant_name, constant_value, number

__all__ = ["Arithmetic", "has_size"]

_NAMED = {"pi": "math.pi", "E": "math.e", "oo": "math.inf", "nan": "math.nan"}


class Arithmetic(ABC):
    """Prints expressions; `names` gives the Python names of symbols and of values computed before, or their code.

    Constants that are not plain numbers are collected in `constants`, to be defined once. A quotient by a size, which
    may be 0, is that of a helper, of which `size_quotient` is the template.
    """

    infix: ClassVar[Mapping[str, str]] = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@"}
    size_quotient: ClassVar[str]

    def __init__(self, names: Mapping[Expr, str | Code], constants: dict[Expr, str]) -> None:
        self.names = names
        self.constants = constants

    def __call__(self, node: Expr) -> Code:
        """The code of an expression."""
        if node in self.names:
            known = self.names[node]
            return name(known) if isinstance(known, str) else known
        if node.op == "num":
            return number(node["value"])
        if node.op == "text":
            return constant(node["value"])
        if node.op in ("true", "false"):
            return constant(node.op == "true")
        if not node.symbols:
            return self._constant(node)
        return self._scalar(node) if is_number(node) and node.op != "count" else self._tensor(node)

    def text(self, node: Expr) -> str:
        """The source of an expression."""
        return source(self(node))

    def operand(self, node: Expr) -> Code:
        """An operand of an operation; what is made of sizes is a whole number, also where it divides them."""
        if not is_number(node):
            return self(node)
        if node.op in ("add", "sub", "mul", "div") and any(n.op == "div" for n in topological(node)):
            sign = "//" if node.op == "div" else Arithmetic.infix[node.op]
            return binary(sign, *map(self.operand, node.args))
        factor, rest = ex.split_coefficient(node)
        if factor.denominator == 1:
            return self(node)
        return binary("//", self(factor.numerator * rest), constant(factor.denominator))

    @abstractmethod
    def _tensor(self, node: Expr) -> Code:
        """What is no number for Python, or is read of something that is not."""

    def _all(self, nodes: Sequence[Expr]) -> list[Code]:
        return [self(n) for n in nodes]

    # ------------------------------------------------------------------------------------------ in both
    def _infix(self, node: Expr) -> Code:
        return binary(self.infix[node.op], *self._all(node.args))

    def _comparison(self, node: Expr) -> Code:
        return code(f"{{0}} {COMPARISONS[node.op]} {{1}}", *self._all(node.args))

    def _logical(self, node: Expr) -> Code:
        return joined("&" if node.op == "and" else "|", self._all(node.args))

    def _not(self, node: Expr) -> Code:
        return code("~{0}", self(node.args[0]))

    def _neg(self, node: Expr) -> Code:
        return minus(self(node.args[0]))

    # ------------------------------------------------------------------------------------------ Python scalars
    def _scalar(self, node: Expr) -> Code:
        """Python arithmetic on hyperparameters and sizes; sums and products of any length."""
        own = _SCALAR.get(node.op)
        if own is not None:
            return own(self, node)
        return self._comparison(node) if node.op in COMPARISONS else self._function(node)

    def _function(self, node: Expr) -> Code:
        return code(FUNCTIONS[node.op].python, *self._all(node.args))

    def _sum(self, node: Expr) -> Code:
        first, *rest = self._all(node.args)
        for term in rest:
            first = added(first, term)
        return first

    def _product(self, node: Expr) -> Code:
        """Factors over divisors."""
        over: list[Code] = []
        under: list[Expr] = []
        negative = False
        for factor in node.args:
            value, exponent = factor.number, factor.args[1].number if factor.op == "pow" else None
            if value is not None:
                negative = value < 0
                over += [constant(abs(value.numerator))] if abs(value.numerator) != 1 else []
                under += [ex.num(value.denominator)] if value.denominator != 1 else []
            elif exponent is not None and exponent < 0:
                under.append(ex.make_power(factor.args[0], ex.num(-exponent)))
            else:
                over.append(self(factor))
        over = over or [constant(1)]
        if negative:
            over[0] = minus(over[0])
        return self._quotient(joined("*", over), under) if under else joined("*", over)

    def _quotient(self, over: Code, under: Sequence[Expr]) -> Code:
        """A quotient; by a size it is infinite where that is 0, as it is for tensors."""
        divisor = joined("*", self._all(under))
        return code(self.size_quotient if any(map(has_size, under)) else "{0} / {1}", over, divisor)

    def _division(self, node: Expr) -> Code:
        return self._quotient(self(node.args[0]), node.args[1:])

    def _floor(self, node: Expr) -> Code:
        """A quotient of whole numbers that is rounded down, as Python has it; any other number by its function."""
        quotient = node.args[0]
        over, under = quotient.args if quotient.op == "div" else (quotient, ex.ONE)
        coefficient, rest = ex.split_coefficient(over)
        powers = {f: f.args[1].integer or 0 for f in rest.factors if f.op == "pow"}
        divisors = [ex.power(f.args[0], -n) for f, n in powers.items() if n < 0]
        over = ex.mul(ex.num(coefficient.numerator), *(f for f in rest.factors if powers.get(f, 0) >= 0))
        under = ex.mul(ex.num(coefficient.denominator), under, *divisors)
        if is_whole_number(over) and is_whole_number(under) and under is not ex.ONE and under.number != 0:
            return binary("//", self(over), self(under))
        return self._function(node)

    def _scalar_power(self, node: Expr) -> Code:
        base, exponent = node.args
        if exponent.number == Fraction(1, 2):
            return code("math.sqrt({0})", self(base))
        if exponent.number is not None and exponent.number < 0:
            return self._quotient(constant(1), [ex.make_power(base, ex.num(-exponent.number))])
        return binary("**", self(base), self(exponent))

    def _constant(self, node: Expr) -> Code:
        """A constant expression: pi and the like by name, others defined once at the top of the module."""
        if node.op == "const" and node["name"] in _NAMED:
            return code(_NAMED[node["name"]])
        value = constant_value(node)
        if value is None:
            return self._scalar(node)
        if not math.isfinite(value):  # log(0) is an error for Python, and -oo among tensors
            return constant(value)
        if value == int(value) and abs(value) < 1e6:
            return constant(int(value))
        if value < 0:
            return minus(self._constant(-node))
        if node not in self.constants:
            self.constants[node] = constant_name(node, self.constants.values())
        return name(self.constants[node])


def has_size(number: Expr) -> bool:
    """Whether a size is a part of a number, which may be 0; a least size is none of 0."""
    return number.op != "maximum" and any(n.op == "count" for n in topological(number))


_SCALAR: dict[str, Callable[[Arithmetic, Expr], Code]] = {
    "where": lambda printer, node: code("{1} if {0} else {2}", *printer._all(node.args)),
    "and": lambda printer, node: all_of(printer._all(node.args)),
    "or": lambda printer, node: any_of(printer._all(node.args)),
    "not": lambda printer, node: code("not {0}", printer(node.args[0])),
    "add": Arithmetic._sum,
    "mul": Arithmetic._product,
    "pow": Arithmetic._scalar_power,
    "div": Arithmetic._division,
    "floor": Arithmetic._floor,
    "sub": lambda printer, node: printer._infix(node),  # of sizes, which are lowered like tensors
    "neg": Arithmetic._neg,
}
