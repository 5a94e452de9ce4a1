"""Statements know what they read and write, and are equal where they are written alike."""

from __future__ import annotations

import pytest

from symgrad.lower.code import code, constant, name
from symgrad.lower.program import (
    Assign,
    Augment,
    Do,
    If,
    Raise,
    Return,
    Statement,
    With,
    given,
    missing,
    reads,
    returned,
    unpacking,
    wanted,
)
from symgrad.lower.python import lines

STATEMENTS: tuple[tuple[Statement, list[str], set[str], set[str]], ...] = (
    (Assign("y", code("f(x)")), ["y = f(x)"], {"f", "x"}, {"y"}),
    (Assign("y", constant(None), ("z",)), ["y = z = None"], set(), {"y", "z"}),
    (Assign(("a", "_"), code("f(x)")), ["a, _ = f(x)"], {"f", "x"}, {"a", "_"}),
    (Assign(("a",), name("saved")), ["(a,) = saved"], {"saved"}, {"a"}),
    (Assign(code("ctx.p"), name("p")), ["ctx.p = p"], {"ctx", "p"}, set()),
    (Augment("y", code("2 * x")), ["y += 2 * x"], {"y", "x"}, {"y"}),
    (Do(code("f(x)")), ["f(x)"], {"f", "x"}, set()),
    (Return(code("(x, None)")), ["return x, None"], {"x"}, set()),
    (Raise(code("ValueError(x)")), ["raise ValueError(x)"], {"ValueError", "x"}, set()),
    (With(code("f(c)"), (Assign("y", name("x")),), "s"), ["with f(c) as s:", "    y = x"], {"f", "c", "x"}, {"s", "y"}),
    (If(name("t"), (Assign("y", name("x")),)), ["if t:", "    y = x"], {"t", "x"}, {"y"}),
    (
        If(name("t"), (), (If(name("u"), (Do(name("a")),), (Do(name("b")),)),)),
        ["if t:", "    pass", "elif u:", "    a", "else:", "    b"],
        {"t", "u", "a", "b"},
        set(),
    ),
)


@pytest.mark.parametrize("statement, text, read, written", STATEMENTS, ids=lambda p: type(p).__name__)
def test_a_statement_says_what_it_is_written_as(
    statement: Statement, text: list[str], read: set[str], written: set[str]
) -> None:
    assert lines((statement,)) == text
    assert statement.reads == read
    assert statement.writes == written


def test_statements_are_equal_where_they_are_written_alike() -> None:
    again = If(code("t"), (Assign("y", code("x")),))
    assert again == STATEMENTS[-2][0]
    assert len({again, STATEMENTS[-2][0]}) == 1
    assert again != If(code("t"), (Assign("y", code("z")),))
    assert Do(name("x")) != Return(name("x"))


def test_only_a_return_leaves() -> None:
    assert [s.leaves for s, *_ in STATEMENTS].count(True) == 2


def test_what_nobody_reads_has_no_name() -> None:
    source = name("inputs")
    for read, text in (
        ({"a", "b", "c"}, "a, b, c = inputs"),
        ({"b"}, "_, b, _ = inputs"),
        ({"a"}, "a, *_ = inputs"),
    ):
        assert lines((unpacking(["a", "b", "c"], source, frozenset(read)),)) == [text]
    assert lines((unpacking(["a"], source, frozenset({"a"})),)) == ["(a,) = inputs"]


def test_conditions_are_data() -> None:
    tests = [wanted("needs_x"), given("grad_y"), missing("sig")]
    assert [lines((If(t.code, (Do(name("f")),)),))[0] for t in tests] == [
        "if needs_x:",
        "if grad_y is not None:",
        "if sig is None:",
    ]
    assert given("x") in {given("x")}
    assert given("x") != missing("x")


def test_a_condition_in_another_stands_in_brackets() -> None:
    assert lines((If(code("a and b or c"), (Do(name("f")),)),))[0] == "if (a and b) or c:"


def test_several_results_are_returned_as_they_are() -> None:
    assert lines((returned(["x", None, code("a + b")]),)) == ["return x, None, a + b"]
    assert reads((returned(["x", None]),)) == {"x"}
