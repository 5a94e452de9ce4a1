"""A clamp, whose backward needs one bit.

    y = clamp(x, -1, 1)

    dy/dx = where(x >= -1 and x <= 1, 1, 0)

Residuals: x >= -1 and x <= 1.
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

__all__ = ["MaskFunction", "mask"]


def mask(x: Tensor) -> Tensor:
    """A clamp, whose backward needs one bit.

    Raises TypeError where x is no real tensor.
    """
    x = rt.tensor("mask", x)
    return _call(x)


class MaskFunction(Function):
    """y = clamp(x, -1, 1), differentiable in x to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.clamp(x, min=-1, max=1)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, y: Any) -> None:
        (x,) = inputs
        (needs_x,) = rt.needs(ctx)
        rt.save(ctx, inputs, (y,), (x >= -1) & (x <= 1) if needs_x else None)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None
        (inside,) = rt.saved(ctx)
        return rt.fit(ctx, 0, rt.masked(grad_y, inside))

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None) -> Any:
        if tangent_x is None:
            return None
        with rt.primals(ctx) as saved:
            (inside,) = saved
            return rt.tangent(ctx, rt.masked(tangent_x, inside))


_call: Callable[..., Tensor] = rt.entry(MaskFunction)
