"""Which names a spec may use: every identifier of Python for what it declares, few for the operation itself."""

from __future__ import annotations

import pytest

from symgrad.spec.names import forbidden_names, name_fault, normal, op_fault


@pytest.mark.parametrize("name", ["x", "_", "__x", "torch", "self", "sum", "match", "β", "x̂", "e", "I", "nan"])
def test_identifiers_are_names(name: str) -> None:
    assert name_fault(normal(name)) is None


@pytest.mark.parametrize(
    "name", ["", "1x", "a-b", "a b", "x.y", "lambda", "None", "pi", "E", "oo", "__debug__", "x" * 101]
)
def test_what_has_another_meaning_is_no_name(name: str) -> None:
    assert name_fault(name)


def test_what_is_forbidden_is_at_fault() -> None:
    assert all(map(name_fault, forbidden_names()))


def test_names_are_compared_as_python_compares_them() -> None:
    assert normal("ﬁ") == "fi" and normal("ｘ") == "x"


@pytest.mark.parametrize("op", ["swish", "smooth_l1", "sum", "abs", "x", "a1_b2", "a" * 60])
def test_operations_are_in_snake_case(op: str) -> None:
    assert op_fault(op) is None


@pytest.mark.parametrize(
    "op",
    [
        "Swish",
        "_x",
        "x_",
        "a__b",
        "1a",
        "é",
        "a" * 61,
        "test_x",
        "test",
        "torch",
        "math",
        "list",
        "tensor",
        "con",
        "if",
    ],
)
def test_an_operation_hides_nothing_that_its_files_need(op: str) -> None:
    assert op_fault(op)
