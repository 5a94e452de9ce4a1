"""The runtime of MLX modules: every trap of MLX's custom functions, and the special functions that it lacks."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from compiled import compiled_text
from written import imported

mx: Any = pytest.importorskip("mlx.core")

from symgrad.targets.arrays.runtime import _runtime_mlx as rt  # noqa: E402
from symgrad.targets.target import TARGETS  # noqa: E402

PRODUCT = "op: product\ntensors: {x: , y: , k: {grad: false}}\noutputs: {z: x * sin(y) * k, w: x + y}\n"
STE = "op: ste\ntensors: {x: }\noutputs: {y: sign(x)}\ngradients: {x: grad_y}\n"
X, Y, K = mx.array([1.0, 2.0]), mx.array([0.5, -1.0]), mx.array([2.0, 3.0])


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------------ traps
def test_a_gradient_that_nobody_gives_is_zero_and_not_the_cotangent(tmp_path: Path) -> None:
    product = imported(PRODUCT, "mlx", tmp_path).product
    close(mx.grad(lambda k: product(X, Y, k)[0].sum())(K), [0, 0])


def test_several_gradients_that_nobody_gives_are_zeros(tmp_path: Path) -> None:
    """In MLX the process would end."""
    text = "op: only\ntensors: {x: , a: {grad: false}, b: {grad: false}}\noutputs: {y: x * a * b}\n"
    only = imported(text, "mlx", tmp_path).only
    for gradient in mx.grad(lambda a, b: only(X, a, b).sum(), (0, 1))(Y, K):
        close(gradient, [0, 0])


def test_a_number_before_an_array_leaves_the_axes_of_vmap(tmp_path: Path) -> None:
    product = imported(PRODUCT, "mlx", tmp_path).product
    y = mx.array([[0.5, -1.0, 2.0], [1.0, 0.0, 3.0]])
    close(mx.vmap(lambda y: product(2.0, y, 1.0)[0], in_axes=1)(y), 2 * mx.sin(y).T)


def test_nothing_reads_a_value_inside_of_a_rule() -> None:
    """To print or compare one changes second derivatives: neither the runtime does so, nor what is written."""
    text = TARGETS["mlx"].module(compiled_text(PRODUCT).operation)
    for source in (text, Path(rt.__file__).read_text("utf-8")):
        called = {
            ast.unparse(n.func).rpartition(".")[2] for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)
        }
        assert not called & {"item", "tolist", "print", "eval", "async_eval", "bool"}


def test_shapes_and_dtypes_of_gradients_are_those_of_arguments(tmp_path: Path) -> None:
    product = imported(PRODUCT, "mlx", tmp_path).product
    x = mx.array([1.0], dtype=mx.float16)
    gradient = mx.grad(lambda x: product(x, mx.ones((3, 2)), K)[0].sum())(x)
    assert (gradient.shape, gradient.dtype) == ((1,), mx.float16)


def test_vmap_keeps_the_rules(tmp_path: Path) -> None:
    """vmap of a custom function without a rule for it drops the others: the gradient would be 0."""
    ste = imported(STE, "mlx", tmp_path).ste
    close(mx.grad(lambda x: mx.vmap(ste)(x).sum())(X), [1, 1])
    close(mx.jvp(mx.vmap(ste), [X], [Y])[1][0], Y)
    close(mx.grad(lambda x: mx.vmap(mx.vmap(ste))(x).sum())(mx.ones((2, 3))), np.ones((2, 3)))


def test_forward_mode_has_a_rule_of_its_own(tmp_path: Path) -> None:
    """Neither vjp nor jvp serves the other mode in MLX; a tangent that is missing is None."""
    product = imported(PRODUCT, "mlx", tmp_path).product
    plain = lambda x, y: x * mx.sin(y) * K  # noqa: E731
    ours = lambda x, y: product(x, y, K)[0]  # noqa: E731
    close(mx.jvp(ours, [X, Y], [Y, X])[1][0], mx.jvp(plain, [X, Y], [Y, X])[1][0])
    close(mx.jvp(lambda y: ours(X, y), [Y], [X])[1][0], mx.jvp(lambda y: plain(X, y), [Y], [X])[1][0])


def test_a_tangent_is_no_value(tmp_path: Path) -> None:
    """A pair returned by a jvp rule makes the value the tangent."""
    ste = imported(STE, "mlx", tmp_path).ste
    values, tangents = mx.jvp(ste, [X], [K])
    close(values[0], [1, 1])
    close(tangents[0], K)


def test_hyperparameters_are_closed_over_and_no_arrays(tmp_path: Path) -> None:
    text = "op: scaled\ntensors: {x: }\nhyperparameters: {k: 2.0}\noutputs: {y: k * x**2}\n"
    module = imported(text, "mlx", tmp_path)
    close(mx.grad(lambda x: module.scaled(x, 3.0).sum())(X), 6 * X)
    close(mx.vmap(lambda x: module.scaled(x, k=3.0))(X), 3 * X * X)  # a keyword breaks neither vmap
    close(mx.jvp(lambda x: module.scaled(x, k=3.0), [X], [Y])[1][0], 6 * X * Y)  # nor jvp
    assert module._scaled._at(3.0) is module._scaled._at(3.0)  # one custom function, which MLX compiles once
    with pytest.raises(TypeError, match="k must be of type float, not an array"):
        module.scaled(X, mx.array(3.0))


def test_an_absent_array_is_no_argument_of_the_custom_function(tmp_path: Path) -> None:
    text = "op: shifted\ntensors: {x: , b: {default: 0}}\noutputs: {y: x**2 + b}\n"
    shifted = imported(text, "mlx", tmp_path).shifted
    close(mx.grad(lambda x: shifted(x).sum())(X), 2 * X)
    close(mx.vmap(mx.grad(lambda x: shifted(x, 1.0)))(X), 2 * X)
    close(mx.grad(lambda b: shifted(X, b).sum())(Y), [1, 1])


def test_clip_and_maximum_have_the_derivatives_of_torch_where_they_are_differentiated() -> None:
    ends = mx.array([0.0, 1.0])
    close(mx.grad(lambda x: rt.clamp(x, 0, 1).sum())(ends), [1, 1])
    close(mx.grad(lambda x: rt.maximum(x, ends).sum())(ends), [0.5, 0.5])
    close(mx.grad(lambda x: rt.minimum(x, ends).sum())(ends), [0.5, 0.5])


def test_a_branch_that_is_not_chosen_has_no_part_in_derivatives() -> None:
    """MLX multiplies by the condition, and NaN times 0 is NaN."""
    chosen, nan = mx.array([True, False]), mx.array([1.0, math.nan])
    f = lambda x: rt.where(chosen, x, 0.0)  # noqa: E731
    close(mx.vjp(f, [X], [nan])[1][0], [1, 0])
    close(mx.jvp(f, [X], [nan])[1][0], [1, 0])
    twice = mx.vjp(lambda x: mx.grad(lambda x: (f(x) ** 2).sum())(x), [X], [nan])[1][0]
    close(twice, [2, 0])
    close(mx.grad(lambda b: rt.where(chosen, 1.0, b).sum())(mx.array(3.0)), 1)
    close(mx.vmap(mx.grad(lambda c, x: rt.where(c, x * x, 0.0), 1))(chosen, X), [2, 0])


def test_softmax_of_half_precision_sums_in_float32(tmp_path: Path) -> None:
    text = "op: rows\ntensors: {x: }\noutputs: {y: 'softmax(x, dim=-1)'}\n"
    rows = imported(text, "mlx", tmp_path).rows(mx.zeros((70_000,), dtype=mx.float16))
    assert abs(rows[0].item() * 70_000 - 1) < 0.01


def test_cumsum_of_half_precision_does_not_stick(tmp_path: Path) -> None:
    text = "op: sums\ntensors: {x: }\noutputs: {y: 'cumsum(x, dim=-1)'}\n"
    sums = imported(text, "mlx", tmp_path).sums(mx.ones((3000,), dtype=mx.bfloat16))
    assert sums[-1].item() == pytest.approx(3000, rel=0.01)


def test_compile_and_checkpoint_keep_the_rules(tmp_path: Path) -> None:
    ste = imported(STE, "mlx", tmp_path).ste
    close(mx.compile(mx.grad(lambda x: (ste(x) * x).sum()))(X), X + 1)
    close(mx.grad(mx.checkpoint(lambda x: (ste(x) * x).sum()))(X), X + 1)


# ------------------------------------------------------------------------------------------ special functions
def erfcx(x: Any) -> Any:
    return mpmath.exp(x * x) * mpmath.erfc(x)


def log_ndtr(x: Any) -> Any:
    return mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)


def ndtri(p: Any) -> Any:
    """By bisection of the logarithm: of a tail and of the middle."""
    tail, sign = (p, 1) if p < 0.5 else (1 - p, -1)
    return sign * mpmath.findroot(lambda x: log_ndtr(x) - mpmath.log(tail), (-15, 0.5), solver="anderson")


def log_gamma(x: Any) -> Any:
    return mpmath.log(abs(mpmath.gamma(x)))


# name, function, truth, points, and the relative error that is measured, in units of 2**-23
SPECIAL: list[tuple[str, Callable[..., Any], Callable[..., Any], list[float], float]] = [
    ("erfc", rt.erfc, mpmath.erfc, [-3, -0.7, 0, 0.3, 0.49, 0.6, 1.7, 4.5, 8.5], 64),
    ("erfcx", rt.erfcx, erfcx, [-4, -1.2, 0, 0.4, 2, 9, 50, 1e5], 256),
    ("log_ndtr", rt.log_ndtr, log_ndtr, [-100, -20, -3, -1.1, -0.9, 0, 1, 3], 64),
    ("ndtri", rt.ndtri, ndtri, [1e-37, 1e-20, 1e-7, 0.001, 0.02, 0.24, 0.26, 0.4, 0.6, 0.76, 0.99, 1 - 2**-24], 64),
    ("lgamma", rt.lgamma, log_gamma, [-2.5, -0.3, 0.1, 0.7, 1.2, 1.9, 3.3, 7.9, 8.1, 1e3], 64),
    ("digamma", rt.digamma, mpmath.digamma, [-2.3, -0.2, 0.1, 0.9, 1.3, 1.9, 4.2, 9.9, 30], 64),
    ("trigamma", lambda x: rt.polygamma(1, x), lambda x: mpmath.polygamma(1, x), [0.1, 1, 5.5, 40], 64),
    ("polygamma 2", lambda x: rt.polygamma(2, x), lambda x: mpmath.polygamma(2, x), [0.2, 1, 5.5, 40], 64),
    ("sinc", rt.sinc, lambda x: mpmath.sincpi(x), [-1.5, 0, 0.01, 0.4, 2.3], 16),
]  # fmt: skip


@pytest.mark.parametrize(("function", "truth", "points", "ulp"), [s[1:] for s in SPECIAL], ids=[s[0] for s in SPECIAL])
def test_special_functions_and_their_derivatives_are_accurate(
    function: Any, truth: Callable[..., Any], points: list[float], ulp: float
) -> None:
    with mpmath.workdps(40):
        for p in points:
            x = float(np.float32(p))
            exact, slope = float(truth(mpmath.mpf(x))), float(mpmath.diff(truth, mpmath.mpf(x)))
            for ours, theirs in ((function(mx.array(x)), exact), (mx.grad(function)(mx.array(x)), slope)):
                # One ulp of the argument explains as much.
                allowed = ulp * 2**-23 * max(abs(theirs), 1e-3) + 2**-22 * abs(x * slope)
                assert abs(ours.item() - theirs) <= allowed, (x, ours.item(), theirs)


@pytest.mark.parametrize("name", ["erfc", "erfcx", "log_ndtr"])
def test_special_functions_and_their_derivatives_are_numbers_at_every_size(name: str) -> None:
    sizes = np.concatenate([np.linspace(0, 300, 3001), np.geomspace(300, 1e38, 300)]).astype("float32")
    x = mx.array(np.concatenate([-sizes, sizes]))
    function = getattr(rt, name)
    assert not mx.isnan(function(x)).any()
    assert not mx.isnan(mx.grad(lambda x: function(x).sum())(x)).any()


def test_a_normal_number_is_infinite_at_the_ends_and_none_beyond() -> None:
    np.testing.assert_array_equal(rt.ndtri(mx.array([0.0, 1.0])), [-math.inf, math.inf])
    np.testing.assert_array_equal(mx.grad(lambda p: rt.ndtri(p).sum())(mx.array([0.0, 1.0])), [math.inf, math.inf])
    assert mx.isnan(rt.ndtri(mx.array([-0.1, 1.5]))).all()


def test_functions_of_two_arguments_at_their_corners() -> None:
    big = mx.array([3e30, 0.0])
    close(rt.hypot(big, mx.array([4e30, 0.0])) / 1e30, [5, 0])
    close(mx.grad(lambda x: rt.hypot(x, mx.array([4e30, 0.0])).sum())(big), [0.6, 0])
    zeros = mx.array([0.0, 2.0])
    close(rt.xlogy(zeros, zeros), [0, 2 * math.log(2)])
    close(mx.grad(lambda x: rt.xlog1py(x, mx.array([1.0, -0.5])).sum())(zeros)[1], math.log(0.5))
    close(rt.heaviside(mx.array([-1.0, 0.0, 1.0]), 0.5), [0, 0.5, 1])
