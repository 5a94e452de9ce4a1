"""A sign that passes the gradient of its neighbourhood.

    y = scale * sign(x)

    grad_x    = where(abs(x) <= 1, grad_y, 0)  (override)
    dy/dscale = sign(x)

Residuals: x.
Float32: value within 0.0 ulp, derivatives within 0.0 ulp (beyond the conditioning of the
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

__all__ = ["OverrideLinearFunction", "override_linear"]


def override_linear(x: Tensor | float, scale: Tensor | float) -> Tensor:
    """A sign that passes the gradient of its neighbourhood.

    The tensors broadcast; any of them may be a number. Raises TypeError where a tensor is
    complex.
    """
    x, scale = rt.tensors("override_linear", x=x, scale=scale)
    return _call(x, scale)


class OverrideLinearFunction(Function):
    """y = scale * sign(x), with its own gradient for x."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, scale: Tensor) -> Tensor:
        return torch.sign(x) * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, y: Any) -> None:
        x, _ = inputs
        rt.save(ctx, inputs, (y,), x)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None, None
        needs_x, needs_scale = ctx.needs_input_grad
        (x,) = rt.saved(ctx)
        grad_x = grad_scale = None
        if needs_x:
            grad_x = rt.fit(ctx, 0, rt.masked(grad_y, torch.abs(x) <= 1))
        if needs_scale:
            grad_scale = rt.fit(ctx, 1, torch.sign(x) * grad_y)
        return grad_x, grad_scale

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, tangent_scale: Tensor | None) -> Any:
        with rt.primals(ctx) as saved:
            (x,) = saved
            tangent_y = rt.Sum(ctx)
            if tangent_x is not None:
                tangent_y += rt.masked(tangent_x, torch.abs(x) <= 1)
            if tangent_scale is not None:
                tangent_y += torch.sign(x) * tangent_scale
            return tangent_y.result()

    @staticmethod
    def surrogate(x: Tensor, scale: Tensor) -> Tensor:
        """Return the outputs in a form that keeps its gradients where a Function loses its rule."""
        fixed_x = x.detach()
        return rt.straight_through(
            OverrideLinearFunction.forward(x, scale),
            torch.where(torch.abs(fixed_x) <= 1, x, 0)
            + OverrideLinearFunction.forward(fixed_x, scale),
        )


_call: Callable[..., Tensor] = rt.entry(
    OverrideLinearFunction, surrogate=OverrideLinearFunction.surrogate
)
