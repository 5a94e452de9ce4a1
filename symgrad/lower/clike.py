"""Programs as lines of C++: one writer for what fused passes compute."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence

from symgrad.lower.code import Code
from symgrad.lower.program import Assign, Declare, If, Statement

__all__ = ["clike", "clike_lines"]

# Binding strength of the operators, weakest first.
_CONDITIONAL, _OR, _AND, _COMPARE, _SHIFT, _SUM, _PRODUCT, _UNARY, _ATOM = range(9)

# The sign of an operator, how strongly it binds, and how strongly its operands have to.
_BINARY: dict[type[ast.AST], tuple[str, int, int, int]] = {
    ast.Add: ("+", _SUM, _SUM, _PRODUCT),
    ast.Sub: ("-", _SUM, _SUM, _PRODUCT),
    ast.Mult: ("*", _PRODUCT, _PRODUCT, _UNARY),
    ast.Div: ("/", _PRODUCT, _PRODUCT, _UNARY),
    ast.RShift: (">>", _SHIFT, _SHIFT, _SUM),
    ast.BitAnd: ("&", _OR, _SHIFT, _SHIFT),
    ast.BitOr: ("|", _OR, _SHIFT, _SHIFT),
    ast.And: ("&&", _OR, _SHIFT, _SHIFT),
    ast.Or: ("||", _OR, _SHIFT, _SHIFT),
    **{
        kind: (sign, _COMPARE, _SUM, _SUM)
        for kind, sign in zip(
            (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq), ("<", "<=", ">", ">=", "==", "!="), strict=True
        )
    },
}
_UNARIES: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.Not: "!", ast.Invert: "~"}


def clike(value: Code) -> str:
    """An expression as C++; an attribute is that of a namespace."""
    return _at(value, _CONDITIONAL)


def _at(value: Code, strength: int) -> str:
    text, own = _written(value)
    return text if own >= strength else f"({text})"


def _written(value: Code) -> tuple[str, int]:
    """An expression, and how strongly it binds."""
    match value:
        case ast.Name(name):
            return name, _ATOM
        case ast.Constant(constant):
            return _literal(constant), _ATOM
        case ast.Call(function, arguments):
            return f"{_at(function, _ATOM)}({', '.join(map(clike, arguments))})", _ATOM
        case ast.Subscript(of, index):
            return f"{_at(of, _ATOM)}[{clike(index)}]", _ATOM
        case ast.UnaryOp(sign, operand):
            return f"{_UNARIES[type(sign)]}{_at(operand, _ATOM)}", _UNARY
        case ast.IfExp(test, then, otherwise):
            return f"{_at(test, _OR)} ? {_at(then, _OR)} : {_at(otherwise, _OR)}", _CONDITIONAL
        case ast.BinOp(left, sign, right):
            return _joined(sign, [left, right])
        case ast.Compare(left, [sign], [right]):
            return _joined(sign, [left, right])
        case ast.BoolOp(sign, operands):
            return _joined(sign, operands)
    raise TypeError(f"C++ has no {ast.dump(value)}")


def _joined(operator: ast.AST, operands: Sequence[Code]) -> tuple[str, int]:
    sign, strength, first, others = _BINARY[type(operator)]
    parts = [_at(operands[0], first), *(_at(o, others) for o in operands[1:])]
    return f" {sign} ".join(parts), strength


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{int(value)}." if value == int(value) and value < _LONG else repr(value)
    return json.dumps(value)


_LONG = 2.0**31


def clike_lines(program: Sequence[Statement]) -> list[str]:
    """The lines of a program: what is assigned to a name is declared."""
    return [line for statement in program for line in _lines(statement)]


def _lines(statement: Statement) -> Iterator[str]:
    match statement:
        case Declare(kind, values):
            yield f"const {kind} {', '.join(f'{name} = {clike(value)}' for name, value in values)};"
        case Assign(str() as name, value):
            yield f"const auto {name} = {clike(value)};"
        case Assign(ast.expr() as place, value):
            yield f"{clike(place)} = {clike(value)};"
        case If(test, [only], ()):
            yield f"if constexpr ({clike(test)}) {' '.join(_lines(only))}"
        case _:
            raise TypeError(f"C++ has no {type(statement).__name__}")
