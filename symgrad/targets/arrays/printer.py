"""Machine forms over arrays: operations in the words of a framework, Python scalars in arithmetic."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial, reduce

from symgrad.analysis.integers import is_integer
from symgrad.ir.expr import COMPARISONS, OO, Expr
from symgrad.lower.code import Code, Part, binary, code, constant, fill, keyword, tuple_of
from symgrad.lower.growth import BOUNDS
from symgrad.ops.tensors import TENSOR_OPS, Ref, is_number, shape_only
from symgrad.ops.tensors.extent import extent
from symgrad.ops.tensors.shapes import shape_sources
from symgrad.targets.arithmetic import Arithmetic
from symgrad.targets.arrays.spelling import Spelling

__all__ = ["Printer"]


class Printer(Arithmetic):
    """Prints in the words of a framework; what is printed may be `differentiated` again, by the framework."""

    size_quotient = "rt.quotient({0}, {1})"

    def __init__(
        self,
        spelling: Spelling,
        names: Mapping[Expr, str | Code],
        constants: dict[Expr, str],
        *,
        differentiated: bool = False,
    ) -> None:
        super().__init__(names, constants)
        self._spelling = spelling
        self._functions = {**spelling.functions, **(spelling.differentiated if differentiated else {})}

    def opened(self, form: Expr) -> Expr:
        """A form of what the framework has words for."""
        return self._spelling.opened(form)

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
    def _tensor(self, node: Expr) -> Code:
        own = _ARRAY.get(node.op)
        if own is not None:
            return own(self, node)
        if node.op in self.infix:
            return self._infix(node)
        if node.op in COMPARISONS:
            return self._comparison(node)
        if node.op in TENSOR_OPS:
            return self._operation(node)
        return code(self._functions[node.op], *self._all(node.args))

    def _inner(self, node: Expr) -> Code:
        return self(node.args[0])

    def _logical(self, node: Expr) -> Code:
        template = self._spelling.logical.get(node.op)
        if template is None:
            return super()._logical(node)
        return reduce(partial(code, template), self._all(node.args))

    def _where(self, node: Expr) -> Code:
        condition, then, otherwise = node.args
        if condition.is_static:
            branches = [self._filled(a, b) for a, b in ((then, otherwise), (otherwise, then))]
            return code("{1} if {0} else {2}", self(condition), *branches)
        plain = node.is_boolean or is_integer(node)
        branches = [self(a) if plain else self._as_float(a) for a in (then, otherwise)]
        own = self._spelling.functions if plain or (is_number(then) and is_number(otherwise)) else self._functions
        return code(own["where"], self(condition), *branches)

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
        if value.integer is not None:
            return constant(float(value.integer))
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
        if exponent.is_static and n is None:
            return code(self._functions["pow"], base, self(exponent))
        return binary("**", base, self(exponent))

    def _clamp(self, node: Expr) -> Code:
        x, low, high = node.args
        bounds = [constant(None) if b in (OO, -OO) else self(b) for b in (low, high)]
        return code(self._functions["clamp"], self(x), *bounds)

    def _operation(self, node: Expr) -> Code:
        read = [a for k, a in enumerate(node.args) if k not in shape_only(node)]
        like = [a for k, a in enumerate(node.args) if k in shape_only(node)]
        own = self._spelling.operations[node.op]
        operands = [self.operand(a) for a in read]
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

    def _attribute(self, value: object) -> Code:
        """An attribute; a hyperparameter by its local name."""
        if isinstance(value, Ref):
            return self(next(s for s in self.names if s.op == "sym" and s.name == value.name))
        if isinstance(value, Expr):
            return self.operand(value)
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


def _is_whole(number: Expr) -> bool:
    """Whether a Python number is perhaps an int."""
    return number.op == "count" or (number.op == "sym" and number["kind"] in ("int", "bool"))


_ARRAY: dict[str, Callable[[Printer, Expr], Code]] = {
    "and": Printer._logical,
    "or": Printer._logical,
    "not": Printer._not,
    "count": Printer._count,
    "neg": Printer._neg,
    "where": Printer._where,
    "pow": Printer._pow,
    "clamp": Printer._clamp,
    **dict.fromkeys(BOUNDS, lambda printer, node: code(f"rt.{node.op}({{0}})", printer(node.args[0]))),
    **dict.fromkeys(("held", "floated", "boundary"), Printer._inner),
}
