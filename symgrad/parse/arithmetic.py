"""Operators with two operands: sums, products and powers of numbers, and matrix products."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from math import floor
from typing import TYPE_CHECKING, TypeAlias

from symgrad.errors import shown
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import MINUS_ONE, ONE, ZERO, Expr, make, num
from symgrad.ir.order import note
from symgrad.ir.traversal import substitute, topological
from symgrad.ops import functions
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.row import is_number, is_size, is_whole_number
from symgrad.parse import operations
from symgrad.parse.promotion import as_exponent, floated

if TYPE_CHECKING:
    from symgrad.parse.build import Builder

__all__ = ["LOGICAL", "binary"]

Links: TypeAlias = Sequence[tuple[ast.operator, ast.expr]]
"""The operators of a chain, each with the operand after it."""

LOGICAL: Mapping[type[ast.AST], str] = {
    ast.And: "and", ast.Or: "or", ast.BitAnd: "and", ast.BitOr: "or",
}  # fmt: skip
_SUM = (ast.Add, ast.Sub)
_PRODUCT = (ast.Mult, ast.Div, ast.MatMult)


def binary(builder: Builder, node: ast.BinOp) -> Expr:
    """The value of a sum, a product, a power, or of a logical operation by ``&`` and ``|``."""
    if isinstance(node.op, ast.Pow):
        base, exponent = builder.each(builder.number, (node.left, node.right))
        if is_size(exponent) and not is_number(base):
            builder.fail(node.right, "the size of a dimension is no exponent of a tensor; write exp(n*log(x))")
        return ex.power(base, as_exponent(exponent, base))
    if type(node.op) in LOGICAL:
        operator = type(node.op)
        first, rest = _chain(node, (operator,))
        parts = builder.each(builder.truth, [first, *(operand for _, operand in rest)])
        return truth.logical(LOGICAL[operator], *parts)
    if isinstance(node.op, _SUM):
        return _sum(builder, *_chain(node, _SUM))
    if isinstance(node.op, ast.FloorDiv):
        return _quotient(builder, node)
    if isinstance(node.op, ast.Mod):
        return operations.of_numbers(builder, node, "remainder", (node.left, node.right))
    if not isinstance(node.op, _PRODUCT):
        builder.fail(node, f"{shown(builder.syntax.source(node))}: this operator is not part of the language")
    return _product(builder, *_chain(node, _PRODUCT))


def _quotient(builder: Builder, node: ast.BinOp) -> Expr:
    """`a // b` of whole numbers, which is exact; of tensors torch rounds in a way of its own."""
    links = [(ast.Div(), node.right)]
    values = _operands(builder, node.left, links)
    if not all(map(is_whole_number, values)):
        builder.fail(node, "'//' divides sizes and whole numbers; did you mean floor(a / b)?")
    quotient = ex.mul(values[0], *_factors(builder, links, values[1:]))
    return functions.call("floor", quotient) if quotient.number is None else num(floor(quotient.number))


def _operands(builder: Builder, first: ast.expr, rest: Links) -> Sequence[Expr]:
    """The operands of a chain. What adds up or multiplies infinities may be no number, so none of them is infinite."""
    nodes = [first, *(operand for _, operand in rest)]
    values = builder.paired(*builder.each(builder.number, nodes))
    builder.check_digits(first, values)
    for node, value in zip(nodes, values, strict=True):
        if ex.split_coefficient(value)[1] is ex.OO:
            builder.fail(node, "infinity is no number to calculate with; compare with it, or choose it by where()")
    return values


def _sum(builder: Builder, first: ast.expr, rest: Links) -> Expr:
    values = _operands(builder, first, rest)
    signs = [ONE, *(MINUS_ONE if isinstance(op, ast.Sub) else ONE for op, _ in rest)]
    terms = _with_what_is_detached([sign * value for sign, value in zip(signs, values, strict=True)])
    total = ex.add(*terms)
    note(builder.orders, total, terms)
    return floated(total, first, rest)


def _with_what_is_detached(terms: Sequence[Expr]) -> Sequence[Expr]:
    """Terms of which a detached one is made of another, as y + detach(round(y) - y): it cancels where both are computed
    once, as a region of its own."""
    detached = [n for term in terms for n in term.factors if n.op == "detach"]
    inside = frozenset(topological(*detached)) if detached else frozenset[Expr]()
    shared = {t: make("boundary", t) for t in terms if t in inside and t.args and t.op not in TENSOR_OPS}
    return [substitute(term, shared) for term in terms] if shared else terms


def _product(builder: Builder, first: ast.expr, rest: Links) -> Expr:
    """Products and quotients from left to right; everything between two '@' at once."""
    if any(isinstance(op, ast.MatMult) for op, _ in rest):
        return _matrix_product(builder, first, rest)
    values = _operands(builder, first, rest)
    return floated(ex.mul(values[0], *_factors(builder, rest, values[1:])), first, rest)


def _factors(builder: Builder, links: Links, values: Sequence[Expr]) -> list[Expr]:
    factors = []
    for (op, node), value in zip(links, values, strict=True):
        if isinstance(op, ast.Div) and value is ZERO:
            builder.fail(node, "division by zero")
        factors.append(ex.power(value, -1) if isinstance(op, ast.Div) else value)
    return factors


def _matrix_product(builder: Builder, first: ast.expr, rest: Links) -> Expr:
    operands = [first, *(operand for _, operand in rest)]
    parts = builder.each(lambda node: builder.isolated(builder.number, node), operands)
    total, sources = parts[0]
    for (op, node), (value, own) in zip(rest, parts[1:], strict=True):
        if isinstance(op, ast.MatMult):
            pair = (builder.whole(node, total, sources), builder.whole(node, value, own))
            total = operations.apply(builder, node, TENSOR_OPS["matmul"], pair, {})
            sources = frozenset({total})
        else:
            total = floated(ex.mul(total, *_factors(builder, [(op, node)], [value])), first, [(op, node)])
            sources |= own
        builder.settled(node, total)
        first = node
    builder.sources |= sources
    return total


def _chain(node: ast.BinOp, operators: tuple[type[ast.operator], ...]) -> tuple[ast.expr, Links]:
    """``a + b - c``, which Python nests to the left: its first operand, and the others with their operators."""
    links: list[tuple[ast.operator, ast.expr]] = []
    first: ast.expr = node
    while isinstance(first, ast.BinOp) and isinstance(first.op, operators):
        links.append((first.op, first.right))
        first = first.left
    return first, links[::-1]
