"""What C++ would run, by an interpreter: the passes of a module over memory, from what the compiler knows of them.

Everything before the text of the C++ takes part: what the module says of its passes, how Python walks over the memory,
and what each pass computes for an element. Compiling takes a thousand times as long.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from symgrad.accuracy.evaluate import leaf_value
from symgrad.accuracy.machine import machine
from symgrad.accuracy.widening import NARROW, WIDEN
from symgrad.ir.expr import COMPARISONS, Expr
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.targets.fused.model import Kernel
from symgrad.targets.fused.terms import PLACE, REDUCTIONS
from symgrad.targets.torch.runtime import _runtime, _special

__all__ = ["Interpreted", "interpret"]

_SCOPE = {"torch": torch, "math": math, "F": functional, "rt": _runtime, "_special": _special}
_ROWS = {"row_sum": torch.sum, "row_max": torch.amax, "row_min": torch.amin}
_OPERATORS: dict[str, Any] = {
    **{op: getattr(torch, op) for op in COMPARISONS},
    "add": lambda *a: sum(a[1:], a[0]),
    "sub": torch.sub,
    "mul": lambda *a: math.prod(a[1:], start=a[0]),
    "div": torch.div,
    "neg": torch.neg,
    "pow": torch.pow,
    "where": torch.where,
    "and": lambda *a: torch.stack(torch.broadcast_tensors(*a)).all(0),
    "or": lambda *a: torch.stack(torch.broadcast_tensors(*a)).any(0),
    "not": torch.logical_not,
    WIDEN: lambda t: t.double(),
    "row_value": lambda t: t,
    "row_reciprocal": torch.reciprocal,
    "reciprocal": torch.reciprocal,
    "heaviside": lambda x, v: torch.heaviside(x, v.to(x.dtype).expand(x.shape)),
}


def interpret(kernels: Sequence[Kernel], library: Any, dtype: torch.dtype) -> None:
    """Let the library of a module run its passes for a dtype by the interpreter."""
    own = Interpreted({kernel.name: _Pass(kernel, dtype) for kernel in kernels})
    for part in range(library.parts):
        for narrow in (False, True):
            library.libraries[dtype, part, narrow] = own


class Interpreted:
    """What looks like a compiled library."""

    def __init__(self, passes: dict[str, _Pass]) -> None:
        self.__dict__.update(passes)
        self._name = "the interpreter"


class _Pass:
    """One pass, called as its C++ is."""

    def __init__(self, kernel: Kernel, dtype: torch.dtype) -> None:
        self.kernel = kernel
        self.storage = dtype
        self.compute = dtype if dtype == torch.float64 else torch.float32
        self.argtypes: Any = None
        self.restype: Any = None

    def __call__(self, packed: bytes) -> bool:
        kernel = self.kernel
        operands = (*kernel.operands, *kernel.known, *kernel.whole)
        addresses = len(operands) + len(kernel.results) + len(kernel.keeps)
        address, _, _, *arguments = struct.unpack(f"{3 + addresses}q{len(kernel.numbers)}d", packed)
        read = [arguments.pop(0) for _ in operands]
        written = [arguments.pop(0) for _ in (*kernel.results, *kernel.keeps)]
        numbers = dict(zip(kernel.numbers, arguments[: len(kernel.numbers)], strict=True))
        geometry = _Numbers(address)
        rank, inner = geometry.next(), geometry.next()
        sizes = [*(geometry.next() for _ in range(rank)), inner]
        values: dict[Expr, Tensor] = {
            s: torch.tensor(n, dtype=torch.bool if s.is_boolean else torch.float64) for s, n in numbers.items()
        }
        work = torch.float64 if kernel.wide else self.compute
        values[PLACE] = torch.arange(inner).to(work).expand(sizes)
        kinds = (self.storage, kernel.operands), (self.compute, kernel.known), (torch.int64, kernel.whole)
        stores = [dtype for dtype, own in kinds for _ in own]
        for k, (operand, stored) in enumerate(zip(operands, stores, strict=True)):
            steps = geometry.steps(rank)
            own = _memory(read[k], stored, sizes, steps).to(work)
            values[operand.leaf] = own != 0 if operand.leaf.is_boolean else own
        roots = machine([r.value for r in kernel.results])
        strayed = False
        for node in topological(*roots, *kernel.keeps, leaves=frozenset(values)):
            if node.op == "row_place":
                named = values[node.args[0]].expand(sizes)
                strayed |= bool(((named < 0) | (named >= inner)).any())
                values[node] = named.clamp(0, inner - 1)
            elif node not in values:
                values[node] = _value(node, values, work)
        for k, target in enumerate(written):
            summed = geometry.next()
            steps = geometry.steps(rank)
            if not target:
                continue
            if k >= len(kernel.results):
                once = values[kernel.keeps[k - len(kernel.results)]].expand(sizes)[..., :1]
                _memory(target, self.compute, [*sizes[:-1], 1], steps).copy_(once)
                continue
            result = kernel.results[k]
            value = values[roots[k]].to(work).expand(sizes)
            if result.row:
                value = value[..., :1]
            if not summed:
                _memory(target, self.storage, list(value.shape), steps).copy_(value)
                continue
            total = torch.zeros(summed, dtype=torch.float64)
            places = sum(
                (torch.arange(n) * s).reshape(-1, *[1] * (len(steps) - 1 - d))
                for d, (n, s) in enumerate(zip(value.shape, steps, strict=True))
            )
            total.index_add_(0, places.expand(value.shape).flatten(), value.double().flatten())
            if result.total == "mean":
                total /= math.prod(sizes)
            stored = self.storage if result.leaf is None else self.compute
            _memory(target, stored, [summed], [1]).copy_(total.to(work))
        return strayed


class _Numbers:
    def __init__(self, address: int) -> None:
        self.at = ctypes.cast(address, ctypes.POINTER(ctypes.c_int64))
        self.place = 0

    def next(self) -> int:
        self.place += 1
        return int(self.at[self.place - 1])

    def steps(self, rank: int) -> list[int]:
        inner = self.next()
        return [*(self.next() for _ in range(rank)), inner]


def _memory(address: int, dtype: torch.dtype, sizes: Sequence[int], steps: Sequence[int]) -> Tensor:
    """A tensor over what lies at an address."""
    count = 1 + sum((n - 1) * s for n, s in zip(sizes, steps, strict=True))
    raw = (ctypes.c_byte * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(raw, dtype=dtype).as_strided(tuple(sizes), tuple(steps))


def _value(node: Expr, values: dict[Expr, Tensor], work: torch.dtype) -> Tensor:
    """A node's value, of doubles where it is of numbers or widened, else of the arithmetic's type."""
    if not node.args:
        constant = leaf_value(node)
        own = torch.bool if isinstance(constant, bool) else torch.float64
        return torch.tensor(constant if isinstance(constant, bool) else float(constant), dtype=own)
    arguments = [values[a] for a in node.args]
    if node.op == "row_at":
        own, place = torch.broadcast_tensors(*arguments)
        return own.gather(-1, place.long())
    if node.op == "row_first":
        return arguments[0]  # the same for all of a row
    if node.op in REDUCTIONS:
        return _ROWS[node.op](arguments[0], dim=-1, keepdim=True).expand(arguments[0].shape)
    if node.op == "where" and arguments[0].dim() and not any(a.dim() for a in arguments[1:]):
        return torch.where(*arguments).to(work)
    if node.op in _OPERATORS:
        return _OPERATORS[node.op](*arguments)
    row = FUNCTIONS[NARROW.get(node.op, node.op)]
    names = [f"_{k}" for k, _ in enumerate(arguments)]
    given: list[Any] = [int(a) for a in arguments[: row.orders]] + arguments[row.orders :]
    value = eval(row.torch.format(*names), _SCOPE | dict(zip(names, given, strict=True)))
    return value.to(work) if node.op in NARROW else value
