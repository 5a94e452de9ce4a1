"""What the generated JAX and MLX modules of this folder share: checks of arguments, and shapes.

Nothing here names a framework: arrays are asked for their shape, and for their own methods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

__all__ = [
    "check_shapes",
    "chunk",
    "count",
    "cut",
    "flatten",
    "hyperparameter",
    "mixed_bits",
    "part",
    "quotient",
    "several",
    "sum_to",
    "tuple_of",
    "unflatten",
]

T = TypeVar("T")  # of arrays
Halves: TypeAlias = "tuple[Any, Any]"
"""The high and the low half of integers of 64 bits, as arrays of uint32."""


# ------------------------------------------------------------------------------------------ arguments
_TYPES: dict[str, tuple[type, ...]] = {"float": (float, int), "int": (int,), "bool": (bool,), "str": (str,)}


def hyperparameter(op: str, name: str, value: Any, kind: str, choices: Sequence[Any] = ()) -> Any:
    """Return a hyperparameter as a Python value, which what is compiled may depend on.

    Scalars of numpy are taken. Raises TypeError where it has another type, an array above all: its
    gradient would be 0 in silence. Raises ValueError where it is none of the choices.
    """
    is_scalar = type(value).__module__ == "numpy" and not getattr(value, "ndim", 0)
    given = value.item() if is_scalar else value
    if not isinstance(given, _TYPES[kind]) or (isinstance(given, bool) and kind != "bool"):
        what = "an array" if hasattr(value, "shape") else repr(value)
        raise TypeError(f"{op}: {name} must be of type {kind}, not {what}")
    if choices and given not in choices:
        allowed = ", ".join(map(repr, choices))
        raise ValueError(f"{op}: {name} must be one of {allowed}, not {given!r}")
    found: Any = given
    return float(found) if kind == "float" else found


def check_shapes(op: str, /, **tensors: tuple[Any, tuple[Any, ...]]) -> None:
    """Raise ValueError where a shape is not the declared one: a name is one size, ``...`` any."""
    sizes: dict[Any, tuple[int, str]] = {}
    for name, (value, dims) in tensors.items():
        if value is None:
            continue
        shape, fixed = value.shape, dims[1:] if dims[:1] == ("...",) else dims
        if len(shape) < len(fixed) or (len(shape) > len(fixed) and len(fixed) == len(dims)):
            declared = ", ".join(map(str, dims))
            raise ValueError(f"{op}: {name} must have the shape [{declared}], not {list(shape)}")
        for dim, size in zip(fixed, shape[len(shape) - len(fixed) :], strict=True):
            known, where = (dim, "") if isinstance(dim, int) else sizes.setdefault(dim, (size, name))
            if size != known:
                beside = f"the dimension {dim} of {name} is {size}, and {known} in {where}"
                alone = f"a dimension of {name} is {size}, not {known}"
                raise ValueError(f"{op}: {beside if where else alone}")


def tuple_of(value: Any) -> tuple[Any, ...]:
    """Return what is one value or several as a tuple."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def several(value: Any, dims: int) -> tuple[int, ...]:
    """Return a number for each dimension: one for all, or one for each."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims


# ------------------------------------------------------------------------------------------ shapes
def sum_to(array: T, shape: Sequence[int]) -> T:
    """Sum ``array`` to ``shape``: the transposed of broadcasting."""
    value: Any = array
    lead = value.ndim - len(shape)
    own = [k for k, n in enumerate(shape) if n == 1 != value.shape[lead + k]]
    if not lead and not own:
        return array
    found: T = value.sum(axis=(*range(lead), *(lead + k for k in own))).reshape(shape)
    return found


def count(shape: Sequence[int], axis: Any) -> int:
    """Return the number of elements along ``axis``; a scalar has one."""
    return math.prod(shape[a] for a in tuple_of(axis)) if shape else 1


def quotient(over: float, under: float) -> float:
    """Return a quotient by a size, which may be 0, as arrays have it."""
    if under:
        return over / under
    return over * math.inf if over else math.nan


def cut(array: T, axis: int, start: int = 0, stop: int | None = None, step: int = 1) -> T:
    """Return a slice along ``axis``. Raises ValueError for one that is beyond the size, but for steps."""
    x: Any = array
    place, size = axis % x.ndim, x.shape[axis]
    if step == 1 and ((stop or 0) > size or -start > size):
        raise ValueError(f"a dimension of size {size} has no slice {start}:{'' if stop is None else stop}")
    where = (*([slice(None)] * place), slice(start, stop, step))
    found: T = x[where]
    return found


def chunk(array: T, axis: int, chunks: int, index: int) -> T:
    """Return one of the equal parts along ``axis``. Raises ValueError where there are none."""
    x: Any = array
    size = x.shape[axis]
    if size % chunks:
        raise ValueError(f"a dimension of size {size} has no {chunks} equal parts")
    return cut(array, axis, index * (size // chunks), (index + 1) * (size // chunks))


def part(value: T, axis: int, index: int, *shapes: Sequence[int]) -> T:
    """Return the part of ``value`` at an index, where arrays of ``shapes`` were joined along ``axis``."""
    start = sum(shape[axis] for shape in shapes[:index])
    return cut(value, axis, start, start + shapes[index][axis])


def flatten(array: T, start: int, end: int) -> T:
    """Return ``array`` with the dimensions from ``start`` to ``end`` as one."""
    x: Any = array
    first, last = (start % x.ndim, end % x.ndim + 1) if x.ndim else (0, 0)
    found: T = x.reshape((*x.shape[:first], math.prod(x.shape[first:last]), *x.shape[last:]))
    return found


def unflatten(array: T, axis: int, *sizes: int) -> T:
    """Return ``array`` with a dimension divided into several."""
    x: Any = array
    place = axis % x.ndim
    found: T = x.reshape((*x.shape[:place], *sizes, *x.shape[place + 1 :]))
    return found


# ------------------------------------------------------------------------------------------ random numbers
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mixed_bits(places: T, seed: Halves) -> T:
    """Return 23 random bits for each place, counted from 1, of uint32: those of SplitMix64 for a seed.

    They are computed in halves, for not every device has integers of 64 bits.
    """
    high, low = _times((places ^ places, places), _GOLDEN)  # type: ignore[operator]
    start = _mixed(seed)
    total: Any = start[1] + low
    found: T = _mixed((start[0] + high + (total < low), total))[0] >> 9
    return found


def _mixed(bits: Halves) -> Halves:
    """Return the finaliser of SplitMix64: integers that differ in any bit differ in about half of all."""
    return _folded(_times(_folded(_times(_folded(bits, 30), _FIRST), 27), _SECOND), 31)


def _folded(bits: Halves, by: int) -> Halves:
    """Return integers in each of which every bit is joined, by exclusive or, with the one so many places up."""
    high, low = bits
    return high ^ (high >> by), low ^ (low >> by | high << (32 - by))


def _times(bits: Halves, factor: int) -> Halves:
    """Return the products with a number, without what is beyond 64 bits."""
    high, low = bits
    d, c, b, a = (factor >> k & 0xFFFF for k in (48, 32, 16, 0))  # the products of parts of 16 bits fit in 32
    x, y = low >> 16, low & 0xFFFF
    middle = x * a + (y * a >> 16)
    carry = y * b + (middle & 0xFFFF)
    above = x * b + (middle >> 16) + (carry >> 16) + low * c + (low * d << 16) + high * a + (high * b << 16)
    return above, low * a + (low * b << 16)
