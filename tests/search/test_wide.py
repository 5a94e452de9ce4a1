"""Whole specs are drawn of every template, and what is wrong with one is seen, under transformations too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.search.__main__ import outcome
from benchmarks.search.draw import Drawn
from benchmarks.search.hold import differences
from benchmarks.search.made import Made
from benchmarks.search.wide import TEMPLATES, TENSORS, draw_wide
from symgrad.errors import SymgradError
from symgrad.parse import parse_formulas

DTYPES = (torch.float32,)
TWO = Drawn(1, "wide", "x * w", tensors=TENSORS, others={"y1": "sum(sin(x) * v, dim=-1)"})


def test_specs_are_drawn_again_by_their_seeds_and_have_every_tensor() -> None:
    drawn = [draw_wide(seed) for seed in range(400)]
    assert [d.text for d in drawn] == [draw_wide(seed).text for seed in range(400)]
    assert {t.name for d in drawn for t in d.spec.tensors} == set(TENSORS)
    assert sum(len(d.spec.outputs) > 1 for d in drawn) > 100


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_is_a_formula(template: str) -> None:
    drawn = Drawn(1, "wide", template.format("(x + w)", "(w * v + x)"), tensors=TENSORS)
    try:
        parse_formulas(drawn.spec)
    except SymgradError as error:
        assert "grad: false" in str(error)  # an index, or a truth value
        parse_formulas(replace(drawn, fixed=frozenset({"y"})).spec)


@pytest.mark.parametrize("seed", [0, 2, 3, 5])
def test_specs_of_fixed_seeds_are_right(seed: int) -> None:
    assert not outcome(draw_wide(seed)).wrong


def _wrong(right: Callable[..., Any], change: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., Any]:
    def function(x: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return change(*right(x, w, v), x)

    return function


BROKEN: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "y 1": lambda y, y1, _: (y, y1 * 1.001),
    "gradient 0": lambda y, y1, x: (y, y1 + 0.01 * (x - x.detach()).sum()),
    "second 0": lambda y, y1, x: (y + 0.1 * (x - x.detach()) ** 2, y1),
    "tangent 1": lambda y, y1, x: (y, y1 + 0.01 * (x - x.detach()).sum()),
    "torch.float64": lambda y, y1, _: (y, y1.double()),
}


def test_what_is_wrong_with_one_of_several_outputs_is_seen(tmp_path: Path) -> None:
    made = Made(TWO, tmp_path, draft=True)
    assert not list(differences(made, 1, DTYPES))
    right = made.function
    for name, change in BROKEN.items():
        made.function = _wrong(right, change)
        assert any(name in d.what for d in differences(made, 1, DTYPES)), name


def test_a_second_derivative_that_is_lost_whole_is_seen(tmp_path: Path) -> None:
    made = Made(Drawn(1, "wide", "sin(x) * w", tensors=TENSORS), tmp_path, draft=True)
    right = made.function

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            ctx.save_for_backward(x, w)
            return right(x, w)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            x, w = (t.detach() for t in ctx.saved_tensors)
            return grad.detach() * torch.cos(x) * w, grad.detach() * torch.sin(x)

        @staticmethod
        def jvp(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            raise AssertionError

    made.function = lambda x, w: Once.apply(x, w) if torch.is_grad_enabled() and x.requires_grad else right(x, w)
    assert any("second" in d.what for d in differences(made, 1, DTYPES))


@pytest.mark.parametrize("way", ["vmap", "jvp of grad", "jac", "checkpoint", "without gradients"])
def test_what_goes_wrong_under_a_transformation_is_seen(way: str, tmp_path: Path) -> None:
    made = Made(TWO, tmp_path, draft=True)
    right, level = made.function, torch._C._functorch.maybe_current_level
    calls = iter(range(1000))
    wrong = {
        "vmap": lambda: (level() or 0) > 1,
        "jvp of grad": lambda: (level() or 0) > 1,
        "jac": lambda: (level() or 0) > 1,
        "checkpoint": lambda: next(calls) % 2 == 1,
        "without gradients": lambda: not torch.is_grad_enabled() and not level(),
    }[way]

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        factor = 2 if wrong() else 1
        return tuple(y * factor for y in right(*tensors))

    made.function = function
    assert any(way in d.what for seed in range(0, 40, 2) for d in differences(made, seed, DTYPES))
