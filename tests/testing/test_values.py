"""The checks of values hold a Function to the truth, not to the rounding errors of its composite."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from symgrad.testing import CHECKS, Input, Subject
from symgrad.testing.checks import run
from symgrad.testing.reference import expected


class Versine(torch.autograd.Function):
    """(1 - cos(x)) / x**2 without cancellation; `SCALE` breaks its gradient."""

    SCALE = 1.0
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return 2 * (torch.sin(x / 2) / x) ** 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        series = -x / 12 * (1 - x**2 / 15 * (1 - x**2 * 3 / 112))
        exact = (x * torch.sin(x) - 4 * torch.sin(x / 2) ** 2) / x**3
        return Versine.SCALE * grad * torch.where(x.abs() < 0.01, series, exact)


def cancelling(x: Tensor) -> Tensor:
    return (1 - torch.cos(x)) / x**2


def distance(x: Tensor, y: Tensor) -> Tensor:
    """It has values where both rows are within the unit ball, and where neither is; a gradient by autograd anywhere."""
    return torch.acosh(1 + (x - y).square().sum(-1) / ((1 - x.square().sum(-1)) * (1 - y.square().sum(-1))))


class Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return distance(x, y)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        with torch.enable_grad():
            x, y = (t.detach().requires_grad_() for t in ctx.saved_tensors)
            d = distance(x, y)
            grads = torch.autograd.grad(d, (x, y), grad)
        return tuple(torch.where(d.isnan().unsqueeze(-1), torch.nan, g) for g in grads)


def sentences(check: str, call: Any, composite: Any, *inputs: Input, **facts: Any) -> list[str]:
    given: Any = {"numbers": None, "residuals": None, "rounded_once": (False, False), **facts}
    return [f.sentence for f in run(CHECKS[check], Subject("own", call, composite, inputs, **given))]


def test_lost_digits_of_the_composite_are_not_held_against_a_function() -> None:
    assert not sentences("sizes", Versine.apply, cancelling, Input("x", low=-1, high=1))


def test_a_wrong_gradient_is_found_beside_a_composite_that_loses_digits() -> None:
    Versine.SCALE = 1.0001
    try:
        assert sentences("sizes", Versine.apply, cancelling, Input("x", low=-1, high=1))
    finally:
        Versine.SCALE = 1.0


def test_gradients_are_not_compared_where_the_formula_has_no_value() -> None:
    rows = (((40, 3), (40, 3)),)
    assert not sentences(
        "layouts",
        Distance.apply,
        distance,
        Input("x", low=-3, high=3),
        Input("y", low=-3, high=3),
        shapes=rows,
        pointwise=False,
    )


class Rectified(torch.autograd.Function):
    """relu, whose slope at 0 is another one in forward mode where `EDGE` is so."""

    EDGE = False

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return torch.relu(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * (x > 0)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return tangent * ((x >= 0) if Rectified.EDGE else (x > 0))


def test_a_condition_that_is_wrong_by_a_hair_in_forward_mode_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Subject("rectified", Rectified.apply, torch.relu, (Input("x"),))
    assert not run(CHECKS["every_branch"], subject)
    monkeypatch.setattr(Rectified, "EDGE", True)
    assert any("the tangent is" in f.sentence for f in run(CHECKS["every_branch"], subject))


def test_sizes_that_the_formula_refuses_are_left_out_and_no_others() -> None:
    def grouped(x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], 2, x.shape[1] // 2).sum(-1)

    def other(x: Tensor) -> Tensor:
        return grouped(x) * (1 if x.shape[1] < 100 else 2)

    for large, call, is_found in (((3, 17), grouped, False), ((3, 34), other, False), ((3, 134), other, True)):
        inputs, first = (Input("x"),), (((2, 4),),)
        subject = Subject("grouped", call, grouped, inputs, shapes=first, large=((large,),), pointwise=False)
        assert bool(run(CHECKS["sizes"], subject)) == is_found


def spread_by(x: Tensor) -> Tensor:
    """It has no value for a single element."""
    return x / x.var()


def test_shapes_for_which_the_formula_has_no_value_say_nothing_of_gradients() -> None:
    given: Any = {"shapes": (((3,),), ((1,),)), "pointwise": False}
    for check in ("finite_differences", "second_differences"):
        assert sentences(check, spread_by, spread_by, Input("x", low=1, high=2), **given) == []
        alone = {**given, "shapes": (((1,),),)}
        (told,) = sentences(check, spread_by, spread_by, Input("x", low=1, high=2), **alone)
        assert "the formula itself is not finite there" in told


class Biased(torch.autograd.Function):
    """Adds a row in place, and takes nothing larger."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, b: Tensor) -> Tensor:
        if b.dim() != 1:
            raise ValueError("b must be a row")
        ctx.mark_dirty(u)
        return u.add_(b)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad, grad.sum(0)


def test_what_is_added_in_place_has_the_shape_that_it_is_said_to_have() -> None:
    given: Any = {"shapes": (((2, 3), (3,)),), "pointwise": False, "inplace": Biased.apply, "inplace_of": "u"}
    assert sentences("in_place", torch.add, torch.add, Input("u"), Input("b"), **given) == []


def overflowing(x: Tensor) -> Tensor:
    return torch.log(x.prod(-1, keepdim=True) / x.roll(1, -1).prod(-1, keepdim=True)) + x


class Overflowing(torch.autograd.Function):
    """No number where the composite in float32 has none, nor elsewhere if it `FAILS`."""

    FAILS = False

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        y = overflowing(x)
        return y * torch.nan if Overflowing.FAILS and x.shape[-1] > 9 else y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grad + 0 * y


def test_what_overflows_in_the_composite_may_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    given: Any = {"pointwise": False, "shapes": (((2, 3),),), "large": (((2, 300),),)}
    inputs = Input("x", low=2, high=3)
    assert sentences("sizes", Overflowing.apply, overflowing, inputs, **given) == []
    monkeypatch.setattr(Overflowing, "FAILS", True)
    assert "is nan, by the composite" in sentences("sizes", Overflowing.apply, overflowing, inputs, **given)[0]


class Straight(torch.autograd.Function):
    """The tangent is no number where x is large."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_forward(x)
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return tangent * torch.where(x > 4, torch.nan, 1)


def test_a_tangent_may_be_no_number_only_where_that_of_the_composite_is_none() -> None:
    def plain(x: Tensor) -> Tensor:
        return torch.where(x > 4, x * 1, x)

    def dead(x: Tensor) -> Tensor:
        return plain(x) + Dead.apply(x)

    class Dead(Straight):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_forward(x)
            return x * 0

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 0

    given: Any = {"double_backward": False}
    assert sentences("every_branch", Straight.apply, dead, Input("x"), **given) == []
    assert "the tangent is nan" in sentences("every_branch", Straight.apply, plain, Input("x"), **given)[0]

    class Tripled(Straight):
        @staticmethod
        def jvp(ctx: Any, tangent: Tensor) -> Tensor:
            return tangent * 3

    assert "the tangent is" in sentences("every_branch", Tripled.apply, dead, Input("x"), **given)[0]


def test_at_a_pole_no_difference_quotient_stands_for_a_gradient() -> None:
    """Those of 1/abs(x) are 0 at 0, for it is even."""
    x = torch.tensor([0.0, 0.5], dtype=torch.float64, requires_grad=True)
    subject: Any = Subject("pole", lambda x: 1 / abs(x), lambda x: 1 / abs(x), (Input("x"),), outputs=("y",))
    _, (gradient,) = expected(subject, {}, [x])
    assert gradient.isnan().tolist() == [True, False]
