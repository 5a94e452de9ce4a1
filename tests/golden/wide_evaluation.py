"""Cancellation that no rewrite mends in float32.

    z = lgamma(x) - lgamma(y)

    dz/dx = digamma(x)
    dz/dy = -digamma(y)

Residuals: x and y.
Float32: value within 0.5 ulp, derivatives within 0.2 ulp (beyond the conditioning of the
formula); value evaluated in float64.
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
from . import _special

__all__ = ["WideEvaluationFunction", "wide_evaluation"]


def wide_evaluation(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Cancellation that no rewrite mends in float32.

    x in (0, 10)
    y in (0, 10)

    The tensors broadcast; any of them may be a number. Raises TypeError where a tensor is
    complex.
    """
    x, y = rt.tensors("wide_evaluation", x=x, y=y)
    return _call(x, y)


class WideEvaluationFunction(Function):
    """z = lgamma(x) - lgamma(y), differentiable in x and y to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        x, y, dtype = rt.widen_to_double(x, y, floats=((0,), (1,)))
        return rt.narrow(torch.lgamma(x) - torch.lgamma(y), dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, z: Any) -> None:
        x, y = inputs
        needs_x, needs_y = rt.needs(ctx)
        rt.save(ctx, inputs, (z,), x if needs_x else None, y if needs_y else None)

    @staticmethod
    def backward(ctx: Any, grad_z: Tensor | None) -> Any:
        if grad_z is None:
            return None, None
        needs_x, needs_y = ctx.needs_input_grad
        x, y, grad_z, _ = rt.widen(*rt.saved(ctx), grad_z)
        grad_x = grad_y = None
        if needs_x:
            grad_x = rt.fit(ctx, 0, _special.digamma_by_autograd(x) * grad_z)
        if needs_y:
            grad_y = rt.fit(ctx, 1, -(_special.digamma_by_autograd(y) * grad_z))
        return grad_x, grad_y

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, tangent_y: Tensor | None) -> Any:
        with rt.primals(ctx) as saved:
            x, y, _ = rt.widen(*saved)
            tangent_z = rt.Sum(ctx)
            if tangent_x is not None:
                tangent_z += _special.digamma_by_autograd(x) * tangent_x
            if tangent_y is not None:
                tangent_z += -(_special.digamma_by_autograd(y) * tangent_y)
            return tangent_z.result()


_call: Callable[..., Tensor] = rt.entry(WideEvaluationFunction)
