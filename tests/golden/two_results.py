"""Polar coordinates, and a count that has no gradient.

    radius   = sqrt(x**2 + y**2)
    angle    = atan2(y, x)
    quadrant = where(x > 0, 1, 0) + where(y > 0, 2, 0)

    dradius/dx = x / hypot(x, y)
    dangle/dx  = -y / hypot(x, y)**2
    dradius/dy = y / hypot(x, y)
    dangle/dy  = x / hypot(x, y)**2

Saved for backward: x and y; hypot(x, y) where nothing differentiates the backward.

Accuracy in float32: value within 0.5 ulp, derivatives within 1.6 ulp beyond the conditioning of
the formula, with correctly rounded elementary functions.
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

__all__ = ["TwoResultsFunction", "two_results"]


def two_results(x: Tensor | float, y: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
    """Polar coordinates, and a count that has no gradient.

    The tensors broadcast; any of them may be a number. Raises TypeError where a tensor is
    complex.
    """
    if not (_is_float(x) and _is_float(y)):
        x, y = _tensors("two_results", (), x=x, y=y)
        x, y = _promoted(x, y)
    return _apply(x, y)


def _forward(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return the outputs, and what a plain backward reuses; None for what was widened."""
    dtype = None
    if x.dtype in _HALF or x.dtype != y.dtype:
        x, y, dtype = _widen(x, y)
    radius = torch.hypot(x, y)
    angle = torch.atan2(y, x)
    quadrant = (x > 0).to(x.dtype) + torch.where(y > 0, torch.full_like(y, 2), 0)
    if dtype is None:
        return radius, angle, quadrant.detach(), radius
    # Computed wider than the result: recomputing is cheaper than keeping.
    return radius.to(dtype), angle.to(dtype), quadrant.detach().to(dtype), None


