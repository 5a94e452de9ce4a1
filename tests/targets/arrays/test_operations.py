"""What the runtime files of JAX and MLX compute is what numpy and PyTorch compute."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import symgrad

torch = pytest.importorskip("torch")

X = np.array([[3.0, 1.0, 2.0, 2.0], [0.5, -1.0, 4.0, 0.0], [1.0, 1.5, -2.0, 3.0]], dtype="float32")
PLACES = np.array([2, 0, 2], dtype="int32")
IMAGE = np.arange(60, dtype="float32").reshape(1, 2, 5, 6) % 7


def runtime(framework: str) -> Any:
    """The functions that the generated modules of a framework share, and how it makes an array."""
    pytest.importorskip({"jax": "jax", "mlx": "mlx.core"}[framework])
    return importlib.import_module(f"symgrad.targets.arrays.runtime._runtime_{framework}")


def array(framework: str, value: Any) -> Any:
    if framework == "jax":
        return importlib.import_module("jax.numpy").asarray(value)
    return importlib.import_module("mlx.core").array(value)


BOTH = pytest.mark.parametrize("framework", ["jax", "mlx"])


@BOTH
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("cut", (1, 1, 3), X[:, 1:3]),
        ("cut", (-1, -2), X[:, -2:]),
        ("cut", (1, 0, None, 3), X[:, ::3]),
        ("cut_back", ((3, 9), 1, 2, 6), np.pad(X, ((0, 0), (2, 3)))),
        ("cut_back", ((3, 8), 1, 1, None, 2), np.kron(X, np.array([0.0, 1.0]))),
        ("cut_back", ((3, 7), 1, 0, None, 2), np.kron(X, np.array([1.0, 0.0]))[:, :7]),
        ("chunk", (-1, 2, 1), X[:, 2:]),
        ("chunk_back", ((3, 8), 1, 2, 1), np.pad(X, ((0, 0), (4, 0)))),
        ("part", (0, 1, (1, 4), (2, 4)), X[1:]),
        ("flatten", (0, -1), X.reshape(-1)),
        ("unflatten", (1, 2, 2), X.reshape(3, 2, 2)),
        ("pad", ((1, -2, 0, 1),), np.pad(X[:, :2], ((0, 1), (1, 0)))),
        ("shift", (1, 1), np.pad(X[:, :-1], ((0, 0), (1, 0)))),
        ("shift", (0, -2, 1), np.pad(X[2:], ((0, 2), (0, 0)), constant_values=1)),
    ],
)
def test_shapes_are_those_of_numpy(framework: str, name: str, arguments: tuple[Any, ...], expected: Any) -> None:
    np.testing.assert_array_equal(getattr(runtime(framework), name)(array(framework, X), *arguments), expected)


@BOTH
def test_recurrences_are_those_of_a_loop_and_transposed_to_each_other(framework: str) -> None:
    rt, a, b = runtime(framework), X / 2, np.roll(X, 1, 1)
    forward, backward = np.zeros_like(b), np.zeros_like(b)
    for k in range(4):
        forward[:, k] = b[:, k] + (a[:, k] * forward[:, k - 1] if k else 0)
    for k in reversed(range(4)):
        backward[:, k] = b[:, k] + (a[:, k + 1] * backward[:, k + 1] if k < 3 else 0)
    given = array(framework, a), array(framework, b)
    np.testing.assert_allclose(rt.scan(*given, 1), forward, rtol=1e-6)
    np.testing.assert_allclose(rt.scan_back(*given, -1), backward, rtol=1e-6)


@BOTH
def test_an_operation_that_a_framework_has_no_word_for_is_made_of_others(framework: str) -> None:
    pytest.importorskip({"jax": "jax", "mlx": "mlx.core"}[framework])
    module = symgrad.load("op: d\ntensors: {x: {shape: [N, C]}}\noutputs: {y: 'diff(x, 2)'}\n", target=framework)
    np.testing.assert_allclose(module.d(array(framework, X)), np.diff(X, 2), rtol=1e-6)


@BOTH
@pytest.mark.parametrize(("stop", "start"), [(5, 0), (None, -5)])
def test_a_slice_beyond_the_size_is_refused(framework: str, start: int, stop: int | None) -> None:
    with pytest.raises(ValueError, match="has no slice"):
        runtime(framework).cut(array(framework, X), 1, start, stop)


@BOTH
def test_a_dimension_without_equal_parts_is_refused(framework: str) -> None:
    with pytest.raises(ValueError, match="equal parts"):
        runtime(framework).chunk(array(framework, X), 1, 3, 0)


@BOTH
@pytest.mark.parametrize("seed", [0, 1, -5, 2**31, 2**62 - 1, -(2**63)])
def test_what_a_seed_draws_is_what_it_draws_in_torch(framework: str, seed: int) -> None:
    from symgrad.targets.torch.runtime import _runtime

    truth = _runtime.random_bits(torch.Size((3, 50)), seed, torch.ones(1))
    rt = runtime(framework)
    np.testing.assert_array_equal(rt.random_bits((3, 50), seed), truth)
    if abs(seed) < 2**31:
        np.testing.assert_array_equal(rt.random_bits((3, 50), array(framework, np.int32(seed))), truth)


@BOTH
def test_every_seed_of_a_batch_draws_its_own(framework: str) -> None:
    rt = runtime(framework)
    vmap = importlib.import_module("jax" if framework == "jax" else "mlx.core").vmap
    drawn = vmap(lambda seed: rt.random_bits((4,), seed))(array(framework, np.array([3, -1], dtype="int32")))
    np.testing.assert_array_equal(drawn, [rt.random_bits((4,), 3), rt.random_bits((4,), -1)])


@BOTH
@pytest.mark.parametrize("largest", [True, False])
def test_the_largest_and_the_smallest_come_in_order(framework: str, largest: bool) -> None:
    values, places = runtime(framework).topk(array(framework, X), 2, 1, largest)
    np.testing.assert_array_equal(values, torch.topk(torch.from_numpy(X), 2, 1, largest).values)
    np.testing.assert_array_equal(np.take_along_axis(X, np.asarray(places), 1), values)


@BOTH
def test_the_median_with_nan_is_nan(framework: str) -> None:
    x = X.copy()
    x[1, 2] = np.nan
    values = np.take_along_axis(x, np.asarray(runtime(framework).middle(array(framework, x), 1))[:, None], 1)[:, 0]
    np.testing.assert_array_equal(values, torch.median(torch.from_numpy(x), 1).values)


@BOTH
def test_what_has_a_place_twice_is_added(framework: str) -> None:
    rt, x, places = runtime(framework), array(framework, X), array(framework, PLACES)
    rows = torch.zeros(4, 4).index_add(0, torch.from_numpy(PLACES).long(), torch.from_numpy(X))
    np.testing.assert_array_equal(rt.add_slices(x, places, (4, 4), 0), rows)
    np.testing.assert_array_equal(rt.segment_sum(x, places, 4, 0), rows)
    index = np.array([[0, 0, 1, 2], [1, 1, 1, 1], [2, 0, 2, 0]], dtype="int32")
    along = torch.zeros(3, 4).scatter_add(1, torch.from_numpy(index).long(), torch.from_numpy(X))
    np.testing.assert_array_equal(rt.add_along(x, array(framework, index), (3, 4), 1), along)


@BOTH
def test_a_transposed_convolution_is_that_of_torch(framework: str) -> None:
    weight = np.arange(36, dtype="float32").reshape(2, 3, 2, 3) % 5
    how = {"stride": (2, 1), "padding": (0, 1), "output_padding": (1, 0)}
    truth = torch.nn.functional.conv_transpose2d(torch.from_numpy(IMAGE), torch.from_numpy(weight), **how)
    found = runtime(framework).conv_transpose(2, array(framework, IMAGE), array(framework, weight), **how)
    np.testing.assert_allclose(found, truth, rtol=1e-6)


@pytest.mark.parametrize("which", ["max", "min"])
def test_running_extrema_and_their_places_are_those_of_torch(which: str) -> None:
    rt, lax = runtime("jax"), importlib.import_module("jax").lax
    for found, truth in zip(
        rt.running(getattr(lax, f"cum{which}"), array("jax", X), -1),
        getattr(torch, f"cum{which}")(torch.from_numpy(X), -1),
        strict=True,
    ):
        np.testing.assert_array_equal(found, truth)


@pytest.mark.parametrize("padding", [0, (1, 1)])
@pytest.mark.parametrize("stride", [None, (2, 1)])
def test_windows_are_those_of_torch(stride: Any, padding: Any) -> None:
    rt, x = runtime("jax"), array("jax", IMAGE)
    how = {"kernel_size": (2, 3), "stride": stride, "padding": padding}
    leaf = torch.from_numpy(IMAGE).requires_grad_()
    means = torch.nn.functional.avg_pool2d(leaf, **how)
    np.testing.assert_allclose(rt.avg_pool(2, x, **how), means.detach(), rtol=1e-6)
    (spread,) = torch.autograd.grad(means.sum(), leaf)
    ones = array("jax", np.ones(means.shape, "float32"))
    np.testing.assert_allclose(rt.avg_pool_back(2, ones, IMAGE.shape, **how), spread, rtol=1e-6)
    largest, places = torch.nn.functional.max_pool2d(leaf.detach(), **how, return_indices=True)
    found, where = rt.max_pool(2, x, **how)
    np.testing.assert_array_equal(found, largest)
    np.testing.assert_array_equal(where, places)


def test_an_empty_segment_is_zero() -> None:
    rt, ops = runtime("jax"), importlib.import_module("jax").ops
    found = rt.segment_extremum(ops.segment_max, array("jax", X), array("jax", PLACES), 4, 0)
    np.testing.assert_array_equal(found, [X[1], np.zeros(4), np.maximum(X[0], X[2]), np.zeros(4)])


def test_the_logarithm_of_a_negative_determinant_is_nan() -> None:
    rt = runtime("jax")
    signed = np.array([[[2.0, 0.0], [0.0, 3.0]], [[0.0, 1.0], [1.0, 0.0]]], dtype="float32")
    np.testing.assert_allclose(rt.logdet(array("jax", signed)), torch.logdet(torch.from_numpy(signed)), rtol=1e-6)


@BOTH
def test_gradients_of_products_of_everything_and_sizes_that_are_divided(framework: str) -> None:
    text = """
        op: grouped
        tensors: {x: {shape: [N, D]}}
        hyperparameters: {k: {type: int, default: 2}}
        outputs: {y: "prod(x) + sum(prod(unflatten(x, 1, (k, D // k)), dim=2))"}
    """
    pytest.importorskip({"jax": "jax", "mlx": "mlx.core"}[framework])
    loss = symgrad.load(text, target=framework).grouped
    gradient = importlib.import_module({"jax": "jax", "mlx": "mlx.core"}[framework]).grad(loss)
    x = torch.tensor(X[:, :4] + 5.0, requires_grad=True)
    y = x.prod() + x.unflatten(1, (2, 2)).prod(2).sum()
    (right,) = torch.autograd.grad(y, x)
    np.testing.assert_allclose(np.asarray(gradient(array(framework, X[:, :4] + 5.0))), right.numpy(), rtol=1e-5)
