"""A tree of variants as Python's if, elif and else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from symgrad.compiler.operation import Body, Variant
from symgrad.ir.branches import Split
from symgrad.ir.expr import Expr
from symgrad.lower.code import Code
from symgrad.lower.program import If, Program

Block: TypeAlias = "tuple[Code | None, Program]"
"""What stands under a condition, or where none of those before holds."""


def branches(body: Body, leaf: Callable[[Variant], Program], condition: Callable[[Expr], Code]) -> Program:
    """The program of each variant under Python's if, elif and else; what all begin with stands before."""
    if isinstance(body, Variant):
        return leaf(body)
    blocks: list[Block] = []
    tests: list[Expr] = []
    node: Body = body
    while isinstance(node, Split):
        tests.append(node.condition)
        blocks.append((condition(node.condition), branches(node.then, leaf, condition)))
        node = node.otherwise
    rest = leaf(node)
    if _exclude_each_other(tests):
        blocks = [b for b in blocks if b[1] != rest]
    programs = [*(program for _, program in blocks), rest]
    shared = common_start(programs)
    own = [(test, program[shared:]) for test, program in [*blocks, (None, rest)]]
    return (*programs[0][:shared], *_chain(own))


def _exclude_each_other(tests: list[Expr]) -> bool:
    """Whether at most one of the conditions holds: they compare one hyperparameter with different texts."""
    return all(t.op == "eq" and t.args[1].op == "text" and t.args[0] is tests[0].args[0] for t in tests)


def common_start(programs: Sequence[Program]) -> int:
    """How many statements all programs begin with."""
    count = 0
    for statements in zip(*programs, strict=False):
        if any(s != statements[0] for s in statements):
            break
        count += 1
    return count


def _chain(blocks: Sequence[Block], *, first: bool = True) -> Program:
    """if, elif and else; without else after a return."""
    if not blocks:
        return ()
    (test, program), *others = blocks
    if test is None:
        return program
    leaves = first and bool(program) and program[-1].leaves
    rest = _chain(others, first=leaves)
    if not program and not rest:
        return ()
    return (If(test, program), *rest) if leaves else (If(test, program, rest),)
