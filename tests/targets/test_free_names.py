"""Which imports a generated file needs."""

from __future__ import annotations

import pytest

from symgrad.targets.free_names import free_names


@pytest.mark.parametrize(
    "source, names",
    [
        ("x = reduce(add, y)", {"x", "reduce", "add", "y"}),
        ("def f(reduce): return reduce", set()),
        ("def f(reduce: Any = copy) -> Tensor: return torch", {"Any", "copy", "Tensor", "torch"}),
        ("def f(math):\n    def g(): return math.pi\n    return g", set()),
        ("def f():\n    grad = 1\n    return lambda x: grad + x + vmap", {"vmap"}),
        ("class C(Function):\n    @staticmethod\n    def forward(io): return io", {"Function", "staticmethod"}),
        ('"""prose of an array"""\nname = "reduce"', {"name"}),
    ],
)
def test_an_argument_is_no_reason_for_an_import(source: str, names: set[str]) -> None:
    assert free_names(source) == names
