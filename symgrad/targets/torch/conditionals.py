"""A tree of variants as Python's if, elif and else."""

from __future__ import annotations

from collections.abc import Callable

from symgrad.compiler.operation import Body, Variant
from symgrad.ir.branches import Split
from symgrad.ir.expr import Expr


def branches(body: Body, leaf: Callable[[Variant], list[str]], text: Callable[[Expr], str]) -> list[str]:
    """Source lines: `leaf` of each variant under Python's if, elif and else; what all begin with stands before."""
    if isinstance(body, Variant):
        return leaf(body)
    blocks: list[tuple[str, list[str]]] = []  # condition, lines; the last condition is empty
    tests: list[Expr] = []
    node: Body = body
    while isinstance(node, Split):
        tests.append(node.condition)
        blocks.append((text(node.condition), branches(node.then, leaf, text)))
        node = node.otherwise
    rest = leaf(node)
    if _exclude_each_other(tests):
        blocks = [b for b in blocks if b[1] != rest]
    blocks.append(("", rest))
    shared = _common_start([lines for _, lines in blocks])
    return [*blocks[0][1][:shared], *_chain([(c, lines[shared:]) for c, lines in blocks])]


def _exclude_each_other(tests: list[Expr]) -> bool:
    """Whether at most one of the conditions holds: they compare one hyperparameter with different texts."""
    return all(t.op == "eq" and t.args[1].op == "text" and t.args[0] is tests[0].args[0] for t in tests)


def _common_start(blocks: list[list[str]]) -> int:
    """How many whole statements all blocks begin with."""
    count = 0
    for lines in zip(*blocks, strict=False):
        if len(set(lines)) > 1:
            break
        count += 1
    while count and any(len(b) > count and b[count].startswith((" ", "else", "elif")) for b in blocks):
        count -= 1
    return count


def _chain(blocks: list[tuple[str, list[str]]]) -> list[str]:
    """if, elif and else; without else after a return."""
    blocks = [(c, lines) for c, lines in blocks if lines or c]
    if not any(lines for _, lines in blocks):
        return []
    if not blocks[-1][1]:
        blocks.pop()
    lines: list[str] = []
    word = "if"
    for condition, block in blocks:
        if not condition and word == "if":
            lines += block
            continue
        lines.append(f"{word} {condition}:" if condition else "else:")
        lines += _indented(block or ["pass"])
        leaves = word == "if" and bool(block) and block[-1].startswith(("return", "raise"))
        word = "if" if leaves else "elif"
    return lines


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
