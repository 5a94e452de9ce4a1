"""Cancellation that no rewrite mends in float32.

    z = lgamma(x) - lgamma(y)

    dz/dx = digamma(x)
    dz/dy = -digamma(y)

Saved for backward: x and y.

Accuracy in float32: value within 0.5 ulp, derivatives within 0.3 ulp beyond the conditioning of
the formula, with correctly rounded elementary functions (value evaluated in float64).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch
from torch.autograd import Function

__all__ = ["WideEvaluationFunction", "wide_evaluation"]


def wide_evaluation(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Cancellation that no rewrite mends in float32.

    x in (0, 10)
    y in (0, 10)

    The tensors broadcast; any of them may be a number. Raises TypeError where a tensor is
    complex.
    """
    if not (_is_real(x) and _is_real(y)):
        x, y = _tensors("wide_evaluation", (), x=x, y=y)
    return _apply(x, y)


class WideEvaluationFunction(Function):
    """z = lgamma(x) - lgamma(y), differentiable in x and y to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        x, y, dtype = _widen_all(x, y)
        return _round(torch.lgamma(x) - torch.lgamma(y), dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], z: Any) -> None:
        x, y = inputs
        wants_x, wants_y = _wanted(ctx)
        saved = [x if wants_x else None, y if wants_y else None]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved)
        if _forward_mode():
            _save_for_jvp(ctx, (z,), *saved)

    @staticmethod
    def backward(ctx: Any, grad_z: Tensor | None) -> Any:
        if grad_z is None:
            return None, None
        wants_x, wants_y = ctx.needs_input_grad
        x, y = saved = ctx.saved_tensors
        x, y, grad_z, _ = _widen(x, y, grad_z)
        grad_x = grad_y = None
        if wants_x:
            grad_x = _fit(torch.digamma(x) * grad_z, saved[0].shape, saved[0].dtype)
        if wants_y:
            grad_y = _fit(-(torch.digamma(y) * grad_z), saved[1].shape, saved[1].dtype)
        return grad_x, grad_y

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, tangent_y: Tensor | None) -> Any:
        with _primals(ctx) as saved:
            x, y = saved
            x, y, _ = _widen(x, y)
            terms = []
            if tangent_x is not None:
                terms.append(torch.digamma(x) * tangent_x)
            if tangent_y is not None:
                terms.append(-(torch.digamma(y) * tangent_y))
            return _total(ctx, terms)


# ----------------------------------------------------------------------------------------- plumbing
_HALF = frozenset((torch.float16, torch.bfloat16))
_COMPLEX = frozenset((torch.complex32, torch.complex64, torch.complex128))
_in_functorch = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_in_jit_trace = getattr(torch._C, "_is_tracing", lambda: False)
_forward_ad: Any = torch.autograd.forward_ad  # untyped: private parts


def _is_real(value: Any) -> bool:
    """Tell whether ``value`` is a tensor of real numbers."""
    return isinstance(value, Tensor) and value.dtype not in _COMPLEX


def _tensors(op: str, optional: tuple[str, ...], /, **values: Any) -> Any:
    """Make tensors of numbers; refuse everything else, but None for an optional tensor."""
    tensors = [v for v in values.values() if isinstance(v, Tensor)]
    found: list[Tensor | None] = []
    for name, value in values.items():
        if isinstance(value, complex) or (isinstance(value, Tensor) and value.is_complex()):
            raise TypeError(f"{op}: complex arguments are not supported, and {name} is one")
        if isinstance(value, Tensor) or (value is None and name in optional):
            found.append(value)
            continue
        try:
            found.append(_number(value, tensors))
        except TypeError:
            raise TypeError(f"{op}: {name} must be a tensor, not {value!r:.50}") from None
    return found


def _number(value: Any, tensors: list[Tensor]) -> Tensor:
    """Return ``value`` as a tensor that leaves the dtype of the result as it is."""
    dtype = tensors[0].dtype if len(tensors) == 1 else _result_dtype(*tensors)
    if isinstance(value, float) and not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    elif dtype == torch.bool and not isinstance(value, bool):
        dtype = torch.int64
    elif dtype in _HALF and any(t.dtype in _HALF and t.dim() > 0 for t in tensors):
        dtype = torch.float32  # beside a tensor of half precision, a number is not rounded
    device = tensors[0].device if tensors else None
    if torch.compiler.is_compiling():  # scalar_tensor would compile anew for every value
        return torch.ones((), dtype=dtype, device=device).mul_(value)
    return torch.scalar_tensor(value, dtype=dtype, device=device)


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


def _widen_all(*tensors: Any) -> Any:
    """Return the numbers as float64, which this formula needs, and, last, the dtype to round to."""
    for t in tensors:
        if t is not None and t.dtype not in (torch.float64, torch.bool):
            break
    else:
        return *tensors, None
    if t.device.type == "mps":  # has no float64
        return _widen(*tensors)
    dtype = _result_dtype(*[t for t in tensors if t is not None])
    wide = [t if t is None or t.dtype == torch.bool else t.double() for t in tensors]
    return *wide, dtype if dtype.is_floating_point else torch.get_default_dtype()


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


def _fit(grad: Tensor, shape: Any, dtype: Any) -> Tensor:
    """Give a gradient the shape and dtype of its input: sum first, round last."""
    if grad.shape != shape:
        grad = grad.sum_to_size(shape) if shape else grad.sum()
    return grad if grad.dtype == dtype else grad.to(dtype)


def _zeros(ctx: Any, output: int) -> Tensor:
    """Return zeros for the cotangent or tangent of an output."""
    shape, dtype, device = ctx.outputs[output]
    return torch.zeros(shape, dtype=dtype, device=device)


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


def _total(ctx: Any, terms: list[Tensor], output: int = 0) -> Tensor:
    """Add the terms of an output's tangent, in its shape and dtype; zeros where there is none."""
    if not terms:
        return _zeros(ctx, output)
    shape, dtype, _ = ctx.outputs[output]
    return functools.reduce(torch.add, terms).expand(shape).to(dtype)


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


_apply: Callable[..., Tensor] = _dispatcher(WideEvaluationFunction)
