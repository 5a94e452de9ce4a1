"""What reverse mode of JAX is said to keep is what it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax: Any = pytest.importorskip("jax")

from compiled import compiled_text  # noqa: E402

from symgrad.testing.residuals import beside_formula, residual_bytes, scanned_residual_bytes  # noqa: E402
from symgrad.testing.written import facts_of  # noqa: E402

jnp: Any = jax.numpy
X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
TABLE = np.arange(4, dtype="float32")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, b: x + b, 0),
        (lambda x, b: jnp.sin(x) + b, 48),  # the cosine
        (lambda x, b: x * b, 52),  # a number is kept, too
        (lambda x, b: x * jnp.cumsum(jnp.asarray(TABLE)) + b, 0),  # a constant is none of the function's
        (lambda x, b: jnp.where(x > 0, x, 0) + b, 12),
    ],
)
def test_what_depends_on_the_arguments_is_counted(function: Any, expected: int) -> None:
    own = [jnp.asarray(X), jnp.asarray(2.0, "float32")]
    assert residual_bytes(function, own) == expected
    assert scanned_residual_bytes(function, own) == expected


def test_what_is_fixed_is_counted_as_well() -> None:
    assert residual_bytes(lambda g, x: g * jnp.exp(x), [jnp.ones(12)], [jnp.asarray(X.ravel())]) == 48


SPIKE = "op: spike\ntensors: {v: }\noutputs: {s: 'where(v > 0, 1, 0)'}\ngradients: {v: grad_s / (1 + v**2)}\n"
MASK = (
    "op: held\ntensors: {x: }\noutputs: {y: 'clamp(round(x), -1, 1)'}\ngradients: {x: 'where(abs(x) < 1, grad_y, 0)'}\n"
)
SIDE = "op: side\ntensors: {x: , loss: {shape: [n]}}\noutputs: {y: x + 0}\ngradients: {loss: 1}\n"


@pytest.mark.parametrize(("text", "expected"), [(SPIKE, (48, 48)), (MASK, (12, 12)), (SIDE, (0, 0))])
def test_a_gradient_of_the_spec_is_counted_beside_what_it_takes_in_plain_jax(
    text: str, expected: tuple[int, int]
) -> None:
    """The zero derivative of the formula itself would take nothing."""
    facts = facts_of(compiled_text(text).operation, "jax")()
    arguments = [jnp.asarray(X), jnp.zeros(5, "float32")][: len(facts.inputs)]
    for found in beside_formula(facts, {}, arguments):
        assert found == expected
