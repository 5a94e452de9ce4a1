"""The identity with a clipped gradient.

    y = x

    grad_x = clamp(grad_y, -limit, limit)  (override)

Saved for backward: nothing.

Accuracy in float32: value within 0.0 ulp beyond the conditioning of the formula, with correctly
rounded elementary functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

__all__ = ["OverrideNonlinearFunction", "override_nonlinear"]


def override_nonlinear(x: Tensor, limit: float = 1.0) -> Tensor:
    """The identity with a clipped gradient.

    limit in (0, oo)

    Raises TypeError where x is no real tensor or a hyperparameter has another type, ValueError
    where limit is out of range.
    """
    if not _is_real(x):
        raise TypeError(f"override_nonlinear: expected a real tensor, not {_kind(x)}")
    _typed("override_nonlinear", "limit", limit, (float, int))
    if not limit > 0:
        raise ValueError(f"override_nonlinear: limit must be in (0, oo), not {limit}")
    _refuse_compilers("override_nonlinear")
    return _apply(x, limit)


class OverrideNonlinearFunction(Function):
    """y = x, with its own gradient for x."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, limit: float) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], y: Any) -> None:
        _, limit = inputs
        ctx.limit = limit
        ctx.set_materialize_grads(False)
        if _forward_mode():
            _save_for_jvp(ctx, (y,))

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> Any:
        if grad_y is None:
            return None, None
        limit = ctx.limit
        return torch.clamp(grad_y, min=-limit, max=limit), None

    @staticmethod
    def jvp(ctx: Any, tangent_x: Tensor | None, *_: Any) -> Any:
        if tangent_x is not None:
            raise RuntimeError(
                "override_nonlinear: no forward mode in x, "
                "whose gradient rule is not linear in the cotangent"
            )
        return _zeros(ctx, 0)


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


def _typed(op: str, name: str, value: Any, types: Any) -> None:
    """Raise TypeError for a hyperparameter of another type."""
    if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
        wanted = "float" if types == (float, int) else types.__name__
        raise TypeError(f"{op}: {name} must be of type {wanted}, not {value!r}")


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


def _is_exporting() -> bool:
    """Tell torch.export; torch.compiler.is_exporting() is also true in torch.compile on 2.11."""
    return bool(getattr(torch.compiler, "_is_exporting_flag", True))


def _refuse_compilers(op: str) -> None:
    """Raise where a compiler would drop the gradient rule of a Function in silence."""
    if not torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return
    if _in_functorch() or _is_exporting():
        raise NotImplementedError(
            f"{op}: torch.export and torch.func inside torch.compile lose this gradient; "
            "export under torch.no_grad(), or call torch.func outside torch.compile"
        )


def _zeros(ctx: Any, output: int) -> Tensor:
    """Return zeros for the cotangent or tangent of an output."""
    shape, dtype, device = ctx.outputs[output]
    return torch.zeros(shape, dtype=dtype, device=device)


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


_apply: Callable[..., Tensor] = _dispatcher(OverrideNonlinearFunction)
