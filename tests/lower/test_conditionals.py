"""Python branches: they do what the variant that is taken does, and read as a person writes them."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.ir.branches import Split
from symgrad.ir.expr import Expr, symbol
from symgrad.lower.code import Code, code, constant, name
from symgrad.lower.conditionals import branches
from symgrad.lower.program import Assign, Do, If, Program, Return
from symgrad.lower.python import lines

A, B, C = (symbol(n, "bool") for n in "abc")


STATEMENTS = (
    *(Do(code("log.append({0})", k)) for k in (1, 2, 3)),
    If(name("x"), (Do(code("log.append(4)")),)),
    Return(name("log")),
)


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> Any:
    """Trees of conditions with programs at their ends, many of them equal."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        chosen = draw(st.lists(st.sampled_from(STATEMENTS), max_size=4))
        return tuple(chosen[: chosen.index(STATEMENTS[-1]) + 1] if STATEMENTS[-1] in chosen else chosen)
    condition = draw(st.sampled_from([A, B, C]))
    return Split(condition, draw(trees(depth=depth - 1)), draw(trees(depth=depth - 1)))


def emitted(tree: Any) -> list[str]:
    """The lines of a tree; the real one has variants at its ends, here a leaf is its program."""

    def own(leaf: Any) -> Program:
        return tuple(leaf)

    def test(condition: Expr) -> Code:
        return name(condition.name)

    return lines(branches(tree, own, test))


def split_on(condition: Expr, then: Any, otherwise: Any) -> Any:
    """A branch whose ends are programs; the real ones are variants."""
    return Split(condition, then, otherwise)


def run(lines: list[str], **values: bool) -> list[int]:
    body = "\n".join(f"    {line}" for line in ["log = []", *lines, "return log"])
    scope: dict[str, Any] = {}
    exec(f"def f({', '.join(values)}):\n{body}\n", scope)
    result: list[int] = scope["f"](**values)
    return result


@settings(deadline=None, max_examples=120)
@given(trees())
def test_branches_do_what_the_taken_leaf_does(tree: Any) -> None:
    found = emitted(tree)
    for a, b, c, x in product([True, False], repeat=4):
        values = {"a": a, "b": b, "c": c, "x": x}
        leaf = tree
        while isinstance(leaf, Split):
            leaf = leaf.then if values[leaf.condition.name] else leaf.otherwise
        assert run(found, **values) == run(lines(leaf), **values), found


def test_equal_leaves_need_no_branch() -> None:
    same = (Do(name("p")),)
    assert emitted(split_on(A, same, split_on(B, same, same))) == ["p"]


def test_chains_read_as_elif() -> None:
    one, two, three = ((Assign("p", constant(k)),) for k in (1, 2, 3))
    found = emitted(split_on(A, one, split_on(B, two, three)))
    assert found == ["if a:", "    p = 1", "elif b:", "    p = 2", "else:", "    p = 3"]


def test_nothing_stands_in_an_else_after_a_return() -> None:
    leaving = (Return(name("p")),)
    assert emitted(split_on(A, leaving, (Do(name("q")),))) == ["if a:", "    return p", "q"]
