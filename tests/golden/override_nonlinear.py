"""The identity with a clipped gradient.

    y = x

    grad_x = clamp(grad_y, -limit, limit)  (override)

Residuals: nothing.
Float32: value within 0.0 ulp (beyond the conditioning of the formula).
"""
# pyright: reportIncompatibleMethodOverride=false, reportOperatorIssue=false, reportOptionalOperand=false
# pyright: reportArgumentType=false, reportAssignmentType=false, reportCallIssue=false
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from . import _runtime as rt

__all__ = ["OverrideNonlinearFunction", "override_nonlinear"]


def override_nonlinear(x: Tensor, limit: float = 1.0) -> Tensor:
    """The identity with a clipped gradient.

    limit in (0, oo)

    Raises TypeError where x is no real tensor or a hyperparameter has another type, ValueError
    where limit is out of range.
    """
    x = rt.tensor("override_nonlinear", x)
    limit = rt.hyperparameter("override_nonlinear", "limit", limit, float)
    if not 0 < limit < math.inf:
        raise ValueError(f"override_nonlinear: limit must be in (0, oo), not {limit}")
    rt.refuse_compilers("override_nonlinear")
    return _call(x, limit)


class OverrideNonlinearFunction(Function):
    """y = x, with its own gradient for x."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, limit: float) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, y: Any) -> None:
        _, limit = inputs
        ctx.limit = limit
        rt.save(ctx, inputs, (y,))

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None, None
        limit = ctx.limit
        return rt.fit(ctx, 0, torch.clamp(grad_y, min=-limit, max=limit)), None

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, *_: Any) -> Any:
        with rt.primals(ctx):
            rt.refuse_tangent("override_nonlinear", "x", tangent_x)
            return rt.zeros(ctx, 0)


_call: Callable[..., Tensor] = rt.entry(OverrideNonlinearFunction)
