"""Angles in float64 in a formula that is otherwise in float32: the same values, as accurate as all of it in float64."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
import torch
import torch.autograd.forward_ad as fw
from compiled import compiled_text
from fused import compiled, needs_compiler, written
from torch.utils._python_dispatch import TorchDispatchMode

from symgrad.accuracy.evaluate import FLOAT32, exact
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.simulate import Simulation
from symgrad.accuracy.widening import NARROW, in_float64, with_wide_angles, without_float64
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological

X, A = symbol("x"), symbol("a")
W = symbol("w", "float")
WAVE = """\
op: waves
tensors: {x: , a: }
hyperparameters: {w: 1.3}
outputs: {y: "sin(w * x) / 2 + cos(a * x)**2", z: "tan(x / a)"}
"""


def ops(*roots: Expr) -> set[str]:
    return {n.op for n in topological(*roots)}


@pytest.mark.parametrize("name", NARROW.values())
@pytest.mark.parametrize("angle", [A * X, W * X + 1, (X - A) ** 2, X / A], ids=str)
def test_a_computed_angle_is_widened_and_means_the_same(name: str, angle: Expr) -> None:
    form = A * make(name, angle) + X
    (found,) = with_wide_angles([form])
    assert name not in ops(found) and "widen" in ops(found)
    point = {X: 0.7, A: -1.9, W: 0.3}
    assert exact([found], point, 100) == exact([form], point, 100)


@pytest.mark.parametrize(
    "form", [make("sin", X), make("exp", A * X), make("cos", make("exp", X)), make("sin", W)], ids=str
)
def test_other_functions_and_angles_that_are_not_rounded_stay(form: Expr) -> None:
    assert with_wide_angles([form]) == [form]


def test_the_machine_rounds_after_the_function_alone() -> None:
    points = [{A: FLOAT32.round(a), X: FLOAT32.round(x)} for a, x in ((30.1, 7.77), (1e30, 1e30), (-0.1, 3e-40))]
    form = A * make("sin", A * X)
    (wide,) = with_wide_angles([form])
    for point, rounded, found in zip(
        points,
        Simulation(points, FLOAT32)(machine_form(form)),
        Simulation(points, FLOAT32)(machine_form(wide)),
        strict=True,
    ):
        with mp.workprec(300):
            sine = FLOAT32.round(mp.sin(mp.mpf(point[A]) * mp.mpf(point[X])))
        assert found == FLOAT32.round(point[A] * sine)
        assert abs(point[A]) < 1 or found != rounded  # what the rounded angle gives


@needs_compiler
def test_passes_take_angles_in_float64_and_the_rest_in_float32(tmp_path) -> None:
    """A product of floats is exact in float64, so the error is that of the function; and no angle overflows."""
    assert "run<Forward, 3, Compute, 4>" in compiled(WAVE).passes["waves.cpp"]
    module = written(WAVE, tmp_path)
    generator = torch.Generator().manual_seed(0)
    x, a = (torch.randn(4096, generator=generator) * torch.logspace(-3, 6, 4096) for _ in range(2))
    y, z = module.waves(x, a)
    with mp.workprec(200):
        pairs = [(mp.mpf(p), mp.mpf(q)) for p, q in zip(x.tolist(), a.tolist(), strict=True)]
        sines = torch.tensor([float(mp.sin(mp.mpf(1.3) * p) / 2) for p, _ in pairs], dtype=torch.float64)
        cosines = torch.tensor([float(mp.cos(p * q) ** 2) for p, q in pairs], dtype=torch.float64)
        tangents = torch.tensor([float(mp.tan(p / q)) for p, q in pairs], dtype=torch.float64)
    assert ((y - (sines + cosines)).abs() <= 4 * 2.0**-24).all()
    assert ((z - tangents).abs() <= 2.0**-23 * tangents.abs()).all()
    large = torch.tensor([1e30, 3e38, -1e35])
    assert torch.isfinite(module.waves(large, large)[0]).all()
    for special in (math.inf, -math.inf, math.nan):
        assert module.waves(torch.full((20,), special), torch.ones(20))[0].isnan().all()
    assert math.copysign(1, module.waves(torch.full((20,), -0.0), torch.ones(20))[1][3].item()) == -1


def test_a_hyperparameter_in_an_angle_is_not_rounded_to_float32() -> None:
    (found,) = with_wide_angles([make("sin", W * X)])
    assert {n.args[0] for n in topological(found) if n.op == "widen"} == {W, X}
    triton = compiled(WAVE).passes["waves_triton.py"]
    assert "wide_w: tl.float64" in triton and "wide_w = " not in triton


MIXED = """\
op: mixed
tensors:
  a: {domain: "[0.5, 100]"}
  b:
  x:
