"""A cube whose gradient is not to be differentiated.

    y = x**3

    dy/dx = 3 * x**2

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

from torch import Tensor
from torch.autograd import Function

from . import _runtime as rt

__all__ = ["OnceDifferentiableFunction", "once_differentiable"]


def once_differentiable(x: Tensor) -> Tensor:
    """A cube whose gradient is not to be differentiated.

    Raises TypeError where x is no real tensor.
    """
    x = rt.tensor("once_differentiable", x)
    return _call(x)


class OnceDifferentiableFunction(Function):
    """y = x**3, differentiable in x once."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        x, dtype = rt.widen(x)
        return rt.narrow(x**3, dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, y: Any) -> None:
        (x,) = inputs
        rt.save(ctx, inputs, (y,), x)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None
        x, grad_y, _ = rt.widen(*rt.saved(ctx), grad_y)
        grad_x = rt.fit(ctx, 0, 3 * (grad_y * x * x))
        return rt.once("once_differentiable", grad_x)

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None) -> Any:
        if tangent_x is None:
            return None
        with rt.primals(ctx) as saved:
            x, tangent_x, _ = rt.widen(*saved, tangent_x)
            return rt.once("once_differentiable", rt.tangent(ctx, 3 * (tangent_x * x * x)))


_call: Callable[..., Tensor] = rt.entry(OnceDifferentiableFunction)
