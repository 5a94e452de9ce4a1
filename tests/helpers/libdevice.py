"""CUDA's libdevice on numpy: Triton's interpreter runs kernels on a CPU, but has none of these functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime.interpreter import TensorHandle


def _of_torch(function: Callable[..., torch.Tensor]) -> Callable[[Any], Any]:
    return lambda x: function(torch.from_numpy(np.array(x))).numpy()


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan")},
    **{name: getattr(np, name) for name in ("sinh", "cosh", "tanh", "hypot", "rint")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2")},
    **{name: _of_torch(getattr(torch, name)) for name in ("erf", "erfc", "erfinv", "lgamma")},
    "erfcx": _of_torch(torch.special.erfcx),
    "fmod": np.fmod,
    "pow": np.power,
    "sqrt_rn": np.sqrt,
    "sinpi": lambda x: np.sin(math.pi * (x - np.round(x))) * np.where(np.fmod(np.round(x), 2.0) == 0, 1.0, -1.0),
}


def install() -> None:
    """Give the interpreter these functions, as strict about dtypes as the real ones."""
    for name, function in FUNCTIONS.items():
        setattr(libdevice, name, _elementwise(name, function))


def _elementwise(name: str, function: Callable[..., Any]) -> Callable[..., tl.tensor]:
    def call(*args: tl.tensor) -> tl.tensor:
        (dtype,) = {a.dtype for a in args}
        if dtype not in (tl.float32, tl.float64):
            raise TypeError(f"libdevice.{name} of {dtype}")
        with np.errstate(all="ignore"):
            wide = function(*(a.handle.data.astype(np.float64) for a in args))
            data = np.asarray(wide).astype(args[0].handle.data.dtype)
        is_block = any(a.type.is_block() for a in args)
        return tl.tensor(TensorHandle(data, dtype), tl.block_type(dtype, list(data.shape)) if is_block else dtype)

    return call
