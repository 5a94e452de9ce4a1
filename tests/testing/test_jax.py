"""The suite for JAX finds functions that are broken in one way each, and nothing in one that is right."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

from symgrad.testing.jax import Input, check_function  # noqa: E402

INPUTS = (Input("x", -2, 2), Input("b", 0.5, 2))
SHAPES = ((2, 3), (3,))


def findings_of(check: str, function: Any) -> list[str]:
    """What one check says of a function."""
    return check_function(function, composite, INPUTS, SHAPES, checks=(check,))


def composite(x: Any, b: Any) -> Any:
    return x * jnp.tanh(b * x)


def by_jvp(tangents: Any) -> Any:
    """The composite with a rule of its own."""

    @jax.custom_jvp
    def function(x: Any, b: Any) -> Any:
        return composite(x, b)

    @function.defjvp
    def rule(primals: Any, given: Any) -> Any:
        return function(*primals), tangents(*primals, *given)

    return function


def right(x: Any, b: Any, tx: Any, tb: Any) -> Any:
    return jnp.tanh(b * x) * tx + x / jnp.cosh(b * x) ** 2 * (b * tx + x * tb)


def test_a_right_function_has_no_findings() -> None:
    assert check_function(jax.checkpoint(composite), composite, INPUTS, SHAPES) == []


def test_a_wrong_partial_is_found() -> None:
    (finding,) = findings_of("derivatives", by_jvp(lambda x, b, tx, tb: right(x, b, tx, 0.5 * tb)))
    assert finding.startswith("derivatives: ")


def test_a_lost_second_derivative_is_found() -> None:
    lost = lambda x, b, tx, tb: right(jax.lax.stop_gradient(x), b, tx, tb)  # noqa: E731
    (finding,) = findings_of("derivatives", by_jvp(lost))
    assert finding.startswith("derivatives: ") and "over" in finding


def test_a_wrong_value_is_found() -> None:
    (finding,) = findings_of("values", lambda x, b: composite(x, b) * (1 + 1e-6))
    assert finding.startswith("values: ")


def test_residuals_beyond_the_formula_are_found() -> None:
    wasteful = lambda x, b: composite(x, b) + 0 * jnp.sin(x) * jnp.cos(x * b) * jnp.exp(x)  # noqa: E731
    assert findings_of("residuals", wasteful)


def test_a_rule_without_forward_mode_is_found() -> None:
    @jax.custom_vjp
    def function(x: Any, b: Any) -> Any:
        return composite(x, b)

    function.defvjp(lambda x, b: jax.vjp(composite, x, b), lambda pull, g: pull(g))
    assert findings_of("derivatives", function)


def test_an_overflow_is_found() -> None:
    from symgrad.testing.jax import Golden, OperationTests

    facts = {
        "call": staticmethod(lambda x: jnp.log1p(jnp.exp(x))),
        "inputs": (Input("x"),),
        "golden": (Golden(((2,),), ((1.0, 1000.0),), {}, ((1.3132617, 1000.0),), {"x": (0.73105858, 2.0)}),),
    }
    with pytest.raises(AssertionError, match="inf, not 1000"):
        type("Checked", (OperationTests,), facts)().test_golden_numbers()
    facts["call"] = staticmethod(jax.nn.softplus)
    type("Checked", (OperationTests,), facts)().test_golden_numbers()


def test_a_wider_result_is_found() -> None:
    wider = lambda x, b: composite(x, b).astype(jnp.result_type(x, jnp.float32))  # noqa: E731
    assert findings_of("dtypes", wider)
