"""A masked power with integer exponents.

    y = where(mask, x**n * count, x)

    dy/dx = where(mask, where(n == 0, 0, count * n * x**(n - 1)), 1)

Residuals: x, count and mask.
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

__all__ = ["IntAndBoolFunction", "int_and_bool"]


def int_and_bool(x: Tensor | float, count: Tensor | int, mask: Tensor | bool, n: int = 2) -> Tensor:
    """A masked power with integer exponents.

    x in (0, 4)

    The tensors broadcast; any of them may be a number. Raises TypeError where a tensor is
    complex or a hyperparameter has another type.
    """
    x, count, mask = rt.tensors(
        "int_and_bool", (), {"count": "int", "mask": "bool"}, x=x, count=count, mask=mask
    )
    rt.integral("int_and_bool", "count", count)
    rt.boolean("int_and_bool", "mask", mask)
    n = rt.hyperparameter("int_and_bool", "n", n, int)
    return _call(x, count, mask, n)


class IntAndBoolFunction(Function):
    """y = where(mask, x**n * count, x), differentiable in x to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, count: Tensor, mask: Tensor, n: int) -> Tensor:
        x, count, dtype = rt.widen(x, count)
        return rt.narrow(torch.where(mask, count * x**n, x), dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, y: Any) -> None:
        x, count, mask, n = inputs
        ctx.n = n
        rt.save(ctx, inputs, (y,), x, count, mask)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None, None, None, None
        n = ctx.n
        x, count, mask = rt.saved(ctx)
        x, grad_y, _ = rt.widen(x, grad_y)
        chosen = torch.zeros_like(grad_y) if n == 0 else n * (count * grad_y * x ** (n - 1))
        grad_x = rt.fit(ctx, 0, torch.where(mask, chosen, grad_y))
        return grad_x, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, _1: Any, _2: Any, *_: Any) -> Any:
        if tangent_x is None:
            return rt.zeros(ctx, 0)
        n = ctx.n
        with rt.primals(ctx) as saved:
            x, count, mask = saved
            x, tangent_x, _ = rt.widen(x, tangent_x)
            chosen = (
                torch.zeros_like(tangent_x) if n == 0 else n * (count * tangent_x * x ** (n - 1))
            )
            return rt.tangent(ctx, torch.where(mask, chosen, tangent_x))


_call: Callable[..., Tensor] = rt.entry(IntAndBoolFunction)
