"""The writer of C++: brackets where operators want them, declarations where names are new."""

from __future__ import annotations

import pytest

from symgrad.lower.clike import clike, clike_lines
from symgrad.lower.code import code, constant
from symgrad.lower.program import Assign, Declare, Do, If, Statement


@pytest.mark.parametrize(
    "template, text",
    [
        ("a * (b + c) - d / (e * f)", "a * (b + c) - d / (e * f)"),
        ("a - (b - c)", "a - (b - c)"),
        ("-(a * b)", "-(a * b)"),
        ("-a * b", "-a * b"),
        ("(a < b) & (c >= 0)", "(a < b) & (c >= 0)"),
        ("a and (b or not c)", "a && (b || !c)"),
        ("wanted >> 3 & 1", "wanted >> 3 & 1"),
        ("x if a < b else y", "a < b ? x : y"),
        ("1 / (x if a else y)", "1 / (a ? x : y)"),
        ("exp(row[2])", "exp(row[2])"),
        ('f("", True)', 'f("", true)'),
        ("(a != 0) == b", "(a != 0) == b"),
    ],
)
def test_an_expression_means_the_same(template: str, text: str) -> None:
    assert clike(code(template)) == text


@pytest.mark.parametrize("value, text", [(2, "2"), (2.0, "2."), (0.1, "0.1"), (-3.0, "-3."), (1e300, "1e+300")])
def test_whole_doubles_end_with_a_point(value: float, text: str) -> None:
    assert clike(constant(value)) == text


@pytest.mark.parametrize(
    "statement, line",
    [
        (Assign("y", code("exp(x)")), "const auto y = exp(x);"),
        (Assign(code("row[1]"), code("y")), "row[1] = y;"),
        (Declare("V", (("x", code("given[0]")), ("y", code("given[1]")))), "const V x = given[0], y = given[1];"),
        (If(code("wanted & 1"), (Assign(code("result[0]"), code("y")),)), "if constexpr (wanted & 1) result[0] = y;"),
    ],
)
def test_a_statement_is_one_line(statement: Statement, line: str) -> None:
    assert clike_lines((statement,)) == [line]


def test_a_declaration_is_read_and_written_by_name() -> None:
    declared = Declare("V", (("x", code("given[0]")),))
    assert (declared.reads, declared.writes) == ({"given"}, {"x"})


def test_what_has_no_words_in_it_is_refused() -> None:
    with pytest.raises(TypeError, match="no Lambda"):
        clike(code("lambda x: x"))
    with pytest.raises(TypeError, match="no Do"):
        clike_lines((Do(code("x")),))
