"""The suite for MLX finds functions that are broken in one way each."""

from __future__ import annotations

from typing import Any

import pytest

mx: Any = pytest.importorskip("mlx.core")

from symgrad.targets.arrays.runtime import _runtime_mlx as rt  # noqa: E402
from symgrad.testing.mlx import Golden, Input, OperationTests  # noqa: E402


def composite(x: Any, b: Any) -> Any:
    return x * mx.tanh(b * x)


def tangents(primals: Any, outputs: Any, given: Any) -> Any:
    (x, b), (tx, tb) = primals, given
    slope = x * (1 - mx.tanh(b * x) ** 2)
    terms = [] if tx is None else [(mx.tanh(b * x) + slope * b) * tx]
    return [terms if tb is None else [*terms, slope * x * tb]]


def value(x: Any, b: Any) -> Any:
    x, b, dtype = rt.widen(x, b)
    return composite(x, b).astype(dtype)


def suite(function: Any) -> OperationTests:
    """The tests of a function."""
    facts = {
        "call": staticmethod(function),
        "composite": staticmethod(composite),
        "inputs": (Input("x", -2, 2), Input("b", 0.5, 2)),
        "cases": (({}, ((2, 3), (3,))),),
        "golden": (
            Golden(((), ()), ((0.5,), (1.0,)), {}, ((0.23105857863,),), {"x": (0.8553404428,), "b": (0.1966119332,)}),
        ),
    }
    made: OperationTests = type("Checked", (OperationTests,), facts)()
    return made


CHECKS = [name for name in dir(OperationTests) if name.startswith("test_")]


@pytest.mark.parametrize("check", [c for c in CHECKS if c != "test_arguments"])
def test_a_right_function_passes(check: str) -> None:
    getattr(suite(rt.Function("right", value, tangents)), check)()


def without_vmap() -> Any:
    """A custom function whose rules vmap drops."""
    function = mx.custom_function(composite)

    @function.vjp
    def vjp(primals: Any, cotangent: Any, output: Any) -> Any:
        return mx.vjp(composite, list(primals), [2 * cotangent])[1]

    return function


def bad_partial(primals: Any, outputs: Any, given: Any) -> Any:
    return [[2 * term for term in terms] for terms in tangents(primals, outputs, given)]


BROKEN = [
    ("test_values", lambda x, b: value(x, b) + 1e-3),
    ("test_derivatives", rt.Function("bad", value, bad_partial)),
    ("test_golden_numbers", rt.Function("bad", value, bad_partial)),
    ("test_every_argument_alone", without_vmap()),  # it has no forward mode of its own: that of the formula
    ("test_vmap", without_vmap()),
    ("test_dtypes", lambda x, b: composite(x.astype(mx.float32), b.astype(mx.float32))),
]


@pytest.mark.parametrize(("check", "function"), BROKEN, ids=[b[0] for b in BROKEN])
def test_a_broken_function_is_found(check: str, function: Any) -> None:
    with pytest.raises((AssertionError, ValueError)):
        getattr(suite(function), check)()
