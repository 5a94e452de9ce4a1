"""Triton's interpreter, in a process of its own: it changes what triton is for everything else in a process."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import combinations
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import libdevice
import numpy as np
import torch
import triton
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from triton.errors import TritonError
from triton.runtime import interpreter

from benchmarks.without_device import serving_cpu_tensors


def start() -> None:
    """Make this process, which has TRITON_INTERPRET=1, one that interprets the passes of modules over CPU tensors."""
    libdevice.install()
    triton.runtime.driver.set_active(SimpleNamespace(get_current_target=lambda: None))
    interpreter._patch_lang_tensor = _patched
    interpreter._patch_lang = _patched_once
    interpreter.ReduceOps.generic_reduce = _reduced
    interpreter.interpreter_builder.options = _CHECKED


def _patched(tensor: Any, scope: Any, usual: Any = interpreter._patch_lang_tensor) -> None:
    """What the interpreter makes of tensors, and numbers that numpy 2.4 accepts as bounds of a loop."""
    usual(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


_patched_for: set[Any] = set()


def _patched_once(fn: Any, usual: Any = interpreter._patch_lang) -> Any:
    """What the interpreter does to the language before every function that a pass calls: once, and it stays."""
    language = fn.__globals__.get("tl")
    if language not in _patched_for:
        usual(fn)
        _patched_for.add(language)
    return SimpleNamespace(restore=lambda: None)


def _reduced(self: Any, given: Any) -> list[Any]:
    """A reduction by halves, as devices make it: the interpreter itself calls the function of two for each element."""
    assert not self.keep_dims
    columns = [np.moveaxis(t.handle.data, self.axis, 0) for t in given]
    while len(columns[0]) > 1:
        half = len(columns[0]) // 2
        halves = [
            self.to_tensor(c[k], t.dtype)
            for k in (slice(half), slice(half, None))
            for c, t in zip(columns, given, strict=True)
        ]
        found = self.combine_fn.fn(*halves)
        columns = [part.handle.data for part in (found if isinstance(found, tuple) else (found,))]
    return [self.to_tensor(c[0], t.dtype) for c, t in zip(columns, given, strict=True)]


@cache
def module_of(path: Path) -> ModuleType:
    """A generated module whose passes for CUDA tensors serve CPU tensors."""
    from fused import imported

    module = imported(path)
    serving_cpu_tensors(module)
    return module


def both(
    path: Path, tensors: list[Tensor], settings: Any = (), wanted: Any = None, sizes: Any = None
) -> tuple[list[Tensor], list[Tensor], int]:
    """Outputs and gradients with passes, and without; how many passes served.

    `sizes` replace the sizes of tiles.
    """
    module = module_of(path)
    kernels = vars(module)["_kernels"]
    kernels.forget()
    found = []
    with tiles(kernels.library(torch.float32), sizes or {}):
        for on in (True, False):
            kernels.on = on
            found.append(results(getattr(module, path.stem), tensors, settings, wanted))
    kernels.on = True
    return found[0], found[1], sum(map(bool, kernels.walks.values()))


def higher(
    path: Path, tensors: list[Tensor], settings: Any = (), sizes: Any = None, wanted: Any = None
) -> tuple[list[Tensor], list[Tensor], dict[str, int]]:
    """Tangents and second derivatives, with passes and without; how many served of each.

    They are those for every choice of the `wanted` tensors, by default of all.
    """
    module = module_of(path)
    kernels = vars(module)["_kernels"]
    kernels.forget()
    function = getattr(module, path.stem)
    places = range(len(tensors)) if wanted is None else wanted
    choices = [c for n in range(1, len(places) + 1) for c in combinations(places, n)]
    found = []
    with tiles(kernels.library(torch.float32), sizes or {}):
        for on in (True, False):
            kernels.on = on
            found.append([t for c in choices for t in tangents(function, tensors, settings, c)])
            found[-1] += [t for c in choices for t in second(function, tensors, settings, c)]
    kernels.on = True
    served = [key[0].partition("_")[0] for key, walk in kernels.walks.items() if walk]
    return found[0], found[1], dict(Counter(served))


def tangents(function: Any, tensors: list[Tensor], settings: Any, chosen: Any) -> list[Tensor]:
    """The tangents of the outputs, for tangents of the chosen tensors."""
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(t, t.cos()) if k in chosen else t for k, t in enumerate(tensors)]
        outputs = function(*duals, *settings)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return [forward_ad.unpack_dual(y).tangent for y in outputs]


def second(function: Any, tensors: list[Tensor], settings: Any, chosen: Any) -> list[Tensor]:
    """What the gradients of the chosen tensors give to everything they depend on."""
    leaves = [t.detach().clone().requires_grad_(t.is_floating_point()) for t in tensors]
    outputs = function(*leaves, *settings)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    cotangents = [y.detach().sin().requires_grad_() for y in outputs]
    gradients = torch.autograd.grad(outputs, [leaves[k] for k in chosen], cotangents, create_graph=True)
    given = [g.detach().cos() for g in gradients]
    read = [t for t in (*leaves, *cotangents) if t.requires_grad]
    pulled = torch.autograd.grad(gradients, read, given, allow_unused=True)
    return [*(g.detach() for g in gradients), *(torch.zeros(()) if p is None else p for p in pulled)]


_CHECKED = interpreter.InterpreterOptions(debug=True, sanitize_overflow=False)


def strayed(path: Path, tensors: list[Tensor]) -> tuple[str, list[Tensor]]:
    """What a pass says of places that are none, and the outputs and gradients where nobody asks."""
    module = module_of(path)
    kernels = vars(module)["_kernels"]
    kernels.forget()
    kernels.library(torch.float32)  # loading says what Triton may refuse
    said, refused = "", kernels.refused
    kernels.refused = ()
    try:
        results(getattr(module, path.stem), tensors)
    except TritonError as error:
        said = str(error)
    try:
        interpreter.interpreter_builder.options = interpreter.InterpreterOptions(sanitize_overflow=False)
        return said, results(getattr(module, path.stem), tensors)
    finally:
        kernels.refused = refused
        interpreter.interpreter_builder.options = _CHECKED


@contextmanager
def tiles(library: Any, sizes: dict[str, int]) -> Iterator[None]:
    """What a generated file launches its kernels with, with other sizes of tiles."""
    shared = sys.modules[library.Plan.__module__]
    usual = {name: getattr(shared, name) for name in sizes}
    vars(shared).update(sizes)
    try:
        yield
    finally:
        vars(shared).update(usual)


def results(function: Any, tensors: list[Tensor], settings: Any = (), wanted: Any = None) -> list[Tensor]:
    """The outputs of a function, and gradients of what is `wanted`."""
    leaves = [
        t.detach().requires_grad_(t.is_floating_point() and (wanted is None or k in wanted))
        for k, t in enumerate(tensors)
    ]
    outputs = function(*leaves, *settings)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    generator = torch.Generator().manual_seed(1)
    smooth = [y for y in outputs if y.requires_grad]
    cotangents = [torch.randn(y.shape, generator=generator).to(y) for y in smooth]
    leaves = [t for t in leaves if t.requires_grad]
    gradients = torch.autograd.grad(smooth, leaves, cotangents, allow_unused=True) if smooth else ()
    return [t.detach() for t in (*outputs, *gradients) if t is not None]


class Counting(TorchDispatchMode):
    """Sees operations, so that nothing may hide from it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def served(path: Path) -> list[str]:
    """The calls of a gate that passes serve, of many that only eager operations should."""
    module = module_of(path)
    gate, kernels = vars(module)[path.stem], vars(module)["_kernels"]
    x, beta = torch.randn(5), torch.tensor(0.5)
    own = torch.randn(5).as_subclass(type("Own", (Tensor,), {}))
    calls: dict[str, Callable[[], Any]] = {
        "plain": lambda: gate(x, beta),
        "func.grad": lambda: torch.func.grad(lambda t: gate(t, beta).sum())(x),
        "vmap": lambda: torch.vmap(gate, (0, None))(x, beta),
        "meta": lambda: gate(x.to("meta"), beta.to("meta")),
        "mixed dtypes": lambda: gate(x, beta.double().reshape(1)),
        "integers": lambda: gate(x.long(), beta),
        "no elements": lambda: gate(torch.randn(0, 3), beta),
        "subclass": lambda: gate(own, beta),
    }
    found = []
    for name, call in calls.items():
        kernels.forget()
        call()
        found += [name] if any(kernels.walks.values()) else []
        kernels.forget()
        with Counting():
            call()
        found += [f"{name} under a mode"] if any(kernels.walks.values()) else []
    return found


def values(path: Path, name: str, tensors: list[Tensor]) -> Tensor:
    """What a kernel of one block gives."""
    from fused import imported

    result = torch.empty_like(tensors[0])
    getattr(imported(path), name)[(1,)](*tensors, result, BLOCK=result.numel())
    return result
