"""The check of packed residuals finds what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from compiled import compiled_text
from torch import Tensor

from symgrad.testing import Input
from symgrad.testing.checks import CHECKS, packing_of, run
from symgrad.testing.packing import stated_error
from symgrad.testing.report import make_subject

TEXT = "op: f\ntensors: {x: }\noutputs: {y: gelu(x)}\noptions: {save: {x: int8}}\n"


def found(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> list[str]:
    """What the check says of an operation whose way to pack is changed."""
    module: Any = compiled_text(TEXT).module
    subject = make_subject(
        module.f,
        torch.nn.functional.gelu,
        [Input("x", low=-3, high=3)],
        packed={"x": "int8"},
        shapes=(((2, 3),),),
        large=(((2, 65),),),
    )
    subject = replace(subject, function=module.FFunction)
    for name, value in changes.items():
        monkeypatch.setattr(packing_of(subject), name, value)
    return [f.sentence for f in run(CHECKS["packed_residuals"], subject)]


def packing(pack: Callable[[Tensor], tuple[Tensor, Tensor]]) -> dict[str, Any]:
    return {"LOSSY": {"int8": pack}}


def coarse(value: Tensor) -> tuple[Tensor, Tensor]:
    scale = value.abs().amax() / 20
    return (value / scale).round().to(torch.int8), scale


def one_scale(value: Tensor) -> tuple[Tensor, Tensor]:
    scale = value.abs().amax() / 127
    return (value / scale).round().to(torch.int8), scale


def test_nothing_is_found_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch) == []


def test_values_that_are_further_off_than_stated_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = found(monkeypatch, **packing(coarse))
    assert any(s.startswith("what is kept as int8 is off by") for s in sentences)
    assert any("more than what is kept explains" in s for s in sentences)


def test_a_scale_for_all_rows_is_found_where_each_should_have_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("shapes (2, 65)" in s for s in found(monkeypatch, **packing(one_scale)))


def test_values_that_are_kept_as_they_are_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, LOSSY={}) == ["x: nothing of it is kept in fewer bits"]


@pytest.mark.parametrize(("form", "largest"), [("int8", 1 / 254), ("float8", 1 / 16)])
def test_the_error_is_that_of_the_largest_of_each_long_row(form: str, largest: float) -> None:
    value = torch.ones(2, 40)
    value[1] *= 100
    assert stated_error(form, value)[:, 0].tolist() == pytest.approx([largest, 100 * largest])
