"""An audit knows the truth at every magnitude, so that what cancels far from 1 is found."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec
from symgrad.testing import audit
from symgrad.testing.magnitudes import over_magnitudes


def rows(text: str, **settings: Any) -> dict[str, list[tuple[Any, ...]]]:
    return {a.quantity: list(a.points) for a in over_magnitudes(parse_formulas(parse_spec(text)), settings)}


def test_values_and_derivatives_are_those_of_python_at_every_magnitude() -> None:
    found = rows("{op: f, tensors: {x: , w: }, hyperparameters: {k: 2.0}, outputs: {y: k * w * asinh(x)}}", k=3.0)
    assert set(found) == {"y", "dy/dx", "dy/dw"}
    for x, w, k, true, _ in found["y"]:
        assert true == pytest.approx(k * w * math.asinh(x), rel=1e-9)
    for x, w, k, true, _ in found["dy/dx"]:
        assert true == pytest.approx(k * w / math.hypot(1, x), rel=1e-9)
    sizes = {abs(x) for x, *_ in found["y"]}
    assert min(sizes) < 1e-29 and max(sizes) > 1e29


@pytest.mark.parametrize(
    ("text", "quantities"),
    [
        ("{op: f, tensors: {x: }, outputs: {y: sum(x)}}", set()),
        ("{op: f, tensors: {x: }, outputs: {y: round(x)}, gradients: {x: grad_y}}", {"y"}),
        ("{op: f, tensors: {x: {grad: false}}, outputs: {y: exp(x)}}", {"y"}),
    ],
)
def test_only_what_the_formula_decides_at_a_point_has_a_truth(text: str, quantities: set[str]) -> None:
    assert set(rows(text)) == quantities


def test_points_are_in_the_domain() -> None:
    assert all(0 < x < 1 for x, *_ in rows('{op: f, tensors: {x: {domain: "(0, 1)"}}, outputs: {y: log(x)}}')["y"])


def test_an_audit_tells_errors_from_what_the_composite_does_as_well() -> None:
    def cancelling(x: Any) -> Any:
        return torch.log(x + torch.sqrt(1 + x * x))

    only = ["magnitudes"]
    text = str(audit(cancelling, formula="asinh(x)", only=only, timed=False))
    assert "magnitudes" in text and "and truly -" in text and "the composite is 0" in text
    same = audit(cancelling, formula="log(x + sqrt(1 + x * x))", only=only, timed=False)
    assert same.ok and "the composite is as far off" in str(same)
    assert audit(torch.asinh, formula="asinh(x)", only=only, timed=False).ok
