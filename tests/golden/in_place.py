"""A scaled shift, also in place.

    y = 2 * x + shift

    dy/dx     = 2
    dy/dshift = 1

Saved for backward: nothing.

Accuracy in float32: value within 0.3 ulp beyond the conditioning of the formula, with correctly
rounded elementary functions.
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

__all__ = ["InPlaceFunction", "InPlaceInplaceFunction", "in_place", "in_place_"]


def in_place(x: Tensor | float, shift: Tensor | float) -> Tensor:
    """A scaled shift, also in place.

    The tensors broadcast; any of them may be a number. Raises TypeError where a tensor is
    complex.
    """
    if not (_is_real(x) and _is_real(shift)):
        x, shift = _tensors("in_place", (), x=x, shift=shift)
    return _apply(x, shift)


def in_place_(x: Tensor, shift: Tensor | float) -> Tensor:
    """Write the result of ``in_place`` over ``x`` and return it."""
    if not (_is_real(x) and _is_real(shift)):
        x, shift = _tensors("in_place_", (), x=x, shift=shift)
    if _forward_mode():
        x, target = x.clone(), x  # derivatives need what is overwritten
        return target.copy_(_apply(x, shift))
    return _apply_inplace(x, shift)


class InPlaceFunction(Function):
    """y = 2 * x + shift, differentiable in x and shift to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, shift: Tensor) -> Tensor:
        return shift + 2 * x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], y: Any) -> None:
        x, shift = inputs
        ctx.shapes = (x.shape, shift.shape)
        ctx.dtypes = (x.dtype, shift.dtype)
        ctx.set_materialize_grads(False)
        if _forward_mode():
            _save_for_jvp(ctx, (y,))

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None, None
        wants_x, wants_shift = ctx.needs_input_grad
        grad_x = grad_shift = None
        if wants_x:
            grad_x = _fit(2 * grad_y, ctx.shapes[0], ctx.dtypes[0])
        if wants_shift:
            grad_shift = _fit(grad_y, ctx.shapes[1], ctx.dtypes[1])
        return grad_x, grad_shift

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, tangent_shift: Tensor | None) -> Any:
        with _primals(ctx):
            terms = []
            if tangent_x is not None:
                terms.append(2 * tangent_x)
            if tangent_shift is not None:
                terms.append(tangent_shift)
            return _total(ctx, terms)


class InPlaceInplaceFunction(Function):
    """InPlaceFunction, whose result is written over x."""

    backward = InPlaceFunction.backward

    @staticmethod
    def forward(x: Tensor, shift: Tensor) -> Tensor:
        return x.copy_(InPlaceFunction.forward(x, shift))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], y: Any) -> None:
        ctx.mark_dirty(y)
        InPlaceFunction.setup_context(ctx, inputs, y)


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


_apply: Callable[..., Tensor] = _dispatcher(InPlaceFunction)
_apply_inplace: Callable[..., Tensor] = _dispatcher(
    InPlaceInplaceFunction, compiled=InPlaceInplaceFunction.forward
)
