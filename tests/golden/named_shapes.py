"""A bias for each channel.

    y = x * bias

    dy/dx     = bias[..., None]
    grad_bias = sum(grad_y * x, dim=[0, 2])

Residuals: x and bias.
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

__all__ = ["NamedShapesFunction", "named_shapes"]


def named_shapes(x: Tensor, bias: Tensor) -> Tensor:
    """A bias for each channel.

    Raises TypeError where a tensor is complex, ValueError where shapes do not fit.
    """
    x, bias = rt.tensors("named_shapes", x=x, bias=bias)
    if not (x.dim() == 3 and bias.shape == x.shape[1:2]):
        rt.refuse_shapes("named_shapes", x=(x, ("N", "C", "T")), bias=(bias, ("C",)))
    return _call(x, bias)


class NamedShapesFunction(Function):
    """y = x * bias, differentiable in x and bias to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, bias: Tensor) -> Tensor:
        return bias.unsqueeze(-1) * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, y: Any) -> None:
        x, bias = inputs
        needs_x, needs_bias = rt.needs(ctx)
        rt.save(ctx, inputs, (y,), x if needs_bias else None, bias if needs_x else None)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None, None
        needs_x, needs_bias = ctx.needs_input_grad
        x, bias, grad_y, _ = rt.widen(*rt.saved(ctx), grad_y)
        grad_x = grad_bias = None
        if needs_x:
            grad_x = rt.fit(ctx, 0, bias.unsqueeze(-1) * grad_y)
        if needs_bias:
            grad_bias = rt.fit(ctx, 1, (grad_y * x).sum(dim=(0, 2)))
        return grad_x, grad_bias

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, tangent_bias: Tensor | None) -> Any:
        with rt.primals(ctx) as saved:
            x, bias, tangent_x, tangent_bias, _ = rt.widen(*saved, tangent_x, tangent_bias)
            tangent_y = rt.Sum(ctx)
            if tangent_x is not None:
                tangent_y += bias.unsqueeze(-1) * tangent_x
            if tangent_bias is not None:
                tangent_y += tangent_bias.unsqueeze(-1) * x
            return tangent_y.result()


_call: Callable[..., Tensor] = rt.entry(NamedShapesFunction)
