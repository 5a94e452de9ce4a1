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
pytest.importorskip("symgrad.testing.jax")  # which asks for two devices
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


def test_a_sign_is_kept_in_a_byte(tmp_path: Path) -> None:
    text = spec("far", "tensors: {p: , q: {grad: false}}\noutputs: {y: abs(p - q)}\n")
    far = imported(text, "jax", tmp_path).far
    p, q = jnp.array([1.0, 2.0, 5.0, jnp.nan]), jnp.array([2.0, 2.0, 1.0, 0.0])
    assert [str(a.dtype) for a in residuals(lambda p: far(p, q), p)] == ["int8"]
    np.testing.assert_array_equal(jax.grad(lambda p: far(p, q).sum())(p), [-1, 0, 1, 0])  # as in PyTorch


def test_a_slice_at_a_share_of_its_dimension_is_rounded(tmp_path: Path) -> None:
    text = spec(
        "halves", "tensors: {x: {shape: [N, D]}}\noutputs: {y: 'cat([x[:, D // 2:], 2*x[:, :D // 2]], dim=1)'}\n"
    )
    halves = imported(text, "jax", tmp_path).halves
    for size in (4, 5, 1):
        x = jnp.arange(2.0 * size).reshape(2, size)
        expected = jnp.concatenate([x[:, size // 2 :], 2 * x[:, : size // 2]], axis=1)
        np.testing.assert_array_equal(jax.jit(halves)(x), expected)
        g = jax.grad(lambda x: halves(x).sum())(x)
        np.testing.assert_array_equal(g, jnp.where(jnp.arange(size) < size // 2, 2, 1) * jnp.ones_like(x))


def hlo(function: Any, *arguments: Any) -> str:
    """What XLA compiles of value and gradient."""
    step = jax.jit(jax.value_and_grad(lambda *a: function(*a).sum()))
    text: str = step.lower(*arguments).as_text()
    return text


def test_a_rule_that_computes_again_only_other_shapes_has_no_barrier(tmp_path: Path) -> None:
    light = spec("film", "tensors: {x: {shape: [N, C, L]}, g: {shape: [C]}}\noutputs: {y: 'x * g[:, None]'}\n")
    heavy = spec("waves", "tensors: {x: }\noutputs: {y: sin(x)}\n")
    x = jnp.ones((2, 3, 4))
    assert "optimization_barrier" not in hlo(imported(light, "jax", tmp_path).film, x, jnp.ones(3))
    assert "optimization_barrier" in hlo(imported(heavy, "jax", tmp_path).waves, x)


def test_values_in_order_and_their_derivative_are_sorted_once(tmp_path: Path) -> None:
    ordered = imported(spec("f", "tensors: {x: }\noutputs: {y: 'sort(x, dim=-1).values'}\n"), "jax", tmp_path).f
    x = jnp.array([[3.0, 1.0, 2.0]])
    compiled = jax.jit(jax.value_and_grad(lambda x: (ordered(x) * jnp.arange(3.0)).sum())).lower(x).compile()
    assert compiled.as_text().count(" sort(") == 1


def test_an_exponent_of_0_reads_nothing(tmp_path: Path) -> None:
    power = imported(spec("f", "tensors: {x: }\nhyperparameters: {n: 2}\noutputs: {y: x**n}\n"), "jax", tmp_path).f
    assert residuals(lambda x: power(x, n=1), jnp.ones(4)) == []


def test_the_derivative_of_a_logarithm_of_sums_is_right_for_large_products(tmp_path: Path) -> None:
    text = spec(
        "f",
        "tensors: {q: {shape: [N, D]}, k: {shape: [N, D]}}\noutputs: {y: 'sum(logsumexp(q @ k.T / 0.1, dim=-1))'}\n",
    )
    f = imported(text, "jax", tmp_path).f
    q = jnp.array([[-68.2, 81.0], [50.1, 19.2], [-11.7, -42.6]])
    k = jnp.array([[17.7, -78.8], [4.73, 88.3], [-8.19, 75.3]])
    np.testing.assert_allclose(jax.jit(jax.grad(f))(q, k), [[47.3, 883], [47.3, 883], [177, -788]], rtol=1e-5)


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


def test_the_extremum_in_half_precision_is_that_of_what_was_computed(tmp_path: Path) -> None:
    """The output is rounded, and no element need be equal to it."""
    least = imported(spec("least", "tensors: {x: , w: }\noutputs: {y: amin(3*x + w)}\n"), "jax", tmp_path).least
    for seed in range(8):
        numbers = np.random.default_rng(seed).normal(size=(2, 99))
        for kind in (jnp.float16, jnp.bfloat16):
            gradient = jax.grad(least)(*jnp.asarray(numbers).astype(kind))
            assert gradient.sum() == 3


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


def test_half_precision_is_kept_as_it_is(tmp_path: Path) -> None:
    """A rule that computes nothing again needs no checkpoint, but where what it reads was widened."""
    half = imported(spec("half_exp", "tensors: {x: }\noutputs: {y: exp(x)}\n"), "jax", tmp_path).half_exp
    x = jnp.linspace(-1, 1, 8)
    assert [a.dtype for a in residuals(half, x)] == [jnp.float32]
    assert "checkpoint" not in str(jax.make_jaxpr(jax.grad(lambda x: half(x).sum()))(x))
    assert [a.dtype for a in residuals(half, x.astype(jnp.bfloat16))] == [jnp.bfloat16]


def test_save_speed_keeps_what_jax_keeps() -> None:
    """And a rule that computes values again says so by saying nothing."""
    text = spec("gated", "tensors: {x: }\noutputs: {y: x * sigmoid(x)}\n")
    fast = TARGETS["jax"].module(compiled_text(text + "options: {save: speed}\n").operation)
    assert '@rt.operation(recompute="nothing")' in fast
    assert "@rt.operation()" in TARGETS["jax"].module(compiled_text(text).operation)


def test_tangents_have_the_dtype_of_the_output_and_those_of_integers_are_float0(tmp_path: Path) -> None:
    body = "tensors: {x: }\noutputs: {y: sin(x), k: {expr: 'topk(x, 2, dim=-1).indices', grad: false}}\n"
    ranked = imported(spec("ranked", body), "jax", tmp_path).ranked
    x = jnp.array([1, 3, 2], jnp.bfloat16)
    (y, k), (ty, tk) = jax.jvp(ranked, (x,), (x,))
    assert (y.dtype, ty.dtype, tk.dtype) == (jnp.bfloat16, jnp.bfloat16, jax.dtypes.float0)
    assert k.tolist() == [1, 2]


def test_whole_numbers_in_a_choice_are_floats(tmp_path: Path) -> None:
    step = imported(spec("step", "tensors: {x: }\noutputs: {y: 'where(x > 0, 1, 0)'}\n"), "jax", tmp_path).step
    assert step(jnp.ones(2)).dtype == jnp.float32


def test_softmax_of_half_precision_sums_in_float32(tmp_path: Path) -> None:
    rows = imported(spec("rows", "tensors: {x: }\noutputs: {y: 'softmax(x, dim=-1)'}\n"), "jax", tmp_path).rows
    assert abs(float(rows(jnp.zeros(70_000, jnp.float16))[0]) * 70_000 - 1) < 0.01


def test_third_derivatives_are_those_of_the_formula(tmp_path: Path) -> None:
    gate = imported(spec("cubic", "tensors: {x: }\noutputs: {y: x * sigmoid(x)}\n"), "jax", tmp_path).cubic
    third = [lambda f: jax.grad(jax.grad(jax.grad(f))), lambda f: jax.jacfwd(jax.grad(jax.jacfwd(f)))]
    for nested in third:
        np.testing.assert_allclose(nested(gate)(0.7), nested(jax.nn.silu)(0.7), rtol=1e-4)


def test_rules_hold_in_shard_map_on_two_devices(tmp_path: Path) -> None:
    if jax.device_count() < 2:
        pytest.skip("one device only: JAX was used before symgrad.testing.jax asked for two")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("data",))
    split = jax.sharding.PartitionSpec("data")
    ste, lin = (imported(text, "jax", tmp_path) for text in (STE, RELU))
    over = lambda f: jax.shard_map(f, mesh=mesh, in_specs=split, out_specs=split)  # noqa: E731
    x, w = jnp.arange(-4.0, 4.0).reshape(4, 2), jnp.ones((3, 2))
    np.testing.assert_array_equal(jax.jit(jax.grad(lambda x: over(ste.ste)(x).sum()))(x), jnp.ones((4, 2)))
    gradient = jax.grad(lambda x: over(lambda x: lin.lin(x, w))(x).sum())(x)
    np.testing.assert_array_equal(gradient, jax.grad(lambda x: lin.lin(x, w).sum())(x))
    _, pushed = jax.jvp(over(lambda x: lin.lin(x, w)), (x,), (x,))
    np.testing.assert_array_equal(pushed, lin.lin(x, w))


def test_a_module_is_short() -> None:
    swish = compiled_text((Path(__file__).parents[3] / "specs/swish.yaml").read_text("utf-8")).operation
    assert len(TARGETS["jax"].module(swish).splitlines()) <= 56
