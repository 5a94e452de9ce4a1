"""A scaled shift, also in place.

    y = 2 * x + shift

    dy/dx     = 2
    dy/dshift = 1

Residuals: nothing.
Float32: value within 0.0 ulp (beyond the conditioning of the formula).
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

__all__ = ["InPlaceFunction", "InPlaceInplaceFunction", "in_place", "in_place_"]


def in_place(x: Tensor | float, shift: Tensor | float) -> Tensor:
    """A scaled shift, also in place.

    The tensors broadcast; any of them may be a number. Raises TypeError where a tensor is
    complex.
    """
    x, shift = rt.tensors("in_place", x=x, shift=shift)
    return _call(x, shift)


def in_place_(x: Tensor, shift: Tensor | float) -> Tensor:
    """Write the result of ``in_place`` over ``x`` and return it.

    The result is computed beside it and copied: this saves no memory while it is computed.
    """
    x, shift = rt.tensors("in_place_", x=x, shift=shift)
    if rt.forward_mode():  # a tangent cannot always be written over
        return rt.overwrite(x, _call(x.clone(), shift))
    return _call_inplace(x, shift)


class InPlaceFunction(Function):
    """y = 2 * x + shift, differentiable in x and shift to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, shift: Tensor) -> Tensor:
        return shift + 2 * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, y: Any) -> None:
        rt.save(ctx, inputs, (y,))

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None, None
        needs_x, needs_shift = ctx.needs_input_grad
        grad_x = grad_shift = None
        if needs_x:
            grad_x = rt.fit(ctx, 0, 2 * grad_y)
        if needs_shift:
            grad_shift = rt.fit(ctx, 1, grad_y)
        return grad_x, grad_shift

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, tangent_shift: Tensor | None) -> Any:
        with rt.primals(ctx):
            tangent_y = rt.Sum(ctx)
            if tangent_x is not None:
                tangent_y += 2 * tangent_x
            if tangent_shift is not None:
                tangent_y += tangent_shift
            return tangent_y.result()


class InPlaceInplaceFunction(Function):
    """InPlaceFunction, whose result is written over x."""

    backward: Any = InPlaceFunction.backward

    @staticmethod
    def forward(x: Tensor, shift: Tensor) -> Tensor:
        return rt.overwrite(x, InPlaceFunction.forward(x, shift))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, y: Any) -> None:
        ctx.mark_dirty(y)
        InPlaceFunction.setup_context(ctx, inputs, y)


_call: Callable[..., Tensor] = rt.entry(InPlaceFunction)
_call_inplace: Callable[..., Tensor] = rt.entry(
    InPlaceInplaceFunction, surrogate=InPlaceInplaceFunction.forward
)
