"""The derivative is a function of the output.

    y = exp(-x)

    dy/dx = -y

Residuals: y.
Float32: value within 0.5 ulp, derivatives within 0.5 ulp (beyond the conditioning of the
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

__all__ = ["OutputReuseFunction", "output_reuse"]


def output_reuse(x: Tensor) -> Tensor:
    """The derivative is a function of the output.

    Raises TypeError where x is no real tensor.
    """
    x = rt.tensor("output_reuse", x)
    return _call(x)


class OutputReuseFunction(Function):
    """y = exp(-x), differentiable in x to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.exp(-x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, y: Any) -> None:
        rt.save(ctx, inputs, (y,), y)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None
        (y,) = rt.saved(ctx)
        return rt.fit(ctx, 0, -(y * grad_y))

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None) -> Any:
        if tangent_x is None:
            return None
        with rt.primals(ctx) as saved:
            (y,) = saved
            return rt.tangent(ctx, -(y * tangent_x))


_call: Callable[..., Tensor] = rt.entry(OutputReuseFunction)
