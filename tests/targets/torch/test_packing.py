"""Packed residuals of emitted modules: bytes, errors, numbers that are none, and who gets them as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from compiled import compiled_text
from torch import Tensor

GELU = "op: f\ntensors: {{x: }}\noutputs: {{y: gelu(x)}}\noptions: {{save: {{x: {}}}}}\n"
MASK = """op: f
tensors: {x: }
let: {m: x > 0}
outputs: {y: "where(m, x**2, 3*x)"}
options: {save: {x: int8, m: bit}}
"""
BIAS = "op: f\ntensors: {x: , bias: }\nlet: {h: x + bias}\noutputs: {y: gelu(h)}\noptions: {save: {h: int8}}\n"
RELU = "op: f\ntensors: {x: }\nlet: {m: x > 0}\noutputs: {y: 'where(m, x, 0)'}\noptions: {save: {m: bit}}\n"
MATRIX = """op: f
tensors: {x: {shape: [N, D]}, w: {shape: [H, D]}}
let: {h: x @ w.T}
outputs: {y: gelu(h)}
options: {save: {h: float8}}
"""
ERRORS = {"int8": 1 / 254, "float8": 1 / 16}


def call(text: str) -> Callable[..., Tensor]:
    module: Any = compiled_text(text).module
    found: Callable[..., Tensor] = module.f
    return found


def saved(function: Callable[..., Tensor], *tensors: Tensor) -> list[tuple[torch.dtype, int]]:
    found: list[tuple[torch.dtype, int]] = []

    def pack(t: Tensor) -> Tensor:
        found.append((t.dtype, t.untyped_storage().nbytes()))
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        function(*tensors)
    return found


def test_a_byte_an_element_and_a_number_a_row() -> None:
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.randn(10, 64, dtype=kind, requires_grad=True)
        assert saved(call(GELU.format("int8")), x) == [(torch.int8, 640), (torch.float32, 40)]
        assert saved(call(GELU.format("float8")), x) == [(torch.float8_e4m3fn, 640), (torch.float32, 40)]


def test_a_bit_an_element() -> None:
    for n in (0, 1, 7, 8, 9, 640):
        x = torch.randn(n, requires_grad=True)
        (bits, _) = saved(call(RELU), x)
        assert bits == (torch.uint8, -(-n // 8))
        (found,) = torch.autograd.grad(call(RELU)(x).sum(), x)
        assert torch.equal(found, (x > 0).to(x.dtype))


@pytest.mark.parametrize("form", ERRORS)
@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1.0, 1e30, 3e38])
def test_the_error_is_within_what_is_stated_at_all_magnitudes(form: str, scale: float) -> None:
    function = call(f"op: f\ntensors: {{x: , w: }}\noutputs: {{y: x * w}}\noptions: {{save: {{x: {form}}}}}\n")
    x = torch.randn(4, 40).clamp(-1, 1).mul(scale).requires_grad_()
    w = torch.ones(4, 40, requires_grad=True)
    (found,) = torch.autograd.grad(function(x, w).sum(), w)  # which is x, as it was kept
    most = x.detach().abs().amax(-1, keepdim=True)
    allowed = most / 254 if form == "int8" else torch.maximum(x.detach().abs() / 16, most / 458752)
    assert bool(((found - x.detach()).abs() <= allowed * (1 + 1e-5) + 1e-38).all())


@pytest.mark.parametrize("form", ERRORS)
def test_one_infinity_or_nan_does_not_spoil_its_row(form: str) -> None:
    x = torch.randn(2, 40)
    x[0, 0], x[0, 1], x[1, 0] = torch.inf, torch.nan, -torch.inf
    x.requires_grad_()
    (found,) = torch.autograd.grad(call(GELU.format(form))(x).sum(), x)
    own = x.detach().clone().requires_grad_()
    (want,) = torch.autograd.grad(torch.nn.functional.gelu(own).sum(), own)
    rest = x.isfinite()
    assert bool(found[0, 1].isnan()) and bool(found[rest].isfinite().all())
    torch.testing.assert_close(found[rest], want[rest], rtol=0, atol=0.15)


def test_several_values_are_packed_each_in_its_form() -> None:
    x = torch.randn(3, 40, dtype=torch.float64, requires_grad=True)
    assert [kind for kind, _ in saved(call(MASK), x)] == [torch.int8, torch.float64, torch.uint8, torch.bool]
    (found,) = torch.autograd.grad(call(MASK)(x).sum(), x)
    want = torch.where(x > 0, 2 * x, 3.0)
    assert bool(((found - want).abs() <= 2 * x.abs().amax(-1, keepdim=True) / 254 + 1e-12).all())


def test_autograd_refuses_to_differentiate_what_lost_its_derivative() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="f: a gradient from residuals in fewer bits"):
        torch.autograd.grad(call(GELU.format("int8"))(x).sum(), x, create_graph=True)


@pytest.mark.parametrize("text", [GELU.format("int8"), GELU.format("float8"), BIAS])
def test_torch_func_and_forward_mode_get_values_as_they_are(text: str) -> None:
    f, plain, x = call(text), torch.nn.functional.gelu, torch.randn(5, dtype=torch.float64)
    more = (torch.zeros(5, dtype=torch.float64),) if text is BIAS else ()

    def total(t: Tensor) -> Tensor:
        return f(t, *more).sum()

    torch.testing.assert_close(torch.func.jacrev(f)(x, *more), torch.func.jacrev(plain)(x))
    torch.testing.assert_close(torch.func.jacfwd(f)(x, *more), torch.func.jacrev(plain)(x))
    torch.testing.assert_close(torch.func.hessian(total)(x), torch.func.hessian(lambda t: plain(t).sum())(x))


def test_what_takes_the_place_of_its_operands_is_kept_alone() -> None:
    x, bias = (torch.randn(n, 40, requires_grad=True) for n in (3, 1))
    assert saved(call(BIAS), x, bias) == [(torch.int8, 120), (torch.float32, 12)]
    with pytest.raises(RuntimeError, match="cannot be differentiated"):
        torch.autograd.grad(call(BIAS)(x, bias).sum(), (x, bias), create_graph=True)


def test_what_is_kept_beside_its_operands_has_second_derivatives() -> None:
    f = call(MATRIX)
    x, w = (torch.randn(3, n, dtype=torch.float64, requires_grad=True) for n in (4, 4))
    assert torch.autograd.gradgradcheck(f, (x, w))
    assert (torch.float8_e4m3fn, 9) in saved(f, x, w)


def test_masks_as_bits_have_derivatives_of_every_order() -> None:
    f = call("op: f\ntensors: {x: }\nlet: {m: x > 0}\noutputs: {y: 'where(m, x**3, x)'}\noptions: {save: {m: bit}}\n")
    x = torch.randn(9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(f, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, (x,))


@pytest.mark.parametrize("text", [GELU.format("int8"), GELU.format("float8"), RELU])
def test_compiled_modules_give_the_gradients_of_eager_ones(text: str) -> None:
    f = call(text)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager", dynamic=True)
    for n in (3, 40):
        x = torch.randn(4, n, requires_grad=True)
        found, want = (torch.autograd.grad(g(x).sum(), x) for g in (compiled, f))
        torch.testing.assert_close(found, want)
