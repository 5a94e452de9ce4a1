"""A sum with an optional offset.

    y = tanh(x) + offset

where offset is None:
    dy/dx = 1 / cosh(x)**2

where offset is not None:
    dy/dx      = 1 / cosh(x)**2
    dy/doffset = 1

Residuals: x.
Float32: value within 0.8 ulp, derivatives within 1.8 ulp (beyond the conditioning of the
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

__all__ = ["OptionalTensorFunction", "optional_tensor"]


def optional_tensor(x: Tensor | float, offset: Tensor | float | None = None) -> Tensor:
    """A sum with an optional offset.

    offset: none at all by default

    The tensors broadcast; any of them may be a number. Raises TypeError where a tensor is
    complex.
    """
    x, offset = rt.tensors("optional_tensor", ("offset",), x=x, offset=offset)
    return _call(x, offset)


class OptionalTensorFunction(Function):
    """y = tanh(x) + offset, differentiable in x and offset to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, offset: Tensor | None = None) -> Tensor:
        if offset is None:
            x, dtype = rt.widen(x)
            return rt.narrow(torch.tanh(x), dtype)
        x, offset, dtype = rt.widen(x, offset, floats=((0,),))
        return rt.narrow(torch.tanh(x) + offset, dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, y: Any) -> None:
        x, offset = inputs
        ctx.without_offset = offset is None
        needs_x, _ = rt.needs(ctx)
        rt.save(ctx, inputs, (y,), x if needs_x else None)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None, None
        needs_x, needs_offset = ctx.needs_input_grad
        x, grad_y, _ = rt.widen(*rt.saved(ctx), grad_y)
        if ctx.without_offset:
            grad_x = None
            if needs_x:
                cosh_x = torch.cosh(rt.bounded(x))
                grad_x = rt.fit(ctx, 0, grad_y / cosh_x / cosh_x)
            return grad_x, None
        grad_x = grad_offset = None
        if needs_x:
            cosh_x = torch.cosh(rt.bounded(x))
            grad_x = rt.fit(ctx, 0, grad_y / cosh_x / cosh_x)
        if needs_offset:
            grad_offset = rt.fit(ctx, 1, grad_y)
        return grad_x, grad_offset

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, tangent_offset: Tensor | None) -> Any:
        with rt.primals(ctx) as saved:
            x, _ = rt.widen(*saved)
            tangent_y = rt.Sum(ctx)
            if tangent_x is not None:
                cosh_x = torch.cosh(rt.bounded(x))
                tangent_y += tangent_x / cosh_x / cosh_x
            if ctx.without_offset:
                return tangent_y.result()
            if tangent_offset is not None:
                tangent_y += tangent_offset
            return tangent_y.result()


_call: Callable[..., Tensor] = rt.entry(OptionalTensorFunction)