class TwoResultsFunction(Function):
    """radius, angle and quadrant of two_results; radius and angle are differentiable to any
    order, in any mode.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _forward(x, y)[:3]

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], outputs: Any, kept_radius: Any = None
    ) -> None:
        x, y = inputs
        _, _, quadrant = outputs
        _mark_fixed(ctx, quadrant)
        ctx.dtypes = (x.dtype, y.dtype)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y, kept_radius)
        if _forward_mode():
            _save_for_jvp(ctx, outputs, x, y, kept_radius)

    @staticmethod
    def backward(ctx: Any, grad_radius: Tensor | None, grad_angle: Tensor | None, _2: Any) -> Any:
        if grad_radius is None and grad_angle is None:
            return None, None
        wants_x, wants_y = ctx.needs_input_grad
        x, y, *_ = saved = ctx.saved_tensors
        x, y, grad_radius, grad_angle, _ = _widen(x, y, grad_radius, grad_angle)
        grad_x = grad_y = None
        length = torch.hypot(x, y)
        if wants_x and grad_radius is not None:
            grad_x = _summed(grad_radius * x / length, saved[0].shape)
        if wants_x and grad_angle is not None:
            grad_x = _plus(grad_x, _summed(-(grad_angle * y / length / length), saved[0].shape))
        if wants_y and grad_radius is not None:
            grad_y = _summed(grad_radius * y / length, saved[1].shape)
        if wants_y and grad_angle is not None:
            grad_y = _plus(grad_y, _summed(grad_angle * x / length / length, saved[1].shape))
        return _rounded(grad_x, ctx.dtypes[0]), _rounded(grad_y, ctx.dtypes[1])

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, tangent_y: Tensor | None) -> Any:
        with _primals(ctx) as saved:
            x, y, *_ = saved
            x, y, _ = _widen(x, y)
            terms_radius = []
            terms_angle = []
            length = torch.hypot(x, y)
            if tangent_x is not None:
                terms_radius.append(tangent_x * x / length)
                terms_angle.append(-(tangent_x * y / length / length))
            if tangent_y is not None:
                terms_radius.append(tangent_y * y / length)
                terms_angle.append(tangent_y * x / length / length)
            return _total(ctx, terms_radius), _total(ctx, terms_angle, 1), None


class _TwoResultsPlain(Function):
    """TwoResultsFunction for a plain call, whose backward reuses what forward computed.

    What is kept has no derivative of its own, so where one is wanted, backward recomputes it.
    """

    jvp = TwoResultsFunction.jvp

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        radius, angle, quadrant, kept_radius = _forward(x, y)
        TwoResultsFunction.setup_context(ctx, (x, y), (radius, angle, quadrant), kept_radius)
        return radius, angle, quadrant

    @staticmethod
    def backward(ctx: Any, grad_radius: Tensor | None, grad_angle: Tensor | None, _2: Any) -> Any:
        if _differentiated():
            return TwoResultsFunction.backward(ctx, grad_radius, grad_angle, _2)
        if grad_radius is None and grad_angle is None:
            return None, None
        wants_x, wants_y = ctx.needs_input_grad
        x, y, radius = saved = ctx.saved_tensors
        if radius is None:
            return TwoResultsFunction.backward(_Unpacked(ctx, saved), grad_radius, grad_angle, _2)
        grad_x = grad_y = None
        if wants_x and grad_radius is not None:
            grad_x = _summed(grad_radius * x / radius, saved[0].shape)
        if wants_x and grad_angle is not None:
            grad_x = _plus(grad_x, _summed(-(grad_angle * y / radius / radius), saved[0].shape))
        if wants_y and grad_radius is not None:
            grad_y = _summed(grad_radius * y / radius, saved[1].shape)
        if wants_y and grad_angle is not None:
            grad_y = _plus(grad_y, _summed(grad_angle * x / radius / radius, saved[1].shape))
        return _rounded(grad_x, ctx.dtypes[0]), _rounded(grad_y, ctx.dtypes[1])


# ----------------------------------------------------------------------------------------- plumbing
_HALF = frozenset((torch.float16, torch.bfloat16))
_in_functorch = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_in_jit_trace = getattr(torch._C, "_is_tracing", lambda: False)
_forward_ad: Any = torch.autograd.forward_ad  # untyped: private parts


def _is_float(value: Any) -> bool:
    """Tell whether ``value`` is a tensor of real numbers that are not whole by their type."""
    return isinstance(value, Tensor) and value.is_floating_point()


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


def _promoted(*tensors: Any) -> Any:
    """Return the tensors, in the default dtype if none of them is of floats."""
    if any(t.is_floating_point() for t in tensors):
        return tensors
    return [t.to(torch.get_default_dtype()) for t in tensors]


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


def _mark_fixed(ctx: Any, *outputs: Tensor) -> None:
    """Mark ``outputs`` as not differentiable, under vmap too, where they wrap the results."""
    if _in_functorch() and not torch.compiler.is_compiling():
        outputs = tuple(_unbatched(y) for y in outputs)
    ctx.mark_non_differentiable(*outputs)


def _unbatched(t: Any) -> Any:
    """Return what is inside of a tensor that vmap made."""
    while _functorch.is_batchedtensor(t):
        t = _functorch.get_unwrapped(t)
    return t


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


def _summed(grad: Tensor, shape: Any) -> Tensor:
    """Give one of several contributions to a gradient the shape of its input."""
    return grad if grad.shape == shape else grad.sum_to_size(shape)


def _rounded(grad: Tensor | None, dtype: Any) -> Tensor | None:
    """Give a gradient that was added up the dtype of its input."""
    return grad if grad is None or grad.dtype == dtype else grad.to(dtype)


def _plus(total: Tensor | None, term: Tensor) -> Tensor:
    """Add what one more cotangent contributes."""
    return term if total is None else total + term


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


_apply: Callable[..., tuple[Tensor, Tensor, Tensor]] = _dispatcher(
    TwoResultsFunction, _TwoResultsPlain
)
