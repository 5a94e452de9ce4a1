"""What the reference loses to rounding is no fault of a result; what it has is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from symgrad.testing import Input
from symgrad.testing.rounding import unexplained
from tests.testing.test_values import Versine, cancelling, sentences

X = torch.linspace(0.1, 2, 50, dtype=torch.float64)


def found(own: Tensor, reference: Callable[[], Tensor]) -> list[str]:
    return list(unexplained(["y"], [own], [reference()], lambda: [reference()]))


def test_digits_that_cancel_are_explained() -> None:
    small = X * 1e-6
    assert found(1 + small * small / 6, lambda: (torch.exp(small) - 1 - small) / small**2 * 2 - small / 3) == []


def test_what_rounding_does_not_explain_is_found() -> None:
    assert found(X * 1.001, lambda: X + 0)
    small = X * 1e-6
    assert found(1.5 + small, lambda: (torch.exp(small) - 1 - small) / small**2 * 2)


def test_what_leaves_the_range_in_the_reference_explains_what_it_reaches() -> None:
    large = torch.exp(torch.linspace(400, 500, 8, dtype=torch.float64))
    half = torch.full_like(large, 0.5)
    assert found(half, lambda: 0.25 + large * (large / (large * large))) == []
    assert found(half, lambda: 0.25 + large * (large * (1 / large / large))) == []
    assert found(half, lambda: 1 / (1 + large * large) + 0.25)
    assert found(half, lambda: large * 0 + 0.25)


def test_another_dtype_or_shape_is_found() -> None:
    assert "dtype" in found(X.float(), lambda: X * 1)[0]
    assert "dtype" in found(X, lambda: X.float() * 1)[0]
    assert "shape" in found(X[:3], lambda: X * 1)[0]


def test_a_reference_that_errors_end_explains_nothing() -> None:
    def reference() -> Tensor:
        if not torch.equal(X * 1, X):
            raise torch.linalg.LinAlgError("the matrix is singular")
        return X

    assert "by the composite" in found(X * 2, reference)[0]
    (told,) = unexplained(["y", "z"], [X, X], [X], lambda: [X])
    assert "there are 2 results" in told


def test_the_other_side_of_a_condition_is_found_where_rounding_leads_over_it() -> None:
    doubled = torch.full((8,), 0.5, dtype=torch.float64) * 2

    def reference() -> Tensor:
        return torch.where(doubled * 1.0 > 1, doubled * 0.0, doubled)

    assert found(doubled * 0, reference)
    assert found(doubled, reference) == []


def spline(x: Tensor) -> Tensor:
    return torch.abs(x) ** 2 * (3 - torch.abs(x))


class Spline(torch.autograd.Function):
    """The second derivative of the composite is 0 at 0; of the formula it is 6, and `SCALE` times that here."""

    SCALE = 1.0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**2 * (3 - torch.abs(x))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * x * (6 - 3 * torch.abs(x)) + grad * torch.where(x == 0, (Spline.SCALE - 1) * 6 * x, 0)


def test_a_second_derivative_that_autograd_loses_is_that_of_difference_quotients(monkeypatch: Any) -> None:
    given: Any = {"linear": False, "double_backward": True}
    inputs = Input("x", low=-1, high=1)
    assert sentences("every_branch", Spline.apply, spline, inputs, **given) == []
    monkeypatch.setattr(Spline, "SCALE", 1.5)
    assert "second derivative" in sentences("every_branch", Spline.apply, spline, inputs, **given)[0]


def rough_slope(x: Tensor) -> Tensor:
    return torch.abs(x) - torch.log(1 + torch.abs(x))


class RoughSlope(torch.autograd.Function):
    """A derivative that bends at 0, where the second one of the composite is 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return rough_slope(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * x / (1 + torch.abs(x))


def test_a_second_derivative_is_also_found_where_the_third_one_jumps() -> None:
    given: Any = {"linear": False, "double_backward": True}
    assert sentences("every_branch", RoughSlope.apply, rough_slope, Input("x", low=-1, high=1), **given) == []


def test_digits_that_the_composite_loses_under_torch_func_are_no_mistake(monkeypatch: Any) -> None:
    given: Any = {"linear": False, "double_backward": False}
    small = Input("x", low=-1e-3, high=1e-3)
    assert sentences("torch_func", Versine.apply, cancelling, small, **given) == []
    monkeypatch.setattr(Versine, "SCALE", 1.001)
    assert sentences("torch_func", Versine.apply, cancelling, Input("x", low=-1, high=1), **given)
