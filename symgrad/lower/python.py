"""Programs as lines of Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from symgrad.lower.code import Code, source
from symgrad.lower.program import Assign, Augment, Do, For, If, Program, Raise, Return, Statement, Target, With

__all__ = ["lines"]


def lines(program: Sequence[Statement]) -> list[str]:
    """The lines of a program."""
    return [line for statement in program for line in _lines(statement)]


def _lines(statement: Statement) -> Iterator[str]:
    match statement:
        case Assign(target, value, more):
            shown = _open(value) if isinstance(target, tuple) else source(value)
            yield f"{' = '.join([_target(target), *more])} = {shown}"
        case Augment(target, value):
            yield f"{target} += {source(value)}"
        case Do(value):
            yield source(value)
        case Return(value):
            yield f"return {_open(value)}"
        case Raise(value):
            yield f"raise {source(value)}"
        case For(name, values, body):
            yield f"for {name} in {source(values)}:"
            yield from _indented(body)
        case With(context, body, name):
            yield f"with {source(context)}{f' as {name}' if name else ''}:"
            yield from _indented(body)
        case If():
            yield from _choice(statement, "if")


def _choice(statement: If, word: str) -> Iterator[str]:
    note = f"  # {statement.note}" if statement.note else ""
    yield f"{word} {_test(statement.test)}:{note}"
    yield from _indented(statement.then) if statement.then else ["    pass"]
    match statement.otherwise:
        case [If() as other]:
            yield from _choice(other, "elif")
        case []:
            pass
        case otherwise:
            yield "else:"
            yield from _indented(otherwise)


def _indented(program: Program) -> Iterator[str]:
    return (f"    {line}" for line in lines(program))


def _target(target: Target) -> str:
    if isinstance(target, str):
        return target
    if isinstance(target, tuple):
        return f"({target[0]},)" if len(target) == 1 else ", ".join(target)
    return source(target)


def _open(value: Code) -> str:
    """A value; a tuple without brackets."""
    if isinstance(value, ast.Tuple) and len(value.elts) > 1:
        return ", ".join(map(source, value.elts))
    return source(value)


def _test(value: Code) -> str:
    """A condition, in which what is joined by another word stands in brackets, for the reader."""
    if not isinstance(value, ast.BoolOp):
        return source(value)
    word = " and " if isinstance(value.op, ast.And) else " or "
    return word.join(f"({source(v)})" if isinstance(v, ast.BoolOp) else source(v) for v in value.values)
