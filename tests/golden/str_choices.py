"""A reduction that is chosen by name.

    squared = (x - target)**2
    loss    = where(reduction == "none", squared, where(reduction == "mean", mean(squared),
              sum(squared)))

where reduction == 'mean':
    grad_x = 2 * grad_loss * (x - target) / count(squared)

where reduction == 'none':
    dloss/dx = 2 * (x - target)

where reduction == 'sum':
    grad_x = 2 * grad_loss * (x - target)

Residuals: x and target.
Float32: value within 0.0 ulp, derivatives within 0.0 ulp (beyond the conditioning of the
formula).
"""
# pyright: reportIncompatibleMethodOverride=false, reportOperatorIssue=false, reportOptionalOperand=false
# pyright: reportArgumentType=false, reportAssignmentType=false, reportCallIssue=false
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import Function

from . import _runtime as rt

__all__ = ["StrChoicesFunction", "str_choices"]


def str_choices(
    x: Tensor | float, target: Tensor | float, reduction: Literal["none", "mean", "sum"] = "mean"
) -> Tensor:
    """A reduction that is chosen by name.

    The tensors broadcast; any of them may be a number. Raises TypeError where a tensor is
    complex or a hyperparameter has another type, ValueError where reduction is out of range.
    """
    x, target = rt.tensors("str_choices", x=x, target=target)
    reduction = rt.hyperparameter("str_choices", "reduction", reduction, str)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"str_choices: reduction must be none, mean or sum, not {reduction!r}")
    return _call(x, target, reduction)


class StrChoicesFunction(Function):
    """loss of str_choices, differentiable in x to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, target: Tensor, reduction: str) -> Tensor:
        x, target, dtype = rt.widen(x, target)
        squared = torch.square(x - target)
        if reduction == "mean":
            return rt.narrow(squared.mean(), dtype)
        if reduction == "none":
            return rt.narrow(squared, dtype)
        return rt.narrow(squared.sum(), dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, loss: Any) -> None:
        x, target, reduction = inputs
        ctx.reduction = reduction
        rt.save(ctx, inputs, (loss,), x, target)

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor | None) -> Any:
        if grad_loss is None:
            return None, None, None
        reduction = ctx.reduction
        x, target, grad_loss, _ = rt.widen(*rt.saved(ctx), grad_loss)
        diff = x - target
        if reduction == "mean":
            grad_x = rt.fit(ctx, 0, diff * (2 * grad_loss / diff.numel()))
            return grad_x, None, None
        grad_x = rt.fit(ctx, 0, 2 * diff * grad_loss)
        return grad_x, None, None

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, _1: Any, *_: Any) -> Any:
        if tangent_x is None:
            return rt.zeros(ctx, 0)
        reduction = ctx.reduction
        with rt.primals(ctx) as saved:
            x, target, tangent_x, _ = rt.widen(*saved, tangent_x)
            diff = x - target
            if reduction == "mean":
                return rt.tangent(ctx, 2 * (diff * tangent_x).mean())
            if reduction == "none":
                return rt.tangent(ctx, 2 * diff * tangent_x)
            return rt.tangent(ctx, 2 * (diff * tangent_x).sum())


_call: Callable[..., Tensor] = rt.entry(StrChoicesFunction)
