"""Machine forms over arrays: operations in the words of a framework, Python scalars in arithmetic."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from fractions import Fraction

from symgrad.analysis.integers import is_integer
from symgrad.ir import expr as ex
from symgrad.ir.expr import COMPARISONS, OO, Expr, split_coefficient
from symgrad.ir.traversal import topological
from symgrad.lower.code import (
    Code,
    Part,
    added,
    all_of,
    any_of,
    binary,
    code,
    constant,
    fill,
    joined,
    keyword,
    minus,
    name,
    tuple_of,
)
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS, Ref, is_number, shape_only
from symgrad.ops.tensors.extent import extent
from symgrad.ops.tensors.shapes import shape_sources
from symgrad.targets.arrays.spelling import Spelling
from symgrad.targets.constants import constant_name, constant_value, number

__all__ = ["Printer"]

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@"}
_NAMED = {"pi": "math.pi", "E": "math.e", "oo": "math.inf", "nan": "math.nan"}


class Printer:
    """Prints expressions; `names` are the Python names of symbols and of values computed before, or their code.

    Constants that are no plain numbers are collected in `constants`, to be defined once. What is printed may be
    `differentiated` again, by the framework.
    """

    def __init__(
        self,
        spelling: Spelling,
        names: Mapping[Expr, str | Code],
        constants: dict[Expr, str],
        *,
        differentiated: bool = False,
    ) -> None:
        self.names = names
        self._spelling = spelling
        self._constants = constants
        self._functions = {**spelling.functions, **(spelling.differentiated if differentiated else {})}

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
        if node.op == "count":
            return self._count(node)
        return self._scalar(node) if is_number(node) else self._array(node)

    def shape(self, like: Expr) -> Code:
        """The shape of a value: of the value itself, or of what it broadcasts from."""
        sources = [self(s) for s in self._shaped_like(like)]
        if len(sources) == 1:
            return code("{0}.shape", sources[0])
        return code("rt.shape_of({0})", sources) if sources else code("()")

    def _shaped_like(self, like: Expr) -> list[Expr]:
        """The values that a value has its shape from: itself alone, if it has a name."""
        return [like] if like in self.names else sorted(shape_sources(like), key=lambda s: s.order)

    # ------------------------------------------------------------------------------------------ arrays
    def _array(self, node: Expr) -> Code:
        own = _ARRAY.get(node.op)
        if own is not None:
            return own(self, node)
        if node.op in _INFIX:
            return self._infix(node)
        if node.op in COMPARISONS:
            return self._comparison(node)
        if node.op in TENSOR_OPS:
            return self._operation(node)
        return code(self._functions[node.op], *map(self, node.args))

    def _comparison(self, node: Expr) -> Code:
        return code(f"{{0}} {COMPARISONS[node.op]} {{1}}", *map(self, node.args))

    def _infix(self, node: Expr) -> Code:
        return binary(_INFIX[node.op], *map(self, node.args))

    def _logical(self, node: Expr) -> Code:
        return joined("&" if node.op == "and" else "|", list(map(self, node.args)))

    def _neg(self, node: Expr) -> Code:
        return minus(self(node.args[0]))

    def _inner(self, node: Expr) -> Code:
        return self(node.args[0])

    def _where(self, node: Expr) -> Code:
        condition, then, otherwise = node.args
        if condition.is_static:
            branches = [self._filled(a, b) for a, b in ((then, otherwise), (otherwise, then))]
            return code("{1} if {0} else {2}", self(condition), *branches)
        plain = node.is_boolean or is_integer(node)
        branches = [self(a) if plain else self._as_float(a) for a in (then, otherwise)]
        return self._of_arrays("where", self(condition), *branches)

    def _of_arrays(self, function: str, *arguments: Code) -> Code:
        """A call of a function of the module of arrays."""
        return code(f"{self._spelling.arrays}.{function}({{0}})", arguments)

    def _filled(self, branch: Expr, other: Expr) -> Code:
        """A branch of a Python choice; a number has the shape of the other branch."""
        if not is_number(branch) or is_number(other):
            return self(branch)
        return self._of_arrays("full", self.shape(other), self._as_float(branch))

    def _as_float(self, value: Expr) -> Code:
        """A value; a whole number as a float, which it is in a choice."""
        if value.number is not None and value.number.denominator == 1:
            return constant(float(value.number))
        return code("float({0})" if is_number(value) and _is_whole(value) else "{0}", self(value))

    def _pow(self, node: Expr) -> Code:
        base, exponent = self(node.args[0]), node.args[1]
        n = exponent.number
        if n == 2:
            return code("{0} * {0}", base) if isinstance(base, ast.Name) else self._of_arrays("square", base)
        if n == Fraction(1, 2):
            return self._of_arrays("sqrt", base)
        if n == Fraction(-1, 2):
            return code(self._functions["rsqrt"], base)
        return binary("**", base, self(exponent))

    def _clamp(self, node: Expr) -> Code:
        x, low, high = node.args
        bounds = [constant(None) if b in (OO, -OO) else self(b) for b in (low, high)]
        return code(self._functions["clamp"], self(x), *bounds)

    def _operation(self, node: Expr) -> Code:
        read = [a for k, a in enumerate(node.args) if k not in shape_only(node)]
        like = [a for k, a in enumerate(node.args) if k in shape_only(node)]
        own = self._spelling.operations[node.op]
        operands = [self._operand(a) for a in read]
        if node.op == "expand" and is_number(node.args[0]):
            own = self._spelling.operations["fill"]
            operands = [operands[0] if node.args[0].is_boolean else self._as_float(node.args[0])]
        called, rows = self._spelling.attributes, TENSOR_OPS[node.op].attributes
        attributes = {a: (called.get(a.name, a.name), node.get(a.name, a.default)) for a in rows}
        given = [own for a, own in attributes.items() if a.required or own[1] != a.default]
        single = dict(attributes.values())

        def part(key: int | str) -> Part:
            if isinstance(key, int):
                return operands[key]
            match key:
                case "all":
                    return operands
                case "rest":
                    return operands[1:]
                case "attributes":
                    return [keyword(word, self._attribute(value)) for word, value in given]
                case "shape":
                    return self.shape(like[0])
                case "shapes":
                    return list(map(self.shape, like))
            return self._attribute(single[key])

        return fill(own, part)

    def _operand(self, node: Expr) -> Code:
        """An operand of an operation; a size is a whole number also where it is a part of another."""
        factor, rest = split_coefficient(node)
        if not is_number(node) or factor.denominator == 1:
            return self(node)
        return binary("//", self(factor.numerator * rest), constant(factor.denominator))

    def _attribute(self, value: object) -> Code:
        """An attribute; a hyperparameter by its local name."""
        if isinstance(value, Ref):
            return self(next(s for s in self.names if s.op == "sym" and s.name == value.name))
        return tuple_of(list(map(self._attribute, value))) if isinstance(value, tuple) else constant(value)

    def _count(self, node: Expr) -> Code:
        """A number of elements, which is a Python number."""
        like, dim = node.args[0], node["dim"]
        if dim is None:
            sources = self._shaped_like(like)
            if len(sources) == 1:
                return code("{0}.size", self(sources[0]))
            return code("math.prod({0})", self.shape(like))
        along = extent(like).dims and not isinstance(dim, tuple)
        return code("{0}[{1}]" if along else "rt.count({0}, {1})", self.shape(like), self._attribute(dim))

    # ------------------------------------------------------------------------------------------ Python scalars
    def _scalar(self, node: Expr) -> Code:
        """Python arithmetic on hyperparameters and sizes; sums and products of any length."""
        own = _SCALAR.get(node.op)
        if own is not None:
            return own(self, node)
        return (
            self._comparison(node) if node.op in COMPARISONS else code(FUNCTIONS[node.op].python, *map(self, node.args))
        )

    def _scalar_sum(self, node: Expr) -> Code:
        first, *rest = map(self, node.args)
        for term in rest:
            first = added(first, term)
        return first

    def _scalar_product(self, node: Expr) -> Code:
        """Factors over divisors; sizes may be 0, and then a quotient is infinite as it is in arrays."""
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

    def _quotient(self, over: Code, under: list[Expr]) -> Code:
        template = "rt.quotient({0}, {1})" if any(map(_has_size, under)) else "{0} / {1}"
        return code(template, over, joined("*", list(map(self, under))))

    def _scalar_division(self, node: Expr) -> Code:
        return self._quotient(self(node.args[0]), [node.args[1]])

    def _scalar_power(self, node: Expr) -> Code:
        base, exponent = node.args
        if exponent.number == Fraction(1, 2):
            return code("math.sqrt({0})", self(base))
        if exponent.number is not None and exponent.number < 0:
            return self._quotient(constant(1), [ex.make_power(base, ex.num(-exponent.number))])
        return binary("**", self(base), self(exponent))

    def _constant(self, node: Expr) -> Code:
        """A constant expression: pi and the like by name, others defined once at the top of the module."""
        if node.op == "const":
            return code(_NAMED[node["name"]])
        value = constant_value(node)
        if value is None:  # beyond every float
            return self._scalar(node)
        if value == int(value) and abs(value) < 1e6:
            return constant(int(value))
        if value < 0:
            return minus(self._constant(-node))
        if node not in self._constants:
            self._constants[node] = constant_name(node, self._constants.values())
        return name(self._constants[node])


def _has_size(number: Expr) -> bool:
    return any(n.op == "count" for n in topological(number))


def _is_whole(number: Expr) -> bool:
    """Whether a Python number is perhaps an int."""
    return number.op == "count" or (number.op == "sym" and number["kind"] in ("int", "bool"))


_ARRAY: dict[str, Callable[[Printer, Expr], Code]] = {
    "and": Printer._logical,
    "or": Printer._logical,
    "not": lambda printer, node: code("~{0}", printer(node.args[0])),
    "neg": Printer._neg,
    "where": Printer._where,
    "pow": Printer._pow,
    "clamp": Printer._clamp,
    **dict.fromkeys(("held", "floated", "boundary"), Printer._inner),
}
_SCALAR: dict[str, Callable[[Printer, Expr], Code]] = {
    "where": lambda printer, node: code("{1} if {0} else {2}", *map(printer, node.args)),
    "and": lambda printer, node: all_of(list(map(printer, node.args))),
    "or": lambda printer, node: any_of(list(map(printer, node.args))),
    "not": lambda printer, node: code("not {0}", printer(node.args[0])),
    "add": Printer._scalar_sum,
    "mul": Printer._scalar_product,
    "pow": Printer._scalar_power,
    "sub": Printer._infix,
    "div": Printer._scalar_division,
    "neg": Printer._neg,
}
