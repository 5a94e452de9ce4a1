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

Saved for backward: x - target.

Accuracy in float32: value within 0.0 ulp, derivatives within 0.0 ulp beyond the conditioning of
the formula, with correctly rounded elementary functions.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeGuard

import torch
from torch import Tensor
from torch._C import _functorch
from torch.autograd import Function

__all__ = ["StrChoicesFunction", "str_choices"]


def str_choices(
    x: Tensor | float, target: Tensor | float, reduction: Literal["none", "mean", "sum"] = "mean"
) -> Tensor:
    """A reduction that is chosen by name.

    The tensors broadcast; any of them may be a number. Raises TypeError where a tensor is
    complex or a hyperparameter has another type, ValueError where reduction is out of range.
    """
    if not (_is_real(x) and _is_real(target)):
        x, target = _tensors("str_choices", (), x=x, target=target)
    _typed("str_choices", "reduction", reduction, str)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"str_choices: reduction must be none, mean or sum, not {reduction!r}")
    return _apply(x, target, reduction)


def _forward(x: Tensor, target: Tensor, reduction: str) -> tuple[Tensor, Tensor]:
    """Return the outputs, and what a plain backward reuses."""
    dtype = None
    if x.dtype in _HALF or x.dtype != target.dtype:
        x, target, dtype = _widen(x, target)
    diff = x - target
    squared = diff * diff
    if reduction == "mean":
        loss = squared.mean()
        return _round(loss, dtype), diff
    if reduction == "none":
        loss = squared
        return _round(loss, dtype), diff
    loss = squared.sum()
    return _round(loss, dtype), diff


class StrChoicesFunction(Function):
    """loss of str_choices, differentiable in x to any order, in any mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, target: Tensor, reduction: str) -> Tensor:
        return _forward(x, target, reduction)[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], loss: Any) -> None:
        x, target, reduction = inputs
        ctx.reduction = reduction
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, target)
        if _forward_mode():
            _save_for_jvp(ctx, (loss,), x, target)

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor | None) -> Any:
        if grad_loss is None:
            return None, None, None
        reduction = ctx.reduction
        x, target = saved = ctx.saved_tensors
        if x.dtype in _HALF or not x.dtype == target.dtype == grad_loss.dtype:
            x, target, grad_loss, _ = _widen(x, target, grad_loss)
        diff = x - target
        if reduction == "mean":
            grad_x = _fit(diff * (2 * grad_loss / diff.numel()), saved[0].shape, saved[0].dtype)
            return grad_x, None, None
        grad_x = _fit(2 * diff * grad_loss, saved[0].shape, saved[0].dtype)
        return grad_x, None, None

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, _1: Any, *_: Any) -> Any:
        if tangent_x is None:
            return _zeros(ctx, 0)
        reduction = ctx.reduction
        with _primals(ctx) as saved:
            x, target = saved
            x, target, tangent_x, _ = _widen(x, target, tangent_x)
            diff = x - target
            if reduction == "mean":
                return _total(ctx, [2 * (diff * tangent_x).mean()])
            if reduction == "none":
                return _total(ctx, [2 * diff * tangent_x])
            return _total(ctx, [2 * (diff * tangent_x).sum()])


class _StrChoicesKeeping(Function):
    """StrChoicesFunction for a plain call: keeps diff in place of x and target.

    It is an output of its own, so that second derivatives pass through it.
    """

    forward = staticmethod(_forward)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], outputs: Any) -> None:
        x, _, reduction = inputs
        _, diff = outputs
        ctx.shapes = (x.shape,)
        ctx.dtypes = (x.dtype,)
        ctx.reduction = reduction
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(diff)
        if _forward_mode():
            _save_for_jvp(ctx, outputs, diff)

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor | None, grad_diff: Tensor | None = None) -> Any:
        if grad_diff is None and _is_plain(grad_loss):
            return _StrChoicesKeeping.gradients(ctx, grad_loss)
        if grad_loss is None and grad_diff is None:
            return None, None, None
        reduction = ctx.reduction
        (diff,) = ctx.saved_tensors
        diff, grad_loss, grad_diff, _ = _widen(diff, grad_loss, grad_diff)
        grad_x = None
        if reduction == "mean":
            if grad_loss is not None:
                grad_x = _summed(diff * (2 * grad_loss / diff.numel()), ctx.shapes[0])
            if grad_diff is not None:
                grad_x = _plus(grad_x, _summed(grad_diff, ctx.shapes[0]))
            return _rounded(grad_x, ctx.dtypes[0]), None, None
        if grad_loss is not None:
            grad_x = _summed(2 * diff * grad_loss, ctx.shapes[0])
        if grad_diff is not None:
            grad_x = _plus(grad_x, _summed(grad_diff, ctx.shapes[0]))
        return _rounded(grad_x, ctx.dtypes[0]), None, None

    @staticmethod
    def gradients(ctx: Any, grad_loss: Tensor) -> Any:
        """Return the gradients where nothing differentiates them; overwrites temporaries."""
        reduction = ctx.reduction
        (diff,) = ctx.saved_tensors
        if diff.dtype in _HALF or diff.dtype != grad_loss.dtype:
            diff, grad_loss, _ = _widen(diff, grad_loss)
        if reduction == "mean":
            grad_x = _fit(diff * (grad_loss / diff.numel()).mul_(2), ctx.shapes[0], ctx.dtypes[0])
            return grad_x, None, None
        grad_x = _fit((diff * grad_loss).mul_(2), ctx.shapes[0], ctx.dtypes[0])
        return grad_x, None, None

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, _1: Any, *_: Any) -> Any:
        reduction = ctx.reduction
        with _primals(ctx) as saved:
            (diff,) = saved
            if reduction == "mean":
                diff, tangent_x, _ = _widen(diff, tangent_x)
                terms_loss = []
                terms_diff = []
                if tangent_x is not None:
                    terms_loss.append(2 * (diff * tangent_x).mean())
                    terms_diff.append(tangent_x)
                return _total(ctx, terms_loss), _total(ctx, terms_diff, 1)
            if reduction == "none":
                diff, _ = _widen(diff)
                terms_loss = []
                terms_diff = []
                if tangent_x is not None:
                    terms_loss.append(2 * diff * tangent_x)
                    terms_diff.append(tangent_x)
                return _total(ctx, terms_loss), _total(ctx, terms_diff, 1)
            diff, tangent_x, _ = _widen(diff, tangent_x)
            terms_loss = []
            terms_diff = []
            if tangent_x is not None:
                terms_loss.append(2 * (diff * tangent_x).sum())
                terms_diff.append(tangent_x)
            return _total(ctx, terms_loss), _total(ctx, terms_diff, 1)


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


def _typed(op: str, name: str, value: Any, types: Any) -> None:
    """Raise TypeError for a hyperparameter of another type."""
    if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
        wanted = "float" if types == (float, int) else types.__name__
        raise TypeError(f"{op}: {name} must be of type {wanted}, not {value!r}")


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


def _fit(grad: Tensor, shape: Any, dtype: Any) -> Tensor:
    """Give a gradient the shape and dtype of its input: sum first, round last."""
    if grad.shape != shape:
        grad = grad.sum_to_size(shape) if shape else grad.sum()
    return grad if grad.dtype == dtype else grad.to(dtype)


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


_apply: Callable[..., Tensor] = _dispatcher(StrChoicesFunction, _StrChoicesKeeping, shown=0)
