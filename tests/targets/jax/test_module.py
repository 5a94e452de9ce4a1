"""Generated JAX modules: what reverse mode keeps, PyTorch's kinks, rules, half precision, static hyperparameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled import compiled_text
from written import imported

from symgrad.targets.target import TARGETS

jax = pytest.importorskip("jax")
jnp = jax.numpy


def spec(op: str, body: str) -> str:
    return f"op: {op}\n{body}"


CLIP = spec(
    "clip",
    'tensors: {x: }\nhyperparameters: {limit: 1.0}\noutputs: {y: x}\ngradients: {x: "clamp(grad_y, -limit, limit)"}\n',
)
STE = spec("ste", "tensors: {x: }\noutputs: {y: sign(x)}\ngradients: {x: grad_y}\n")
RELU = spec("lin", "tensors: {x: {shape: [N, D]}, w: {shape: [K, D]}}\noutputs: {y: relu(x @ w.T)}\n")
L1 = spec(
    "l1",
    "tensors: {x: , t: {grad: false}}\nlet: {d: x - t}\noutputs: {y: 'where(abs(d) < 1, d**2 / 2, abs(d) - 1/2)'}\n",
)


def residuals(function: Any, *arguments: Any) -> list[Any]:
    """The arrays that reverse mode under jit keeps, but for numbers."""
    kept = jax.eval_shape(lambda *a: jax.tree_util.tree_leaves(jax.vjp(jax.jit(function), *a)[1]), *arguments)
    return [a for a in kept if a.size > 1]


def test_a_mask_is_kept_as_a_mask(tmp_path: Path) -> None:
    lin = imported(RELU, "jax", tmp_path).lin
    x, w = jnp.ones((4, 3)), jnp.ones((2, 3))
    assert sorted(str(a.dtype) for a in residuals(lin, x, w)) == ["bool", "float32", "float32"]
    assert sorted(str(a.dtype) for a in residuals(lambda x: lin(x, w), x)) == ["bool", "float32"]  # and the weight


def test_an_intermediate_stands_for_two_inputs(tmp_path: Path) -> None:
    l1 = imported(L1, "jax", tmp_path).l1
    x, t = jnp.arange(4.0), jnp.ones(4)
    assert len(residuals(lambda x: l1(x, t), x)) == 1
    second = jax.grad(lambda x: jax.grad(lambda x: l1(x, t).sum())(x).sum())(x)  # it lost no derivative
    np.testing.assert_array_equal(second, [0, 1, 0, 0])


def test_a_straight_through_estimator_keeps_nothing_and_holds_in_every_mode(tmp_path: Path) -> None:
    ste = imported(STE, "jax", tmp_path).ste
    x = jnp.array([-2.0, 0.0, 3.0])
    assert residuals(ste, x) == []
    np.testing.assert_array_equal(jax.grad(lambda x: (2 * ste(x)).sum())(x), [2, 2, 2])
    np.testing.assert_array_equal(jax.jvp(ste, (x,), (x,))[1], x)
    np.testing.assert_array_equal(jax.vmap(jax.grad(ste))(x), [1, 1, 1])
    # The rule holds in the derivative of the derivative, too.
    np.testing.assert_array_equal(jax.grad(lambda x: jax.grad(lambda x: (ste(x) ** 2).sum())(x).sum())(x), [2, 2, 2])


def test_a_rule_that_is_not_linear_has_no_forward_mode(tmp_path: Path) -> None:
    clip = imported(CLIP, "jax", tmp_path).clip
    x = jnp.array([-2.0, 0.25, 3.0])
    np.testing.assert_array_equal(jax.grad(lambda x: (clip(x) ** 2).sum())(x), [-1, 0.5, 1])
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(clip, (x,), (x,))


def test_kinks_are_those_of_torch(tmp_path: Path) -> None:
    """JAX has 1 for the derivative of abs at 0 and 1/2 for that of clip at its ends: in second derivatives, too."""
    body = "tensors: {x: }\noutputs: {y: 'abs(x) + clamp(x, 0, 1)', z: 'abs(x)**3 * clamp(x, -1, 1)'}\n"
    module = imported(spec("kinks", body), "jax", tmp_path)
    first = jax.vmap(jax.grad(lambda x: module.kinks(x)[0]))(jnp.array([0.0, 1.0]))
    np.testing.assert_array_equal(first, [1, 2])
    second = jax.grad(jax.grad(lambda x: module.kinks(x)[1]))(jnp.float32(1))
    assert second == 6 + 3 + 3  # of x**4 as it is below 1: 12


def test_half_precision_is_computed_in_float32(tmp_path: Path) -> None:
    text = spec("gate", "tensors: {x: }\noutputs: {y: x * sigmoid(x) * exp(-x) * exp(x)}\n")
    gate = imported(text, "jax", tmp_path).gate
    x = jnp.linspace(-4, 4, 101, dtype=jnp.bfloat16)
    truth = jax.nn.silu(x.astype(jnp.float32)).astype(jnp.bfloat16)
    assert gate(x).dtype == jnp.bfloat16
    np.testing.assert_array_equal(gate(x).astype(jnp.float32), truth.astype(jnp.float32))


def test_hyperparameters_are_no_arrays(tmp_path: Path) -> None:
    clip = imported(CLIP, "jax", tmp_path).clip
    with pytest.raises(TypeError, match="limit must be of type float"):
        jax.grad(lambda limit: clip(jnp.ones(2), limit).sum())(1.0)
    assert clip(jnp.ones(2), np.float32(2)).shape == (2,)


def test_absent_tensors_and_integers(tmp_path: Path) -> None:
    body = "tensors: {x: , k: {dtype: int}, b: {default: 0}}\noutputs: {y: x * k + b}\n"
    shifted = imported(spec("shifted", body), "jax", tmp_path).shifted
    x, k = jnp.arange(3.0), jnp.arange(3)
    np.testing.assert_array_equal(jax.grad(lambda x: shifted(x, k).sum())(x), k)
    np.testing.assert_array_equal(jax.grad(lambda b: shifted(x, k, b).sum())(1.0), 3)
    with pytest.raises(TypeError, match="array of integers"):
        shifted(x, x)


def test_arguments_may_have_any_name(tmp_path: Path) -> None:
    body = "tensors: {rt: , jnp: , dtype: }\nhyperparameters: {jax: 2.0}\n"
    body += "outputs: {terms: rt * exp(jnp) * dtype**2 * jax}\n"
    named = imported(spec("named", body), "jax", tmp_path).named
    gradients = jax.grad(named, (0, 1, 2))(1.0, 0.0, 3.0, jax=1.0)
    assert [float(g) for g in gradients] == [9, 9, 6]


def test_a_module_is_short() -> None:
    swish = compiled_text((Path(__file__).parents[3] / "specs/swish.yaml").read_text("utf-8")).operation
    assert len(TARGETS["jax"].module(swish).splitlines()) <= 56