outputs: {y: lgamma(a + 1/2) - lgamma(a) + exp(b) * x}
"""


def test_all_that_is_read_is_in_float64_but_what_lends_its_shape() -> None:
    given, like = symbol("grad_y", "cotangent"), symbol("b")
    form = make("sum_to", given * make("exp", A * X), like)
    found = in_float64(form, frozenset())
    assert found.op == "sum_to" and found.args[1] is like
    read = {n.args[0] for n in topological(found) if n.op == "double"}
    assert read == {given, A, X} and found.args[0].op == "single"
    assert without_float64(found) is form
    saved = make("exp", A * X)
    assert {n.args[0] for n in topological(in_float64(form, {saved})) if n.op == "double"} == {given, saved}


class Doubles(TorchDispatchMode):
    """Counts the operations with a result in float64."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.count += isinstance(result, torch.Tensor) and result.dtype == torch.float64
        return result


def mixed_inputs(count: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    a = 0.5 + 99 * torch.rand(count, generator=generator)
    return [a, torch.randn(count, generator=generator), torch.randn(count, generator=generator)]


def slopes_of_a(a: torch.Tensor) -> torch.Tensor:
    with mp.workprec(100):
        return torch.tensor([float(mp.psi(0, mp.mpf(v) + 0.5) - mp.psi(0, v)) for v in a.tolist()], dtype=torch.float64)


def test_the_derivative_that_needs_float64_has_it_alone() -> None:
    made = compiled_text(MIXED)
    ((_, variant),) = made.operation.variants()
    assert variant.wide_alone == {("y", "a")} and not variant.wide_slopes
    tensors = mixed_inputs(32)
    for k, name in enumerate("abx"):
        wanted = [t.clone().requires_grad_(n == k) for n, t in enumerate(tensors)]
        y = made.function(*wanted)
        with Doubles() as doubles:
            (gradient,) = torch.autograd.grad(y.sum(), wanted[k])
        assert (doubles.count > 0) == (name == "a")
        assert gradient.dtype == torch.float32
        with Doubles() as doubles, fw.dual_level():
            duals = [fw.make_dual(t, torch.ones_like(t)) if n == k else t for n, t in enumerate(tensors)]
            moved = fw.unpack_dual(made.function(*duals)).tangent
        assert moved.dtype == torch.float32
        if name == "a":
            true = slopes_of_a(tensors[0])
            assert ((gradient - true).abs() <= 2.0**-22 * true.abs()).all()
            assert ((moved - true).abs() <= 2.0**-22 * true.abs()).all()


@needs_compiler
def test_a_pass_computes_one_gradient_in_float64_and_the_others_in_float32(tmp_path) -> None:
    text = compiled(MIXED).passes["mixed.cpp"]
    backward = text.partition("struct Backward")[2].partition("};")[0]
    assert "InDouble(a" in backward and "InDouble(b" not in backward
    module, tensors = written(MIXED, tmp_path), [t.requires_grad_() for t in mixed_inputs(4096)]
    a, b, x = torch.autograd.grad(module.mixed(*tensors).sum(), tensors)
    true = slopes_of_a(tensors[0].detach())
    assert ((a - true).abs() <= 2.0**-22 * true.abs()).all()
    assert torch.allclose(b, (tensors[1].exp() * tensors[2]).detach(), rtol=1e-6)
    assert torch.allclose(x, tensors[1].exp().detach(), rtol=1e-6)


def test_a_gradient_that_needs_float64_does_not_widen_forward() -> None:
    text = """
op: soft
tensors: {x: }
outputs: {y: "clamp(x, 0, 1)"}
gradients: {x: "grad_y * exp(-(0.9943258522851727 * abs(2 * x / 255 - 1))**100)"}
"""
    ((_, variant),) = compiled_text(text).operation.variants()
    assert variant.in_float64 == ["derivatives"]


def test_frameworks_of_one_type_compute_all_derivatives_in_float64_where_one_needs_it() -> None:
    operation = compiled_text(MIXED).operation
    ((_, variant),) = operation.in_one_type().variants()
    assert variant.wide_slopes and not variant.wide_alone
    assert not {"double", "single"} & ops(*variant.gradients.values(), *variant.tangents.values())
    plain = compiled_text("\nop: plain\ntensors: {x: }\noutputs: {y: exp(x)}\n").operation
    assert plain.in_one_type() == plain
