"""A generated file gets the helpers that it names, those that these name, and no other."""

from __future__ import annotations

from symgrad.targets.snippets import needed

HELPERS = {"_a": "_a = _c", "_b": "_b = 1", "_c": "_c = _a"}


def test_helpers_come_with_those_that_they_name_in_the_order_of_the_table() -> None:
    assert needed(HELPERS, "x = _c", str.split) == ["_a = _c", "_c = _a"]


def test_what_nobody_names_is_left_out() -> None:
    assert needed(HELPERS, "nothing", str.split) == []
