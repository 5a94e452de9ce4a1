"""Functions of one's own in place of forward and backward, which the formula stays the reference of."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import _runtime as rt

_PLAIN = (Tensor, torch.nn.Parameter)


class Extern:
    """Functions that serve plain calls, named as ``package.module.function``; they are imported at the first call.

    ``forward`` is called with the arguments of the operation and returns its outputs, ``backward`` with the
    cotangents of the outputs at ``cotangents`` before these and returns the gradients of the tensors at ``places``,
    None for one that is zero. What returns NotImplemented declines: the formula serves then, as it does under
    transforms and compilers, in forward mode, where a gradient is differentiated in turn, and where only some of the
    outputs have a cotangent.
    """

    def __init__(
        self,
        op: str,
        tensors: int,
        places: tuple[int, ...],
        *,
        cotangents: tuple[int, ...] = (0,),
        forward: str = "",
        backward: str = "",
    ) -> None:
        self.op, self.tensors, self.places, self.cotangents = op, tensors, places, cotangents
        self.forward, self.backward = forward, backward

    def serve(self, function: Any, outputs: int) -> tuple[Callable[..., Any], Any, None]:
        """Return what serves calls that nothing differentiates, and a Function for the others; nothing quicker."""
        extern = self

        def infer(*args: Any) -> Any:
            found = extern.outputs(args, outputs)
            return function.forward(*args) if found is None else found

        def forward(ctx: Any, *args: Any) -> Any:
            results = infer(*args)
            function.setup_context(ctx, args, results)
            given = args[: extern.tensors] if extern.backward else ()
            ctx.save_for_backward(*(ctx.to_save or ()), *given)
            ctx.given, ctx.numbers = len(given), args[extern.tensors :]
            return results

        def backward(ctx: Any, *grads: Any) -> Any:
            kept = ctx.saved_tensors
            found, given = kept[: len(kept) - ctx.given], kept[len(kept) - ctx.given :]
            if given and not rt.differentiated():
                gradients = extern.gradients(ctx, given, grads)
                if gradients is not None:
                    return gradients
            return function.backward(rt.Saved(ctx, found), *grads)

        return infer, rt.function_like(function, forward=forward, backward=backward, jvp=function.jvp), None

    def outputs(self, args: tuple[Any, ...], count: int) -> Any:
        """Return the outputs, None where the formula is to serve."""
        if not self.forward or not all(t is None or type(t) in _PLAIN for t in args[: self.tensors]):
            return None
        found = _imported(self.op, self.forward)(*args)
        if found is NotImplemented:
            return None
        several = tuple(found) if count > 1 and isinstance(found, (tuple, list)) else (found,)
        if len(several) != count or not all(isinstance(t, Tensor) for t in several):
            raise TypeError(f"{self.op}: {self.forward} must return {_counted(count)}, not {found!r}")
        return several[0] if count == 1 else several

    def gradients(self, ctx: Any, given: tuple[Any, ...], grads: tuple[Any, ...]) -> Any:
        """Return a gradient for each argument, None alone where the formula is to serve."""
        live = [grads[k] for k in self.cotangents]
        if not all(type(g) in _PLAIN for g in live) or not all(t is None or type(t) in _PLAIN for t in given):
            return None
        found = _imported(self.op, self.backward)(*live, *given, *ctx.numbers)
        if found is NotImplemented:
            return None
        several = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(several) != len(self.places) or not all(g is None or isinstance(g, Tensor) for g in several):
            raise TypeError(f"{self.op}: {self.backward} must return {_counted(len(self.places))}, not {found!r}")
        gradients: list[Any] = [None] * (len(given) + len(ctx.numbers))
        for place, gradient in zip(self.places, several, strict=True):
            if ctx.needs_input_grad[place]:
                gradients[place] = rt.fit(ctx, place, gradient)
        return tuple(gradients)


@functools.cache
def _imported(op: str, path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ImportError(f"{op}: {path}, which its spec names under 'extern', cannot be imported: {error}") from error
    return found


def _counted(number: int) -> str:
    return "one tensor" if number == 1 else f"{number} tensors"
