"""A plain call keeps what is dear to recompute.

    y = scale * x * erf(x)

    dy/dx     = scale * (2 * x * exp(-x**2) / sqrt(pi) + erf(x))
    dy/dscale = x * erf(x)

Saved for backward: x and scale; erf(x) where nothing differentiates the backward.

Accuracy in float32: value within 0.2 ulp, derivatives within 0.8 ulp beyond the conditioning of
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

__all__ = ["KeptIntermediate", "KeptIntermediateFunction", "kept_intermediate"]

_SQRT_PI = 1.772453850905516  # sqrt(pi)


def kept_intermediate(x: Tensor | float, scale: Tensor | float) -> Tensor:
    """A plain call keeps what is dear to recompute.

    The tensors broadcast; any of them may be a number. Raises TypeError where a tensor is
    complex.
    """
    if not (_is_real(x) and _is_real(scale)):
        x, scale = _tensors("kept_intermediate", (), x=x, scale=scale)
    return _apply(x, scale)


def _forward(x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the outputs, and what a plain backward reuses; None for what was widened."""
    dtype = None
    if x.dtype in _HALF or x.dtype != scale.dtype:
        x, scale, dtype = _widen(x, scale)
    erf_x = torch.erf(x)
    y = erf_x * scale * x
    if dtype is None:
        return y, erf_x
    # Computed wider than the result: recomputing is cheaper than keeping.
    return y.to(dtype), None


class KeptIntermediateFunction(Function):
    """y = scale * x * erf(x), differentiable in x and scale to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, scale: Tensor) -> Tensor:
        return _forward(x, scale)[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], y: Any, erf_x: Any = None) -> None:
        x, scale = inputs
        ctx.shapes = (None, scale.shape)
        ctx.dtypes = (None, scale.dtype)
        wants_x, _ = _wanted(ctx)
        saved = [x, scale if wants_x else None, erf_x]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved)
        if _forward_mode():
            _save_for_jvp(ctx, (y,), *saved)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None, None
        wants_x, wants_scale = ctx.needs_input_grad
        x, scale, *_ = saved = ctx.saved_tensors
        x, scale, grad_y, _ = _widen(x, scale, grad_y)
        grad_x = grad_scale = None
        erf_x = torch.erf(x)
        if wants_x:
            total = 2 * torch.exp(-(x * x)) * x / _SQRT_PI + erf_x
            grad_x = _fit(total * grad_y * scale, saved[0].shape, saved[0].dtype)
        if wants_scale:
            grad_scale = _fit(erf_x * grad_y * x, ctx.shapes[1], ctx.dtypes[1])
        return grad_x, grad_scale

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, tangent_scale: Tensor | None) -> Any:
        with _primals(ctx) as saved:
            x, scale, *_ = saved
            x, scale, _ = _widen(x, scale)
            terms = []
            erf_x = torch.erf(x)
            if tangent_x is not None:
                total = 2 * torch.exp(-(x * x)) * x / _SQRT_PI + erf_x
                terms.append(total * scale * tangent_x)
            if tangent_scale is not None:
                terms.append(erf_x * tangent_scale * x)
            return _total(ctx, terms)


class _KeptIntermediatePlain(Function):
    """KeptIntermediateFunction for a plain call, whose backward reuses what forward computed.

    What is kept has no derivative of its own, so where one is wanted, backward recomputes it.
    """

    jvp = KeptIntermediateFunction.jvp

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor) -> Tensor:
        y, erf_x = _forward(x, scale)
        KeptIntermediateFunction.setup_context(ctx, (x, scale), y, erf_x)
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if not _is_plain(grad_y):
            return KeptIntermediateFunction.backward(ctx, grad_y)
        wants_x, wants_scale = ctx.needs_input_grad
        x, scale, erf_x = saved = ctx.saved_tensors
        if erf_x is None:
            return KeptIntermediateFunction.backward(_Unpacked(ctx, saved), grad_y)
        grad_x = grad_scale = None
        if wants_x:
            total = 2 * torch.exp(-(x * x)) * x / _SQRT_PI + erf_x
            grad_x = _fit((total * grad_y).mul_(scale), saved[0].shape, saved[0].dtype)
        if wants_scale:
            grad_scale = _fit((erf_x * grad_y).mul_(x), ctx.shapes[1], ctx.dtypes[1])
        return grad_x, grad_scale


class KeptIntermediate(torch.nn.Module):
    """A plain call keeps what is dear to recompute, as a module that owns scale."""

    scale: Tensor

    def __init__(
        self,
        scale: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.initial_scale = scale
        self.scale = torch.nn.Parameter(torch.empty((), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every parameter to its initial value."""
        torch.nn.init.constant_(self.scale, self.initial_scale)

    def forward(self, x: Tensor) -> Tensor:
        return kept_intermediate(x, self.scale)

    def extra_repr(self) -> str:
        return f"scale={self.initial_scale}"


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


def _is_plain(grad: Any) -> TypeGuard[Tensor]:
    """Tell whether nothing differentiates, batches or traces what is computed from ``grad`` now."""
    return type(grad) is Tensor and not (
        torch.compiler.is_compiling()
        or _is_legacy_batched(grad)
        or torch.is_grad_enabled()
        or _forward_mode()
    )


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


class _Unpacked:
    """A context whose saved tensors have been read, which may happen only once."""

    def __init__(self, ctx: Any, saved: Any, wants: Any = None) -> None:
        self._ctx = ctx
        self.saved_tensors = saved
        if wants is not None:
            self.needs_input_grad = wants

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


_apply: Callable[..., Tensor] = _dispatcher(KeptIntermediateFunction, _KeptIntermediatePlain)
