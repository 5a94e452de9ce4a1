"""Machine-level expressions as code: tensor operations in torch, Python scalars in plain arithmetic."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from fractions import Fraction

from symgrad.analysis.borders import bordered
from symgrad.analysis.integers import is_integer, is_whole_tensor
from symgrad.ir.expr import COMPARISONS, ONE, OO, ZERO, Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, binary, chained, code, keyword
from symgrad.ops.functions import BY_AUTOGRAD, FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS, is_number
from symgrad.targets.arithmetic import Arithmetic, has_size
from symgrad.targets.constants import is_exact, is_power_of_two
from symgrad.targets.torch.dtypes import lender, whole_operands
from symgrad.targets.torch.fusions import SPELLING
from symgrad.targets.torch.operations import attribute, print_operation

INFIX = Arithmetic.infix


class Printer(Arithmetic):
    """Prints torch; `shapes` and `dtypes` are the shapes and dtypes of values that are not in scope themselves.

    Where autograd may differentiate what is printed, it is `differentiable`: functions of which torch knows no
    derivative are written with one, and `introduced` ones, which the spec does not have, with a more accurate one. Of
    whole numbers it makes floats of the dtype of what is `beside` them, if anything is.
    """

    size_quotient = "rt.size_quotient({0}, {1})"

    def __init__(
        self,
        names: Mapping[Expr, str | Code],
        constants: dict[Expr, str] | None = None,
        shapes: Mapping[Expr, Code] | None = None,
        dtypes: Mapping[Expr, Code] | None = None,
        *,
        differentiable: bool = False,
        introduced: Collection[str] = (),
        as_written: bool = False,
        beside: Sequence[Code | str] = (),
    ) -> None:
        super().__init__(names, constants if constants is not None else {})
        self.differentiable, self.introduced, self.as_written = differentiable, introduced, as_written
        self.beside = beside
        self.shapes = shapes or {}
        self.dtypes = dtypes or {}

    def anew(self, names: Mapping[Expr, str | Code]) -> Printer:
        """A printer in a scope of its own."""
        return Printer(
            names,
            self.constants,
            differentiable=self.differentiable,
            introduced=self.introduced,
            as_written=self.as_written,
            beside=self.beside,
        )

    def is_local(self, node: Expr) -> bool:
        """Whether a value has a name."""
        return isinstance(self.names.get(node), str)

    def local(self, called: str) -> Code:
        """The symbol that the spec calls so."""
        return self(next(symbol for symbol in self.names if symbol.op == "sym" and symbol.name == called))

    # ------------------------------------------------------------------------------------------ tensors
    def _tensor(self, node: Expr) -> Code:
        whole = whole_operands(node) if self.beside else ()
        if node.op == "floated" and whole:
            return self._as_float(whole[0])
        if whole:
            printer = copy(self)
            printer.beside = ()
            conditions = {a: self(a) for a in node.args if a.is_boolean}
            printer.names = {**self.names, **conditions, **{a: self._as_float(a) for a in whole}}
            return printer._computed(node, of_floats=True)
        return self._computed(node)

    def _as_float(self, whole: Expr) -> Code:
        """Whole numbers as floats of the dtype of what is beside them."""
        return code("rt.as_float({0}, {1})", self(whole), self.beside)

    def _computed(self, node: Expr, *, of_floats: bool = False) -> Code:
        """A value of its operands, of which all are `of_floats` if they are so though their formulas are whole."""
        special = _TENSOR.get(node.op)
        if special is not None:
            return special(self, node)
        if node.op in INFIX:
            return self._infix(node)
        if node.op in COMPARISONS:
            return self._comparison(node)
        if node.op in TENSOR_OPS:
            return print_operation(self, node)
        if node.op in SPELLING:
            return code(SPELLING[node.op], *map(self, node.args))
        row = BY_AUTOGRAD.get(node.op, FUNCTIONS[node.op]) if self.differentiable else FUNCTIONS[node.op]
        arguments = [self(a) for a in node.args]
        numbers = [is_number(a) for a in node.args]
        # Of integers torch makes floats of the default dtype, but not in every function; a number beside them is one.
        whole = row.name != "heaviside" and all(n or is_integer(a) for n, a in zip(numbers, node.args, strict=True))
        whole = whole and not of_floats
        if row.tensor_args:
            like = self._lender(node.args[numbers.index(False)])
            floats = whole and not is_integer(node)
            filled = "{0}.new_full((), {1}, dtype=torch.get_default_dtype())" if floats else "{0}.new_full((), {1})"
            arguments = [code(filled, like, a) if n else a for n, a in zip(numbers, arguments, strict=True)]
        if row.of_floats and whole and not (row.tensor_args and any(numbers)):
            arguments[0] = code("{0}.to(torch.get_default_dtype())", arguments[0])
        return code(row.introduced if row.name in self.introduced else row.torch, *arguments)

    def _lender(self, value: Expr) -> Code:
        """A tensor of the value's dtype and device for a number beside it: one with a name, which costs nothing."""
        floats = (n for n in topological(value, leaves=self.names.keys()) if n in self.names and not n.is_static)
        named = [n for n in floats if not n.is_boolean and n.get("kind") != "int_tensor"]
        return self(value if len(named) != 1 else named[0])

    def _infix(self, node: Expr) -> Code:
        found = bordered(node)
        if found is not None and self.names.keys().isdisjoint(node.args):
            padded, number = found
            value = keyword("value", self(number))
            return code("F.pad({0}, {1}, {2})", self(padded.args[0]), attribute(self, padded["pad"]), [value])
        left, right = node.args
        if node.op == "mul" and _is_name(left) and _is_name(right):
            left, right = sorted(node.args, key=lambda a: a.order)
        free = is_power_of_two(left) and not _mixes(right) if node.op == "mul" else node.op == "add"
        return (chained if free else binary)(INFIX[node.op], self(left), self(right))

    def _where(self, node: Expr) -> Code:
        condition, then, otherwise = node.args
        if condition.is_static:
            return self._conditional(node)
        if is_number(then) and is_number(otherwise) and not node.is_boolean:
            return self._choice_of_numbers(condition, then, otherwise)
        return code("torch.where({0}, {1}, {2})", *map(self, node.args))

    def _choice_of_numbers(self, condition: Expr, then: Expr, otherwise: Expr) -> Code:
        """A choice between two numbers, in the dtype of a tensor of floats."""
        like, dtype = self._lent_dtype(condition)
        parts = [self(n) for n in (condition, then, otherwise)]
        if dtype is None:
            return code("torch.where({0}, {1}, {2})", *parts)
        if (then, otherwise) == (ONE, ZERO):
            return code("{0}.to({1})", parts[0], dtype)
        if like is not None and self.names[like] in (self.names.get(s, s.name) for s in _broadcast_from(condition)):
            parts[1] = code("torch.full_like({0}, {1})", self(like), parts[1])
        elif is_exact(then) and is_exact(otherwise):
            return code("torch.where({0}, {1}, {2}).to({dtype})", *parts, dtype=dtype)
        elif like is not None:
            parts[1] = code("{0}.new_full((), {1})", self(like), parts[1])
        else:
            there = next(self(n) for n in topological(condition) if n.tensors and n in self.names)
            parts[1] = code("torch.full((), {0}, dtype={1}, device={2}.device)", parts[1], dtype, there)
        return code("torch.where({0}, {1}, {2})", *parts)

    def _conditional(self, node: Expr) -> Code:
        """A Python choice; a number beside a tensor becomes a tensor of its shape."""
        condition, then, otherwise = node.args
        if node.is_static:
            return code("{1} if {0} else {2}", *map(self, node.args))
        return code(
            "{1} if {0} else {2}", self(condition), self._filled(then, otherwise), self._filled(otherwise, then)
        )

    def _filled(self, branch: Expr, other: Expr) -> Code:
        """A branch; where it is a number, that number in the shape of the other branch."""
        if not branch.is_static:
            return self(branch)
        read = _broadcast_from(other)
        differential = [s for s in other.tensors if s.is_differential]
        named = [s for s in differential or other.tensors if s in read and s in self.names]
        like = self(min(named, key=lambda s: s.name) if named else other)
        return (
            code("torch.zeros_like({0})", like)
            if branch is ZERO
            else code("torch.full_like({0}, {1})", like, self(branch))
        )

    def _lent_dtype(self, condition: Expr) -> tuple[Expr | None, Code | None]:
        """The tensor that decides the dtype of a choice between two numbers, if it is there, and that dtype.

        It is one of the condition, else any; of cotangents and tangents only those that are surely there have a known
        shape. Where there is no floating-point tensor torch decides: then both are None.
        """
        floats = [s for s in self.names if s.op == "sym" and s["kind"] == "tensor"]
        own = [s for s in floats if s in condition.tensors]
        differential = [s for s in self.shapes if s.op == "sym" and s.is_differential and s in self.names]
        first = lender(own or floats or differential)
        if first is not None:
            return first, code("{0}.dtype", self(first))
        kept = lender([s for s in self.dtypes if s in condition.tensors] or self.dtypes)
        return None, self.dtypes[kept] if kept is not None else None

    def _pow(self, node: Expr) -> Code:
        base, exponent = self(node.args[0]), node.args[1]
        n = exponent.number
        if n == 2:
            return code("{0} * {0}" if isinstance(base, ast.Name) else "torch.square({0})", base)
        if n == Fraction(1, 2):
            return code("torch.sqrt({0})", base)
        if n == Fraction(-1, 2):
            return code("torch.rsqrt({0})", base)
        return binary("**", base, self(exponent))

    def _clamp(self, node: Expr) -> Code:
        x, low, high = node.args
        bounds = {name: b for name, b, none in (("min", low, -OO), ("max", high, OO)) if b is not none}
        value = self(x)
        if x.is_static:
            like = next(b for b in bounds.values() if not b.is_static)
            value = code("{0}.new_full((), {1})", self(like), value)
        given = [keyword(name, self(bound)) for name, bound in bounds.items()]
        if len({b.is_static for b in bounds.values()}) > 1:  # torch wants two numbers or two tensors
            for bound in given:
                value = code("{0}.clamp({1})", value, [bound])
            return value
        return code("torch.clamp({0}, {1})", value, given) if bounds else code("torch.clone({0})", value)

    def _extremum(self, node: Expr) -> Code:
        static = [a for a in node.args if a.is_static]
        if not static:
            return code(f"torch.{node.op}({{0}}, {{1}})", *map(self, node.args))
        (tensor,) = (a for a in node.args if not a.is_static)
        bound = "min" if node.op == "maximum" else "max"
        return code(f"torch.clamp({{0}}, {bound}={{1}})", self(tensor), self(static[0]))

    def _double(self, node: Expr) -> Code:
        return code("rt.double({0})", self(node.args[0]))

    def _single(self, node: Expr) -> Code:
        """A value that is rounded where it is returned."""
        return self(node.args[0])

    # ------------------------------------------------------------------------------------------ Python scalars
    def _function(self, node: Expr) -> Code:
        if node.op == "log" and has_size(node):
            return code("rt.log_of_size({0})", self(node.args[0]))
        return super()._function(node)


def _mixes(product: Expr) -> bool:
    """Whether whole numbers meet floats in a product: of the numbers alone a fraction makes floats of another dtype."""
    return product.op == "mul" and len({is_whole_tensor(a) for a in product.args}) > 1


def _is_name(node: Expr) -> bool:
    return node.op == "sym" and not node.is_differential


def _broadcast_from(root: Expr) -> set[Expr]:
    """The symbols that broadcast to the shape of a value: those that no tensor operation reads before."""
    found, pending = set(), [root]
    while pending:
        node = pending.pop()
        if node.op == "sym":
            found.add(node)
        elif node.op not in TENSOR_OPS:
            pending += node.args
    return found


_TENSOR: dict[str, Callable[[Printer, Expr], Code]] = {
    "double": Printer._double,
    "single": Printer._single,
    "neg": Printer._neg,
    "not": Printer._not,
    "and": Printer._logical,
    "or": Printer._logical,
    "where": Printer._where,
    "pow": Printer._pow,
    "clamp": Printer._clamp,
    "maximum": Printer._extremum,
    "minimum": Printer._extremum,
}
