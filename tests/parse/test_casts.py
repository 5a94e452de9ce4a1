"""Casts that are cast back, those that are not, and the limits of dtypes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from compiled import compiled_text

from symgrad.errors import SpecError
from symgrad.ir.expr import symbol
from symgrad.parse import FormulaError, parse_expression
from symgrad.parse.scope import Scope

NAMES = Scope.of([symbol("x", "tensor"), symbol("w", "tensor")])
RMS = "x{} * rsqrt(mean(x{}**2, dim=-1, keepdim=True) + 1e-6)"


def parsed(text: str) -> Any:
    return parse_expression(text, NAMES)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("x.float().to(x.dtype)", "x"),
        ("where(x > 0, x, float('-inf'))", "where(x > 0, x, -oo)"),
        ("float(3) * x + where(x > 0, float('inf'), 1)", "3 * x + where(x > 0, oo, 1)"),
        ("cast(cast(x, float32)**2, x.dtype)", "x**2"),
        ("(x.to(torch.float32) + 1).type_as(x) * w", "(x + 1) * w"),
        (f"w * ({RMS.format('.float()', '.float()')}).to(x.dtype)", f"w * ({RMS.format('', '')})"),
        ("(x > 0).to(x.dtype) * w", "where(x > 0, 1, 0) * w"),
    ],
)
def test_a_cast_that_is_cast_back_is_what_is_done_anyway(text: str, plain: str) -> None:
    assert parsed(text) is parsed(plain)


def test_half_precision_is_cast_as_torch_does() -> None:
    formula = f"({RMS.format('.float()', '.float()')}).to(x.dtype)"
    module: Any = compiled_text(f"op: f\ntensors: {{x: {{shape: [N, C]}}}}\noutputs: {{y: '{formula}'}}\n").module
    x = torch.randn(4, 64, dtype=torch.bfloat16)
    wide = x.float()
    want = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
    assert torch.equal(module.f(x), want)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cast(x, float32)", "cast back: cast(..., x.dtype)"),
        ("x.float() * 2", "a result has the dtype of the tensors"),
        ("cast(x, float16)", "there are casts to float32, and back to the dtype of a tensor"),
        ("(w * x.float()).to(x.dtype)", "the result has the dtype of all that it is made of, here of w, too"),
        ("x.type_as(w)", "here of x, too"),
        ("finfo(x).eps", "the dtype of a tensor is known at a call alone; name one, as in finfo(float32).eps"),
        ("finfo(float32).digits * x", "finfo has eps, max, min, tiny, smallest_normal"),
        ("x.half()", "results have the dtype of the tensors"),
    ],
)
def test_what_would_give_another_dtype_is_refused(text: str, message: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parsed(text)
    assert message in str(caught.value.faults[0].message)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", ["eps", "max", "min", "tiny", "smallest_normal"])
def test_limits_are_those_of_torch(dtype: str, name: str) -> None:
    number = parsed(f"finfo({dtype}).{name} * x").args[0].number
    assert float(number) == getattr(torch.finfo(getattr(torch, dtype)), name)


def test_an_intermediate_may_be_cast_where_what_reads_it_casts_back() -> None:
    text = "op: f\ntensors: {x: , w: }\nlet: {h: 'x.float()', n: 'h * rsqrt(mean(h*h, -1, keepdim=True))'}\n"
    item = compiled_text(f"{text}outputs: {{y: 'w * n.to(x.dtype)'}}\n")
    x, w = torch.randn(3, 4, dtype=torch.bfloat16), torch.randn(4, dtype=torch.bfloat16)
    wide = x.float()
    right = (w * (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True)))).to(x.dtype)
    torch.testing.assert_close(item.function(x, w), right, rtol=1e-2, atol=1e-2)
    with pytest.raises(SpecError, match="so leave the cast out, or cast back"):
        compiled_text(f"{text}outputs: {{y: 'w * n'}}\n")


@pytest.mark.parametrize(
    "cast", ["(x > 0).float()", "(x > 0).int()", "(x > 0).to(torch.float32)", "(w > 0).to(x.dtype)"]
)
def test_truth_values_may_be_cast(cast: str) -> None:
    item = compiled_text(f"op: f\ntensors: {{x: , w: }}\noutputs: {{y: 'x * w * {cast}'}}\n")
    x = torch.randn(5)
    torch.testing.assert_close(item.function(x, x), x * x * (x > 0))


def test_integers_are_floats_by_a_cast_and_floats_no_integers() -> None:
    item = compiled_text(
        "op: f\ntensors: {x: {shape: [N]}, i: {dtype: int, shape: [N]}}\noutputs: {y: 'x * i.float()'}\n"
    )
    torch.testing.assert_close(item.function(torch.ones(3), torch.arange(3)), torch.arange(3.0))
    with pytest.raises(SpecError, match="of floats there are no integers"):
        compiled_text("op: f\ntensors: {x: }\noutputs: {y: 'x * x.long()'}\n")
