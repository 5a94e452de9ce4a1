"""The generated test."""

from symgrad.operation import Operation


def render_test(operation: Operation) -> str:
    return "def test_nothing() -> None:\n    pass\n"
