"""Functions of one's own serve plain calls, are held against the formula, and leave everything else to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from compiled import compiled_text
from torch import Tensor

from symgrad.errors import SpecError
from symgrad.notebook import generate
from symgrad.spec import parse_spec
from symgrad.spec.write import as_yaml
from symgrad.testing.checks import applicable, run
from tests.mutants import subject_of

TEXT = (
    "{op: scaled, tensors: {x: {shape: [N, C]}, w: {shape: [C]}, m: {dtype: bool, shape: [N, C]}},"
    " hyperparameters: {eps: {default: 0.5, domain: '(0, oo)'}},"
    " outputs: {y: 'where(m, w * x / sqrt(mean(x**2, dim=-1, keepdim=True) + eps), 0)'},"
    " extern: {forward: own_kernels.forward, backward: own_kernels.backward}}"
)


def formula(x: Tensor, w: Tensor, m: Tensor, eps: float) -> Tensor:
    return torch.where(m, w * x / (x.square().mean(-1, keepdim=True) + eps).sqrt(), 0)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is called of the kernels, which compute as a user's may: by hand, and nothing of half precision."""
    made: list[str] = []
    kernels: Any = ModuleType("own_kernels")

    def forward(x: Tensor, w: Tensor, m: Tensor, eps: float) -> Any:
        if x.dtype not in (torch.float32, torch.float64) or w.dtype != x.dtype:
            return NotImplemented
        made.append("forward")
        return formula(x, w, m, eps)

    def backward(grad: Tensor, x: Tensor, w: Tensor, m: Tensor, eps: float) -> Any:
        if x.dtype not in (torch.float32, torch.float64) or w.dtype != x.dtype or grad.dtype != x.dtype:
            return NotImplemented
        made.append("backward")
        scale = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
        grad = torch.where(m, grad, 0)
        inner = (grad * w * x).mean(-1, keepdim=True)
        return scale * grad * w - scale**3 * x * inner, (grad * x * scale).sum(0)

    kernels.forward, kernels.backward = forward, backward
    monkeypatch.setitem(sys.modules, "own_kernels", kernels)
    yield made


def arguments() -> list[Any]:
    torch.manual_seed(0)
    x, w = (torch.randn(size, dtype=torch.float64, requires_grad=True) for size in ((3, 4), (4,)))
    return [x, w, torch.rand(3, 4) > 0.3]


def test_plain_calls_are_served_and_derivatives_of_derivatives_are_the_formulas(calls: list[str]) -> None:
    function = compiled_text(TEXT).function
    x, w, m = arguments()
    y = function(x, w, m, eps=0.25)
    assert calls == ["forward"]
    found = torch.autograd.grad(y.sin().sum(), (x, w))
    assert calls == ["forward", "backward"]
    right = torch.autograd.grad(formula(x, w, m, 0.25).sin().sum(), (x, w))
    torch.testing.assert_close(found, right)
    assert torch.autograd.gradgradcheck(lambda x, w: function(x, w, m), (x, w))
    torch.func.vmap(function, (0, None, 0))(torch.randn(2, 3, 4), torch.randn(4), m.expand(2, 3, 4))
    torch.func.jvp(lambda x: function(x, w.detach(), m), (x.detach(),), (x.detach(),))
    assert calls.count("backward") == 1, "of what is differentiated again"


def test_the_generated_test_holds_the_functions_against_the_formula(calls: list[str], tmp_path: Path) -> None:
    stated = subject_of(tmp_path / "scaled", generate(f"{TEXT}\n"))
    assert [str(f) for c in applicable(stated) if not c.slow for f in run(c, stated)] == []
    assert {"forward", "backward"} <= set(calls)
    kernels: Any = sys.modules["own_kernels"]
    own, kernels.backward = kernels.backward, lambda *a: tuple(1.01 * g for g in kernels.right(*a))
    kernels.right = lambda *a: own(*a) if a[1].dtype == torch.float64 else own(*(_doubled(t) for t in a))
    wrong = subject_of(tmp_path / "wrong", generate(TEXT.replace("scaled", "wrong") + "\n"))
    found = {c.name for c in applicable(wrong) if not c.slow and any(run(c, wrong))}
    assert "value_and_gradients" in found


def _doubled(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def test_a_wrong_result_or_name_is_told(calls: list[str]) -> None:
    x, w, m = arguments()
    kernels: Any = sys.modules["own_kernels"]
    kernels.forward = lambda *a: (x, x)
    text = TEXT.replace("scaled", "twice")
    with pytest.raises(TypeError, match=r"twice: own_kernels\.forward must return one tensor"):
        compiled_text(text).function(x, w, m)
    with pytest.raises(ImportError, match=r"lost: own_kernels\.nowhere, which its spec names under 'extern'"):
        compiled_text(TEXT.replace("scaled", "lost").replace("own_kernels.forward", "own_kernels.nowhere")).function(
            x, w, m
        )


def test_a_spec_names_one_function_or_both() -> None:
    short = parse_spec("{op: f, tensors: {x: }, outputs: {y: 2*x}, extern: own.forward}")
    assert short.extern is not None
    assert short.extern.named == {"forward": "own.forward"}
    assert parse_spec(as_yaml(short)).extern == short.extern
    with pytest.raises(SpecError, match=r"must be a function as package\.module\.function"):
        parse_spec("{op: f, tensors: {x: }, outputs: {y: 2*x}, extern: 'os.system(1)'}")
