"""Pieces of Python source mean what they were made of."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from symgrad.targets.literals import literal, tuple_of


@pytest.mark.parametrize(
    "value",
    ["", 'a "quoted" word', "back\\slash", "two\nlines", "é\x00\u2028", 1, -0.5, True, None, (), (1,), (1, ("a", 2))],
)
def test_a_literal_is_the_value(value: Any) -> None:
    assert ast.literal_eval(literal(value)) == value


def test_lists_become_tuples() -> None:
    assert literal([["a"], [1, 2]]) == '(("a",), (1, 2))'


def test_a_tuple_of_one_has_a_comma() -> None:
    assert [tuple_of(names) for names in ([], ["a"], ["a", "b"])] == ["()", "(a,)", "(a, b)"]
