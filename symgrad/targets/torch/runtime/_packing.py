"""Residuals in fewer bits: packed as they are saved, and unpacked where backward reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from . import _runtime as rt

__all__ = ["LOSSY", "save", "saved"]

_LONG = 32  # elements of a row that has a scale of its own


def save(
    ctx: Any,
    inputs: tuple[Any, ...],
    outputs: tuple[Tensor, ...],
    *values: Tensor | None,
    op: str,
    forms: tuple[str, ...],
    residuals: tuple[Tensor | None, ...] = (),
    fixed: tuple[Tensor, ...] = (),
    spared: tuple[int, ...] = (),
) -> None:
    """Save ``values`` and ``residuals`` as ``rt.save`` does, each in the form that is given.

    Values that are ``spared`` serve to compute residuals again, and are not saved with them.

    Forward mode and the transforms of torch.func get them as they are: what is differentiated again must not lose its
    derivative.
    """
    own = [r for r in residuals if r is not None]
    parts: list[Tensor | None] = []
    packed: list[tuple[str, torch.dtype] | None] = []
    exact = rt.forward_mode()
    ctx.lost = not exact and bool(spared) and bool(own) and bool(LOSSY)
    if ctx.lost:
        values = tuple(None if k in spared else value for k, value in enumerate(values))
    for value, form in zip((*values, *(() if exact else residuals)), forms, strict=False):
        bits = form == "bit" and not torch.compiler.is_compiling()  # sizes may be symbolic, which ctx cannot hold
        if value is None or exact or not (bits or form in LOSSY):
            packed.append(None)
            parts.append(value)
        elif bits:
            packed.append((form, value.dtype))
            parts += [_bits(value), value.new_zeros(()).expand(value.shape)]
        else:
            packed.append((form, value.dtype))
            parts += LOSSY[form](value)
    rt.save(ctx, inputs, outputs, *parts, fixed=fixed if torch.compiler.is_compiling() else (*fixed, *own))
    ctx.packed = tuple(packed)
    ctx.values = len(values)
    ctx.kept = len(residuals)
    ctx.op = op


def saved(ctx: Any) -> Any:
    """Return what was saved, unpacked; residuals are None where something may differentiate backward.

    Raises RuntimeError where it would differentiate what has lost its derivative.
    """
    lost = ctx.lost or any(packed is not None and packed[0] in LOSSY for packed in ctx.packed[: ctx.values])
    if lost and torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError(
            f"{ctx.op}: a gradient from residuals in fewer bits cannot be differentiated (create_graph=True); "
            "torch.func keeps them as they are"
        )
    parts = iter(rt.saved(ctx))
    found = [_unpacked(next(parts), parts, packed) for packed in ctx.packed]
    if rt.differentiated():
        found = found[: ctx.values]
    return *found, *[None] * (ctx.values + ctx.kept - len(found))


def _unpacked(first: Any, more: Any, packed: Any) -> Any:
    if packed is None:
        return first
    form, dtype = packed
    second = next(more)
    if form == "bit":
        return _truths(first, second.shape)
    wide = first.to(second.dtype) * second
    if form == "int8":
        wide = wide.masked_fill_(first == _NAN, torch.nan)
    return wide.to(dtype)


def _bits(mask: Tensor) -> Tensor:
    """Return a mask as bytes of eight elements."""
    flat = mask.reshape(-1)
    eights = torch.constant_pad_nd(flat.to(torch.uint8), [0, -flat.numel() % 8]).reshape((-(-flat.numel() // 8), 8))
    return (eights << torch.arange(8, dtype=torch.uint8, device=mask.device)).sum(-1, dtype=torch.uint8)


def _truths(bits: Tensor, shape: Any) -> Tensor:
    """Return the mask of bytes of eight elements."""
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    truths = (bits.unsqueeze(-1) >> places).bitwise_and(1).to(torch.bool)
    return truths.reshape(-1)[: shape.numel()].reshape(shape)


_NAN = -128
_INT8, _FLOAT8 = 127.0, 448.0  # the largest numbers of these forms


def _scaled(value: Tensor, largest: float) -> tuple[Tensor, Tensor]:
    """Return a value divided so that the largest finite number of each row is ``largest``, and what it was divided by.

    A row that is short has no scale of its own.
    """
    wide = value.to(torch.promote_types(value.dtype, torch.float32))
    sizes = wide.abs().nan_to_num_(0, 0)
    if wide.dim() and wide.shape[-1] >= _LONG:
        most = sizes.amax(-1, keepdim=True)
    else:
        most = sizes.amax() if wide.numel() else sizes.sum()
    scale = (most / largest).clamp_min(torch.finfo(wide.dtype).tiny)
    return (wide / scale).clamp_(-largest, largest), scale


def _int8(value: Tensor) -> tuple[Tensor, Tensor]:
    scaled, scale = _scaled(value, _INT8)
    return scaled.round_().nan_to_num_(_NAN).to(torch.int8), scale


def _float8(value: Tensor) -> tuple[Tensor, Tensor]:
    scaled, scale = _scaled(value, _FLOAT8)
    return scaled.to(torch.float8_e4m3fn), scale


LOSSY: Mapping[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {"int8": _int8, "float8": _float8}
"""What loses digits, by name."""
