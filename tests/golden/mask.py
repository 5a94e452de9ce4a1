"""A clamp, whose backward needs one bit.

    y = clamp(x, -1, 1)

    dy/dx = where(x >= -1 and x <= 1, 1, 0)

Saved for backward: x >= -1 and x <= 1.

Accuracy in float32: value within 0.0 ulp, derivatives within 0.0 ulp beyond the conditioning of
the formula, with correctly rounded elementary functions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch
from torch.autograd import Function

__all__ = ["MaskFunction", "mask"]


def mask(x: Tensor) -> Tensor:
    """A clamp, whose backward needs one bit.

    Raises TypeError where x is no real tensor.
    """
    if not _is_real(x):
        raise TypeError(f"mask: expected a real tensor, not {_kind(x)}")
    return _apply(x)


class MaskFunction(Function):
    """y = clamp(x, -1, 1), differentiable in x to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.clamp(x, min=-1, max=1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], y: Any) -> None:
        (x,) = inputs
        (wants_x,) = _wanted(ctx)
        saved = [(x >= -1) & (x <= 1) if wants_x else None]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved)
        if _forward_mode():
            _save_for_jvp(ctx, (y,), *saved)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None
        (inside,) = ctx.saved_tensors
        return _masked(grad_y, inside)

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None) -> Any:
        if tangent_x is None:
            return None
        with _primals(ctx) as saved:
            (inside,) = saved
            return _masked(tangent_x, inside)


# ----------------------------------------------------------------------------------------- plumbing
_COMPLEX = frozenset((torch.complex32, torch.complex64, torch.complex128))
_in_functorch = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_in_jit_trace = getattr(torch._C, "_is_tracing", lambda: False)
_forward_ad: Any = torch.autograd.forward_ad  # untyped: private parts


def _is_real(value: Any) -> bool:
    """Tell whether ``value`` is a tensor of real numbers."""
    return isinstance(value, Tensor) and value.dtype not in _COMPLEX


def _kind(value: Any) -> Any:
    """Return what an error message calls ``value``."""
    return getattr(value, "dtype", type(value))


def _save_for_jvp(ctx: Any, outputs: tuple[Tensor, ...], *tensors: Tensor | None) -> None:
    """Save ``tensors`` for jvp, and what tangents of ``outputs`` look like."""
    ctx.save_for_forward(*tensors)
    ctx.outputs = [(y.shape, y.dtype, y.device) for y in outputs]


def _is_watched(args: tuple[Any, ...]) -> bool:
    """Tell whether autograd records a call with ``args``, or forward mode is on."""
    if torch.is_grad_enabled():
        for value in args:
            if isinstance(value, Tensor) and value.requires_grad:
                return True
    return _forward_mode()


def _forward_mode() -> bool:
    """Tell whether forward-mode differentiation may be on."""
    return getattr(_forward_ad, "_current_level", 0) >= 0 or _in_functorch()


def _wanted(ctx: Any) -> tuple[bool, ...]:
    """Tell which inputs need a derivative: in forward mode, any may."""
    needs: tuple[bool, ...] = ctx.needs_input_grad
    return (True,) * len(needs) if _forward_mode() else needs


def _masked(value: Tensor, mask: Tensor) -> Tensor:
    """Return the value where the mask is true, else 0: on a CPU with a kernel for whole vectors."""
    if not value.is_cpu:
        return torch.where(mask, value, 0)
    chosen: Tensor = torch.ops.aten.threshold_backward(value, mask.to(value.dtype), 0)
    return chosen


@contextlib.contextmanager
def _primals(ctx: Any) -> Iterator[Any]:
    """Yield what jvp saved, without this level's tangents, and enable forward mode.

    torch calls jvp with forward mode off, and jvp of jvp would be zero (pytorch#197867).
    """
    with _forward_ad._set_fwd_grad_enabled(True):
        yield [t if t is None else _primal(t) for t in ctx.saved_tensors]


def _primal(t: Any) -> Any:
    """Return ``t`` without this level's tangent; unpack_dual has no vmap rule, hence the walk."""
    if not _functorch.is_batchedtensor(t):
        return _forward_ad.unpack_dual(t, level=0).primal
    inner = _primal(_functorch.get_unwrapped(t))
    return _functorch._add_batch_dim(
        inner, _functorch.maybe_get_bdim(t), _functorch.maybe_get_level(t)
    )


def _dispatcher(
    function: Any,
    plain: Any = None,
    compiled: Any = None,
    shown: Any = None,
    inferred: Any = None,
) -> Callable[..., Any]:
    """Return the cheapest way into ``function`` that is right for whoever watches the call.

    ``plain`` serves plain calls, ``inferred`` those that nothing differentiates; ``shown`` is the
    index of the outputs of ``plain``, if others are its own.
    """
    members = {name: value for name, value in vars(function).items() if name != "jvp"}
    traced: Any = type(function.__name__, (Function,), members)  # Dynamo refuses a jvp
    compiled = compiled or traced.apply
    inferred = inferred or function.forward
    called = plain or function
    direct = super(Function, called).apply  # Function.apply binds a signature: 12 us
    if hasattr(called, "_backward_cls"):
        called._backward_cls.apply = called.backward  # the usual one looks for a vjp first: 1 us
    is_compiling = torch.compiler.is_compiling

    def apply(*args: Any) -> Any:
        if is_compiling():
            return compiled(*args)
        if _in_functorch():
            return function.apply(*args)
        if _in_jit_trace():
            return function.forward(*args)  # torch.jit.save refuses a Function
        if not _is_watched(args):
            return inferred(*args)
        outputs = direct(*args)
        return outputs if shown is None else outputs[shown]

    return apply


_apply: Callable[..., Tensor] = _dispatcher(MaskFunction)
