"""Operators of torch.library, for what exports an operation as one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import _runtime as rt

_torch_library: Any = torch.library  # partly untyped


def operator(name: str, schema: str, function: Any, *, outputs: int = 1, residuals: int = 0) -> Callable[..., Any]:
    """Register a Function as the operator ``namespace::name`` and return it.

    What computes it on all devices, its shapes for fake tensors and its gradient are those of the
    Function. It has no forward mode, as nothing has that torch.library registers.
    """
    bare = rt.without_residuals(function, outputs, residuals)

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        needs = ctx.needs_input_grad  # has one more, for what torch passes beside the inputs
        ctx.needs_input_grad = needs[: len(inputs)]
        bare.setup_context(ctx, inputs, output)
        ctx.needs_input_grad = needs

    made = _torch_library.custom_op(name, bare.forward, mutates_args=(), schema=schema)
    made.register_fake(bare.forward)
    made.register_autograd(bare.backward, setup_context=setup_context)
    namespace, _, own = name.partition("::")
    found: Callable[..., Any] = getattr(getattr(torch.ops, namespace), own).default
    return found
