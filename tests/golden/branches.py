"""Python branches on a flag.

    y = where(flag, sin(x), slope * x)

where flag:
    dy/dx = cos(x)

where not flag:
    dy/dx = slope

Residuals: x or nothing.
Float32: value within 0.2 ulp, derivatives within 0.5 ulp (beyond the conditioning of the
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

__all__ = ["BranchesFunction", "branches"]


def branches(x: Tensor, flag: bool = True, slope: float = 0.5) -> Tensor:
    """Python branches on a flag.

    slope in (0, 1)

    Raises TypeError where x is no real tensor or a hyperparameter has another type, ValueError
    where slope is out of range.
    """
    x = rt.tensor("branches", x)
    flag = rt.hyperparameter("branches", "flag", flag, bool)
    slope = rt.hyperparameter("branches", "slope", slope, float)
    if not 0 < slope < 1:
        raise ValueError(f"branches: slope must be in (0, 1), not {slope}")
    return _call(x, flag, slope)


class BranchesFunction(Function):
    """y = where(flag, sin(x), slope * x), differentiable in x to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, flag: bool, slope: float) -> Tensor:
        if flag:
            return torch.sin(x)
        return slope * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, y: Any) -> None:
        x, flag, slope = inputs
        ctx.flag = flag
        ctx.slope = slope
        if flag:
            rt.save(ctx, inputs, (y,), x)
        else:
            rt.save(ctx, inputs, (y,))

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None, None, None
        flag, slope = ctx.flag, ctx.slope
        if flag:
            x, grad_y, _ = rt.widen(*rt.saved(ctx), grad_y)
            grad_x = rt.fit(ctx, 0, torch.cos(x) * grad_y)
            return grad_x, None, None
        grad_y, _ = rt.widen(grad_y)
        grad_x = rt.fit(ctx, 0, slope * grad_y)
        return grad_x, None, None

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, *_: Any) -> Any:
        if tangent_x is None:
            return None
        flag, slope = ctx.flag, ctx.slope
        with rt.primals(ctx) as saved:
            if flag:
                x, tangent_x, _ = rt.widen(*saved, tangent_x)
                return rt.tangent(ctx, torch.cos(x) * tangent_x)
            tangent_x, _ = rt.widen(tangent_x)
            return rt.tangent(ctx, slope * tangent_x)


_call: Callable[..., Tensor] = rt.entry(BranchesFunction)
