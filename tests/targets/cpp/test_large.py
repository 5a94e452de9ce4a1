"""Passes that nobody asked for serve large calls alone, by their size, and never while something is compiled."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from fused import needs_compiler

import symgrad

pytestmark = needs_compiler

LARGE = 2**16


def loaded(op: str) -> ModuleType:
    return symgrad.load(f"op: {op}\ntensors: {{x: , w: }}\noutputs: {{y: 'x * sigmoid(w * x)'}}\n")


@pytest.fixture(scope="module")
def gate() -> ModuleType:
    return loaded("large_gate")


def results(module: ModuleType, op: str, size: int) -> tuple[torch.Tensor, ...]:
    x, w = torch.linspace(-3, 3, size).requires_grad_(), torch.full((size,), 0.7, requires_grad=True)
    y = getattr(module, op)(x, w)
    return (y, *torch.autograd.grad(y.sum(), (x, w)))


def test_a_call_is_served_by_its_size_whatever_ran_before(gate: ModuleType) -> None:
    library = gate._kernels
    library.forget()
    for size, served in ((LARGE - 1, 0), (LARGE, 2), (LARGE - 1, 2), (8, 2)):
        found = results(gate, "large_gate", size)
        assert sum(map(bool, library.walks.values())) == served
        library.on = False
        for mine, eager in zip(found, results(gate, "large_gate", size), strict=True):
            torch.testing.assert_close(mine, eager)
        library.on = True


@pytest.mark.parametrize(
    ("dtype", "columns", "served"),
    [(torch.float32, 15, 0), (torch.float32, 16, 2), (torch.float64, 7, 0), (torch.float64, 8, 2)],
)
def test_stretches_that_fill_no_vector_are_left_to_eager_operations(
    gate: ModuleType, dtype: torch.dtype, columns: int, served: int
) -> None:
    """Points [N, 2] beside a column are two elements in one piece; without one they are 2*N."""
    library = gate._kernels
    library.forget()
    x, w = (torch.randn(LARGE, n, dtype=dtype, requires_grad=True) for n in (columns, 1))
    gate.large_gate(x, w).sum().backward()
    assert sum(map(bool, library.walks.values())) == served
    library.forget()
    gate.large_gate(x, x).sum().backward()
    assert sum(map(bool, library.walks.values())) == 2


def test_nothing_is_compiled_before_the_first_large_call_nor_while_torch_compiles(
    gate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = gate._kernels
    library.forget()

    def load(*_: Any) -> Any:
        raise AssertionError("compiled")

    monkeypatch.setattr(library, "load", load)
    monkeypatch.setattr(library, "libraries", {})
    results(gate, "large_gate", 100)
    x, w = torch.randn(2, LARGE)
    compiled = torch.compile(gate.large_gate, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, w.requires_grad_()), x * torch.sigmoid(w * x))
    torch.export.export(_Gate(gate.large_gate), (x, w.detach()))
    with pytest.raises(AssertionError, match="compiled"):
        results(gate, "large_gate", LARGE)


class _Gate(torch.nn.Module):
    def __init__(self, gate: Any) -> None:
        super().__init__()
        self.gate = gate

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> Any:
        return self.gate(x, w)


def test_without_a_compiler_one_warning_tells_of_all_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    first, second = loaded("first_gate"), loaded("second_gate")
    with pytest.warns(RuntimeWarning, match="no C\\+\\+ compiler .*SYMGRAD_KERNELS=0") as found:
        results(first, "first_gate", LARGE)
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results(first, "first_gate", LARGE)
        results(second, "second_gate", LARGE)


def test_they_may_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "op: off_gate\ntensors: {x: , w: }\noutputs: {y: 'x * sigmoid(w * x)'}\n"
    assert symgrad.generate(text).passes
    assert not symgrad.generate(text + "options: {kernels: none}\n").passes
    monkeypatch.setenv("SYMGRAD_KERNELS", "0")
    module = loaded("off_by_environment")
    results(module, "off_by_environment", LARGE)
    assert not module._kernels.walks
