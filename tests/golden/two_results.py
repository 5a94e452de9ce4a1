"""Polar coordinates, and a count that has no gradient.

    radius   = sqrt(x**2 + y**2)
    angle    = atan2(y, x)
    quadrant = where(x > 0, 1, 0) + where(y > 0, 2, 0)

    dradius/dx = x / hypot(x, where(x == 0 and y == 0, 1, y))
    dangle/dx  = -y / hypot(x, where(x == 0 and y == 0, 1, y))**2
    dradius/dy = y / hypot(x, where(x == 0 and y == 0, 1, y))
    dangle/dy  = x / hypot(x, where(x == 0 and y == 0, 1, y))**2

Residuals: x and y.
Float32: value within 0.5 ulp, derivatives within 1.3 ulp (beyond the conditioning of the
formula).
"""
# pyright: reportIncompatibleMethodOverride=false, reportOperatorIssue=false, reportOptionalOperand=false
# pyright: reportArgumentType=false, reportAssignmentType=false, reportCallIssue=false
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from . import _runtime as rt

__all__ = ["TwoResultsFunction", "two_results"]


def two_results(x: Tensor | float, y: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
    """Polar coordinates, and a count that has no gradient.

    The tensors broadcast; any of them may be a number. Raises TypeError where a tensor is
    complex.
    """
    x, y = rt.tensors("two_results", x=x, y=y)
    x, y = rt.floats(x, y)
    return _call(x, y)


class TwoResultsFunction(Function):
    """radius, angle and quadrant of two_results; radius and angle are differentiable to any
    order, in any mode.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        radius = torch.hypot(x, y)
        angle = torch.atan2(y, x)
        quadrant = (x > 0).to(x.dtype) + torch.where(y > 0, torch.full_like(y, 2), 0)
        return radius, angle, quadrant.detach()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, outputs: Any) -> None:
        x, y = inputs
        _, _, quadrant = outputs
        rt.save(ctx, inputs, outputs, x, y, fixed=(quadrant,))

    @staticmethod
    def backward(ctx: Any, grad_radius: Tensor | None, grad_angle: Tensor | None, _2: Any) -> Any:
        if grad_radius is None and grad_angle is None:
            return None, None
        needs_x, needs_y = ctx.needs_input_grad
        x, y, grad_radius, grad_angle, _ = rt.widen(*rt.saved(ctx), grad_radius, grad_angle)
        grad_x = grad_y = None
        length = torch.hypot(x, torch.where((x == 0) & (y == 0), 1, y))
        if needs_x and grad_radius is not None:
            grad_x = rt.accumulate(ctx, 0, grad_x, grad_radius * x / length)
        if needs_x and grad_angle is not None:
            grad_x = rt.accumulate(ctx, 0, grad_x, -(grad_angle * y / length / length))
        if needs_y and grad_radius is not None:
            grad_y = rt.accumulate(ctx, 1, grad_y, grad_radius * y / length)
        if needs_y and grad_angle is not None:
            grad_y = rt.accumulate(ctx, 1, grad_y, grad_angle * x / length / length)
        return rt.fit(ctx, 0, grad_x), rt.fit(ctx, 1, grad_y)

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, tangent_y: Tensor | None) -> Any:
        with rt.primals(ctx) as saved:
            x, y, _ = rt.widen(*saved)
            tangent_radius = rt.Sum(ctx)
            tangent_angle = rt.Sum(ctx, 1)
            length = torch.hypot(x, torch.where((x == 0) & (y == 0), 1, y))
            if tangent_x is not None:
                tangent_radius += tangent_x * x / length
                tangent_angle += -(tangent_x * y / length / length)
            if tangent_y is not None:
                tangent_radius += tangent_y * y / length
                tangent_angle += tangent_y * x / length / length
            return tangent_radius.result(), tangent_angle.result(), None


_call: Callable[..., tuple[Tensor, Tensor, Tensor]] = rt.entry(TwoResultsFunction, outputs=3)
