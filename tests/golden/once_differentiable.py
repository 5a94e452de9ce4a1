"""A cube whose gradient is not to be differentiated.

    y = x**3

    dy/dx = 3 * x**2

Saved for backward: x.

Accuracy in float32: value within 0.0 ulp, derivatives within 0.2 ulp beyond the conditioning of
the formula, with correctly rounded elementary functions.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch._C import _functorch
from torch.autograd import Function

__all__ = ["OnceDifferentiableFunction", "once_differentiable"]


def once_differentiable(x: Tensor) -> Tensor:
    """A cube whose gradient is not to be differentiated.

    Raises TypeError where x is no real tensor.
    """
    if not _is_real(x):
        raise TypeError(f"once_differentiable: expected a real tensor, not {_kind(x)}")
    return _apply(x)


class OnceDifferentiableFunction(Function):
    """y = x**3, differentiable in x once."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        dtype = None
        if x.dtype in _HALF:
            x, dtype = _widen(x)
        return _round(x**3, dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], y: Any) -> None:
        (x,) = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        if _forward_mode():
            _save_for_jvp(ctx, (y,), x)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None
        (x,) = ctx.saved_tensors
        dtype = None
        if x.dtype in _HALF or x.dtype != grad_y.dtype:
            x, grad_y, dtype = _widen(x, grad_y)
        grad_x = 3 * (grad_y * x * x)
        return _once("once_differentiable", _round(grad_x, dtype))

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None) -> Any:
        if tangent_x is None:
            return None
        with _primals(ctx) as saved:
            (x,) = saved
            x, tangent_x, dtype = _widen(x, tangent_x)
            return _once("once_differentiable", _round(3 * (tangent_x * x * x), dtype))


class _OnceDifferentiablePlain(Function):
    """OnceDifferentiableFunction for a plain call, whose backward overwrites temporaries."""

    forward = OnceDifferentiableFunction.forward
    setup_context: Any = OnceDifferentiableFunction.setup_context
    jvp = OnceDifferentiableFunction.jvp

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if not _is_plain(grad_y):
            return OnceDifferentiableFunction.backward(ctx, grad_y)
        (x,) = ctx.saved_tensors
        dtype = None
        if x.dtype in _HALF or x.dtype != grad_y.dtype:
            x, grad_y, dtype = _widen(x, grad_y)
        return _round((grad_y * x).mul_(x).mul_(3), dtype)


# ----------------------------------------------------------------------------------------- plumbing
_HALF = frozenset((torch.float16, torch.bfloat16))
_COMPLEX = frozenset((torch.complex32, torch.complex64, torch.complex128))
_in_functorch = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_in_jit_trace = getattr(torch._C, "_is_tracing", lambda: False)
_forward_ad: Any = torch.autograd.forward_ad  # untyped: private parts
_is_legacy_batched: Any = getattr(torch._C._functorch, "is_legacy_batchedtensor", lambda t: True)


def _is_real(value: Any) -> bool:
    """Tell whether ``value`` is a tensor of real numbers."""
    return isinstance(value, Tensor) and value.dtype not in _COMPLEX


def _kind(value: Any) -> Any:
    """Return what an error message calls ``value``."""
    return getattr(value, "dtype", type(value))


def _result_dtype(*tensors: Tensor) -> torch.dtype:
    """Return torch.result_type of ``tensors``, which torch.compile cannot trace."""
    dtypes = [t.dtype for t in tensors if t.dim() > 0]
    if not any(dtype.is_floating_point for dtype in dtypes):
        dtypes = [t.dtype for t in tensors]
    return functools.reduce(torch.promote_types, dtypes, torch.bool)


def _widen(*tensors: Any) -> Any:
    """Return the tensors in one dtype, float32 at least, and, last, what to round the result to."""
    dtypes = {t.dtype for t in tensors if t is not None}
    if len(dtypes) == 1 and not dtypes & _HALF:
        return *tensors, None
    floats = [t for t in tensors if t is not None and t.dtype.is_floating_point]
    if all(t.dtype == floats[0].dtype and t.dtype not in _HALF for t in floats):
        return *tensors, None
    dtype = _result_dtype(*floats)
    kind = torch.promote_types(dtype, torch.float32)
    wide = [t.to(kind) if t is not None and t.dtype.is_floating_point else t for t in tensors]
    return *wide, dtype


def _round(y: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Round once; a ``to`` that does nothing would cost the gradient in torch.compile (2.11)."""
    if dtype is None or y.dtype == dtype or not dtype.is_floating_point:
        return y
    return y.to(dtype)


def _save_for_jvp(ctx: Any, outputs: tuple[Tensor, ...], *tensors: Tensor | None) -> None:
    """Save ``tensors`` for jvp, and what tangents of ``outputs`` look like."""
    ctx.save_for_forward(*tensors)
    ctx.outputs = [(y.shape, y.dtype, y.device) for y in outputs]


def _differentiated() -> bool:
    """Tell whether something may differentiate what is computed now."""
    return torch.is_grad_enabled() or _forward_mode()


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


def _is_plain(grad: Any) -> TypeGuard[Tensor]:
    """Tell whether nothing differentiates, batches or traces what is computed from ``grad`` now."""
    return type(grad) is Tensor and not (
        torch.compiler.is_compiling()
        or _is_legacy_batched(grad)
        or torch.is_grad_enabled()
        or _forward_mode()
    )


class _Once(Function):
    """The identity, on the gradient of an op whose gradient is not to be differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(grad: Tensor, op: str) -> Tensor:
        return grad.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, ctx.op = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(f"{ctx.op}: has no second derivative (double_backward: false)")

    jvp = backward


def _once(op: str, *grads: Any) -> Any:
    """Return ``grads`` so that differentiating them raises."""
    if torch.compiler.is_compiling() or not _differentiated():
        return grads if len(grads) > 1 else grads[0]
    once: Any = _Once
    grads = tuple(None if g is None else once.apply(g, op) for g in grads)
    return grads if len(grads) > 1 else grads[0]


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


_apply: Callable[..., Tensor] = _dispatcher(OnceDifferentiableFunction, _OnceDifferentiablePlain)
