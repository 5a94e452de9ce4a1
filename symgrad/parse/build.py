"""From Python's syntax tree to an expression.

A walk over a whitelist of node types: what is not listed is refused. Nothing is ever evaluated.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

from symgrad.accuracy.evaluate import exact
from symgrad.analysis.integers import is_of_truths
from symgrad.errors import shown, suggestion
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import FALSE, MINUS_ONE, TRUE, ZERO, Expr
from symgrad.ir.traversal import topological
from symgrad.ops.functions import SPELLINGS
from symgrad.ops.tensors import TENSOR_OPS, TENSOR_SPELLINGS
from symgrad.ops.tensors.lengths import length
from symgrad.ops.tensors.shapes import extent, shape_sources
from symgrad.parse import calls, operations, special, subscripts
from symgrad.parse.alignment import ShapeConflict, aligned, paired
from symgrad.parse.arguments import whole_number
from symgrad.parse.arithmetic import LOGICAL, binary
from symgrad.parse.casts import limit, widen
from symgrad.parse.comparisons import comparison, is_text
from symgrad.parse.composites import composite, composite_call
from symgrad.parse.constants import CONSTANTS, ELSEWHERE, NO_NUMBERS, OF_MODULES, SINGLETONS
from symgrad.parse.faults import MAX_FAULTS, Fault, FormulaError
from symgrad.parse.scope import Bound, Scope, each_field, with_shape
from symgrad.parse.text import MODULES, Syntax, in_range
from symgrad.spec.python_names import shape_of

__all__ = ["MAX_DEPTH", "Builder"]

S = TypeVar("S")
T = TypeVar("T")

MAX_DEPTH = 100  # of the syntax tree; a chain of operators of one precedence counts once
_MAX_SIZE = 1_000  # of a constant that is evaluated
_MAX_BITS = 64_000  # of all numbers in a sum or product

_BY_NAME = "these shapes do not meet from the right, as in torch: unpacked names of dimensions bring none in line"
_LITERALS: Mapping[object, Expr] = {True: TRUE, False: FALSE}
_COMPARED: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
_METHODS = {row.method: row for row in TENSOR_OPS.values() if row.method}
_FIELDS = {field for row in TENSOR_OPS.values() for field, _ in row.fields}


class _Reported(Exception):
    """What was looked at is wrong, which has been noted."""


class Builder:
    """Builds the expression of one formula, and notes everything that is wrong with it.

    ``sources`` are the values whose shapes have been broadcast so far: tensors and results of tensor operations,
    also those that cancel out. ``calls`` are the names of functions with the place of the first call of each,
    ``orders`` what is added up in which order.
    """

    def __init__(self, syntax: Syntax, scope: Scope) -> None:
        self.syntax = syntax
        self.scope = scope
        self.sources: set[Expr] = set()
        self.calls: dict[str, int] = {}
        self.orders: dict[Expr, tuple[Expr, ...]] = {}
        self._faults: list[Fault] = []
        self._depth = 0
        self.casting = False  # inside of a cast to the dtype of a tensor
        self.widened = False  # whether something in it was cast, and not back

    def result(self) -> Bound:
        """The value of the formula. Raises FormulaError."""
        tree = self.syntax.tree
        try:
            fields = self.fields(tree)
            if fields is not None:
                return Bound(fields=fields)
            value = self.value(tree)
            self.whole(tree, value, self.sources)
            return Bound(value, frozenset(self.sources), widened=self.widened)
        except _Reported:
            raise FormulaError(self._faults) from None

    # ------------------------------------------------------------------------------------ mistakes
    def fail(self, node: ast.AST, message: str) -> NoReturn:
        """Note a mistake at ``node``, of which there is no value then."""
        self._faults.append(Fault(self.syntax.offset(node), message))
        if len(self._faults) >= MAX_FAULTS:
            raise FormulaError(self._faults)
        raise _Reported

    def each(self, read: Callable[[S], T], nodes: Iterable[S]) -> list[T]:
        """What ``read`` makes of each node. All are looked at, whatever is wrong with one of them."""
        values: list[T] = []
        failed = False
        for node in nodes:
            try:
                values.append(read(node))
            except _Reported:
                failed = True
        if failed:
            raise _Reported
        return values

    # ------------------------------------------------------------------------------------ values
    def number(self, node: ast.expr) -> Expr:
        """The value of a node as a number; a truth value counts as 1 or 0."""
        return self.as_number(node, self.value(node))

    def as_number(self, node: ast.expr, value: Expr) -> Expr:
        """``value``, which is that of ``node``, as a number."""
        if is_text(value):
            self.fail(node, "a text cannot be calculated with; compare it with '==' or '!='")
        return truth.as_number(value)

    def truth(self, node: ast.expr) -> Expr:
        """The value of a node as a truth value; elements of truth values that were only moved are such again."""
        value = self.value(node)
        if not value.is_boolean and is_of_truths(value):
            return self.settled(node, truth.compare("gt", value, ZERO))
        if not value.is_boolean:
            what = "a text" if is_text(value) else "a number"
            self.fail(node, f"{what} where a condition is needed{self._condition_hint(node)}")
        return value

    def value(self, node: ast.expr) -> Expr:
        """The value of a node, of whatever type."""
        build = _BUILD.get(type(node))
        if build is None:
            self.fail(node, f"{shown(self.syntax.source(node))} is not part of the language")
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                self.fail(node, "nested too deeply; use 'let'")
            return self.settled(node, build(self, node))
        finally:
            self._depth -= 1

    def settled(self, node: ast.AST, value: Expr) -> Expr:
        """``value`` with its operands aligned by the names of their dimensions, if its constants are finite.

        Whatever is new in it is looked at from the bottom up, so that none of the properties which an expression caches
        has to recurse deeply.
        """
        try:
            found = aligned(value)
        except ShapeConflict as conflict:
            self.fail(node, str(conflict))
        if self.scope.by_position and found is not value:
            self.fail(node, _BY_NAME)
        value = found
        settled = self.scope.settled
        for part in topological(value, leaves=settled):
            if part not in settled:
                self._settle(node, part)
                settled.add(part)
        return value

    def _settle(self, node: ast.AST, value: Expr) -> None:
        _ = value.size, value.digest, value.tensors, shape_sources(value)
        if value.args and not value.symbols and not value.is_boolean:
            self._check_constant(node, value)
        if not _is_moderate(ex.split_coefficient(value)[0]):
            self.fail(node, "a constant beyond every floating-point number")

    def paired(self, *values: Expr) -> tuple[Expr, ...]:
        """The operands of a pointwise operation, pairs of rows side by side where names say so."""
        return values if self.scope.by_position else paired(*values)

    def isolated(self, read: Callable[[ast.expr], T], node: ast.expr) -> tuple[T, frozenset[Expr]]:
        """What ``read`` makes of a node whose shape is not broadcast with the rest, and its sources."""
        outer, self.sources = self.sources, set()
        try:
            return read(node), frozenset(self.sources)
        finally:
            self.sources = outer

    def scoped(self, node: ast.expr) -> Expr:
        """The number that a node stands for, with the shape of its formula: an operand of a tensor operation."""
        return self.whole(node, *self.isolated(self.number, node))

    def whole(self, node: ast.AST, value: Expr, sources: Iterable[Expr]) -> Expr:
        """``value`` with the shape that ``sources`` broadcast to."""
        try:
            return with_shape(value, sources)
        except ShapeConflict as conflict:
            self.fail(node, str(conflict))

    def fields(self, node: ast.expr) -> Mapping[str, Bound] | None:
        """The named results that ``node`` stands for, None where it stands for a single value."""
        if isinstance(node, ast.Name):
            bound = self.scope.names.get(node.id)
            return bound.fields if bound else None
        if isinstance(node, ast.Call):
            call = calls.as_function(self, node)
            called = calls.plain_name(self, call.func)
            if called is not None and called in operations.PARTS:
                found = enumerate(operations.parts(self, called, call))
                return {str(k): Bound(self.settled(node, part), frozenset({part})) for k, part in found}
            row = composite(called) if called is not None else None
            if called is not None and row is not None and len(row.formulas) > 1:
                return {str(k): part for k, part in enumerate(composite_call(self, called, row, call))}
            name = called and special.operation_with_fields(called, call)
            if called and name:
                self.calls.setdefault(called, self.syntax.offset(call.func))
                return operations.results(self, name, call)
        return None

    def suggestion(self, word: str, *candidates: Iterable[str]) -> str:
        """``"; did you mean ...?"``, or an empty text."""
        return suggestion(word, dict.fromkeys(name for names in candidates for name in names))

    def _condition_hint(self, node: ast.expr) -> str:
        if isinstance(node, ast.BinOp | ast.Compare) or self.syntax.source(node)[:1].isdigit():
            return "; '&' and '|' bind tighter than comparisons: put these in parentheses"
        return "; compare it with something"

    def check_digits(self, node: ast.AST, values: Iterable[Expr]) -> None:
        """Refuse what would take long to add up or multiply exactly."""
        if sum(_bits(ex.split_coefficient(value)[0]) for value in values) > _MAX_BITS:
            self.fail(node, "too many digits to calculate with exactly")

    def _check_constant(self, node: ast.AST, value: Expr) -> None:
        """Refuse what is undefined, such as log(-1), and what is too large for a float; infinity is written `oo`."""
        if value.size > _MAX_SIZE:
            return
        number = exact([value], {}, 64)[0]
        if number != number:
            self.fail(node, "this constant is undefined")
        if ex.OO in topological(value):
            return
        if abs(number) == math.inf:
            sign = "-" if number < 0 else ""
            self.fail(node, f"this constant is infinite, or beyond every number; write {sign}oo for infinity")
        if not (number == 0 or 2.0**-1070 < abs(number) < 2**1024):
            self.fail(node, "a constant beyond every floating-point number")

    # ------------------------------------------------------------------------------------ nodes
    def _name(self, node: ast.Name) -> Expr:
        name = node.id
        bound = self.scope.names.get(name)
        if bound is None:
            if name in CONSTANTS:
                return CONSTANTS[name]
            self.fail(node, self._unknown(name))
        if bound.fields:
            self.fail(node, f"{name!r} has several results; write {each_field(name, bound.fields)}")
        if bound.expr is None:
            raise _Reported  # its own formula is wrong
        if bound.widened:
            widen(self, node)
        self.sources |= bound.sources
        return bound.expr

    def _unknown(self, name: str) -> str:
        if name in self.scope.elsewhere:
            return self.scope.elsewhere[name]
        if name in SPELLINGS or name in TENSOR_SPELLINGS or name in special.SPECIAL:
            return f"{name!r} is a function; it needs arguments: {name}(...)"
        if name in NO_NUMBERS:
            return f"unknown name {shown(name)}; {NO_NUMBERS[name]}"
        meant = ELSEWHERE.get(name.lower())
        near = f"; did you mean {meant!r}?" if meant else self.suggestion(name, self.scope.names, CONSTANTS)
        return f"unknown name {shown(name)}{near}"

    def _constant(self, node: ast.Constant) -> Expr:
        value = node.value
        if isinstance(value, bool):
            return _LITERALS[value]
        if isinstance(value, str):
            return ex.text(value)
        if isinstance(value, int):
            return ex.num(value)
        if not isinstance(value, float):
            self.fail(node, f"{self.syntax.source(node)} is not a value")
        return ex.num(Fraction(self.syntax.source(node).replace("_", "")))

    def _unary(self, node: ast.UnaryOp) -> Expr:
        if isinstance(node.op, ast.Not | ast.Invert):
            return truth.logical("not", self.truth(node.operand))
        value = self.number(node.operand)
        return MINUS_ONE * value if isinstance(node.op, ast.USub) else value

    def _compare(self, node: ast.Compare) -> Expr:
        operands = [node.left, *node.comparators]
        values = self.each(self.value, operands)
        links = [(operands[i : i + 2], values[i], values[i + 1], op) for i, op in enumerate(node.ops)]
        parts = []
        for nodes, left, right, op in links:
            if type(op) not in _COMPARED:
                self.fail(node, "only numbers are compared, with < <= > >= == !=")
            parts.append(comparison(self, nodes, _COMPARED[type(op)], left, right))
        return truth.logical("and", *parts) if len(parts) > 1 else parts[0]

    def _logical(self, node: ast.BoolOp) -> Expr:
        return truth.logical(LOGICAL[type(node.op)], *self.each(self.truth, node.values))

    def _attribute(self, node: ast.Attribute) -> Expr:
        if node.attr in _METHODS:
            operand = self.scoped(node.value)
            return self.shaped(operations.apply(self, node, _METHODS[node.attr], (operand,), {}))
        number = limit(self, node) or self._of_module(node)
        if number is not None:
            return number
        fields = self.fields(node.value)
        if fields is None:
            self.fail(_name_of(node), self._unknown_attribute(node))
        if node.attr not in fields:
            near = self.suggestion(node.attr, fields)
            self.fail(_name_of(node), f"unknown result {shown(node.attr)}; there are {', '.join(fields)}{near}")
        self.sources |= fields[node.attr].sources
        found = fields[node.attr].expr
        assert found is not None
        return found

    def _of_module(self, node: ast.Attribute) -> Expr | None:
        """A constant of a module, such as `math.pi`, or one of SymPy's own numbers, such as `S.Half` or `sp.S.Half`."""
        source = self.syntax.source(node.value)
        if source.partition(".")[0] in self.scope.names:
            return None
        module, _, name = source.rpartition(".")
        if name == "S" and module in ("", *MODULES):
            return SINGLETONS.get(node.attr)
        known = source in calls.OF_ELEMENTS or source in MODULES
        return CONSTANTS.get(OF_MODULES.get(node.attr, node.attr)) if known else None

    def _unknown_attribute(self, node: ast.Attribute) -> str:
        if isinstance(node.value, ast.Call):
            self.value(node.value)  # which may be what is wrong
        known = {*_METHODS, *_FIELDS}
        if node.attr in _FIELDS:
            return f"'.{node.attr}' belongs to the result of {operations.spelled_with_fields()}"
        if isinstance(node.value, ast.Name) and node.value.id not in self.scope.names:
            plain = ELSEWHERE.get(node.attr, node.attr)
            advice = f"write {plain}" if plain in CONSTANTS else "functions are called by their plain name"
            return f"{shown(self.syntax.source(node))}: {advice}"
        return f"unknown attribute {shown(node.attr)}{self.suggestion(node.attr, known)}"

    def shaped(self, value: Expr) -> Expr:
        """A result of a tensor operation, which from now on has a part in the shape."""
        self.sources.add(value)
        return value

    def _call(self, node: ast.Call) -> Expr:
        node = calls.as_function(self, node)
        return calls.call(self, calls.called(self, node), node)

    def _subscript(self, node: ast.Subscript) -> Expr:
        fields = self.fields(node.value)
        sized = shape_of(node.value) if fields is None else None
        if sized is not None:
            return self.size(sized, node.slice)
        if fields is None:
            return self.shaped(subscripts.subscript(self, node))
        number = whole_number(node.slice)
        names = list(fields)
        if number is None:
            self.fail(node.slice, f"this has several results; write {each_field('...', fields)}")
        if not -len(names) <= number < len(names):
            self.fail(node.slice, f"there are {len(names)} parts, the last one is {len(names) - 1}")
        bound = fields[names[number]]
        self.sources |= bound.sources
        assert bound.expr is not None
        return bound.expr

    def size(self, tensor: ast.expr, dim: ast.expr) -> Expr:
        """The size of a dimension: `x.shape[0]`."""
        value, number = self.scoped(tensor), whole_number(dim)
        known = extent(value)
        if number is None or (known.exact and not -len(known.dims) <= number < len(known.dims)):
            self.fail(dim, f"this is of {known}, and of no dimension of it; a dimension is a whole number")
        return length(value, number - len(known.dims) if known.exact and number >= 0 else number)

    def _sequence(self, node: ast.expr) -> Expr:
        self.fail(node, "several values where one is needed")


_BUILD: Mapping[type[ast.expr], Callable[[Builder, Any], Expr]] = {
    ast.Name: Builder._name,
    ast.Constant: Builder._constant,
    ast.UnaryOp: Builder._unary,
    ast.BinOp: binary,
    ast.BoolOp: Builder._logical,
    ast.Compare: Builder._compare,
    ast.Attribute: Builder._attribute,
    ast.Call: Builder._call,
    ast.IfExp: special.conditional,
    ast.Subscript: Builder._subscript,
    ast.List: Builder._sequence,
    ast.Tuple: Builder._sequence,
}


def _bits(value: Fraction) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()


def _is_moderate(value: Fraction) -> bool:
    bits = _bits(value)
    return bits < 1_000 or (bits <= _MAX_BITS // 8 and in_range(value))


def _name_of(node: ast.Attribute) -> ast.expr:
    """The name after the dot, for the place of a message."""
    return ast.Name(node.attr, col_offset=(node.end_col_offset or 0) - len(node.attr.encode()))
