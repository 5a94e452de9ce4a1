"""What the generated JAX modules of this folder share.

Shapes, dtypes, rounding, and operations with PyTorch's conventions where JAX has others.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero

from ._runtime_arrays import (
    check_shapes,
    chunk,
    count,
    cut,
    flatten,
    hyperparameter,
    mixed_bits,
    part,
    quotient,
    several,
    sum_to,
    tuple_of,
    unflatten,
)

# What modules read of it by way of this file.
__all__ = [
    "check_shapes",
    "chunk",
    "count",
    "cut",
    "flatten",
    "hyperparameter",
    "part",
    "quotient",
    "sum_to",
    "unflatten",
]

Array: TypeAlias = jax.Array
Arrays: TypeAlias = "tuple[Any, ...]"
Tangents: TypeAlias = "tuple[list[Array], ...]"
"""For each output, the terms of its tangent."""
Gradients: TypeAlias = "tuple[Array | None, ...]"
"""For each argument, its gradient; None for zero."""
Result = TypeVar("Result")
Recompute: TypeAlias = 'Literal["all", "nothing", "widened"]'
_named: Any = checkpoint_name  # without types of its own
_struct: Any = jax.ShapeDtypeStruct
_RESIDUAL = "symgrad_residual"
Pull = TypeVar("Pull", bound=Callable[..., Gradients])


# ------------------------------------------------------------------------------------------ arguments
def array(op: str, name: str, value: Any, kind: str = "float", *, optional: bool = False) -> Any:
    """Return an argument as an array of its kind: ``float``, ``int`` or ``bool``.

    Numbers stay weakly typed, and whole numbers become floats where the kind is ``float``. Raises
    TypeError for anything else.
    """
    if value is None and optional:
        return None
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError(f"{op}: {name} must be an array, not {value!r}")
    found = jnp.asarray(value)
    if kind == "float" and jnp.issubdtype(found.dtype, jnp.complexfloating):
        raise TypeError(f"{op}: {name} must be real, not of {found.dtype}")
    if kind == "int" and not jnp.issubdtype(found.dtype, jnp.integer):
        raise TypeError(f"{op}: {name} must be an array of integers, not of {found.dtype}")
    if kind == "bool" and found.dtype != jnp.bool_:
        raise TypeError(f"{op}: {name} must be an array of bool, not of {found.dtype}")
    if kind == "float" and not jnp.issubdtype(found.dtype, jnp.floating):
        found = found.astype(float)
    return found


def arrays(op: str, /, **values: Any) -> tuple[Any, ...]:
    """Return arguments as arrays of floats, numbers beside arrays in the dtype of all. Raises TypeError otherwise."""
    found = tuple(array(op, name, value) for name, value in values.items())
    if all(a.weak_type for a in found):
        return found
    dtype = jnp.result_type(*found)
    return tuple(a.astype(dtype) if a.weak_type else a for a in found)


# ------------------------------------------------------------------------------------------ dtypes
def dtype_of(*arrays: Any) -> Any:
    """Return the dtype that arrays promote to; None stands for an absent one."""
    found = jnp.result_type(*(a for a in arrays if a is not None))
    return found if jnp.issubdtype(found, jnp.floating) else jnp.result_type(float)


def bounded(x: Array) -> Array:
    """Return an exponent of what divides, finite: else its derivative would be 0 * inf."""
    largest = float(jnp.finfo(x.dtype).max)  # type: ignore[no-untyped-call]
    most = math.log(largest) - 0.01
    return jnp.clip(x, -most, most)


def bounded_below(x: Array) -> Array:
    """Return an argument of erfcx, which grows as exp(x**2) below 0, where that divides; as `bounded` does."""
    largest = float(jnp.finfo(x.dtype).max)  # type: ignore[no-untyped-call]
    return jnp.maximum(x, -math.sqrt(math.log(largest) - 5))  # its slope is finite there, too


def widen(*arrays: Any) -> tuple[Any, ...]:
    """Return the arrays in what they promote to, float32 at least, and the dtype to round to."""
    dtype = dtype_of(*arrays)
    wide = jnp.promote_types(dtype, jnp.float32)
    return (*(None if a is None else a.astype(wide) for a in arrays), dtype)


def widest(*arrays: Any) -> tuple[Any, ...]:
    """Return the arrays in float64, where JAX has it (``jax_enable_x64``), and the dtype to round to."""
    dtype = dtype_of(*arrays)
    wide = jax.dtypes.canonicalize_dtype(jnp.float64)
    return (*(None if a is None else a.astype(wide) for a in arrays), dtype)


def alike(*arrays: Any) -> tuple[Any, ...]:
    """Return the arrays in the dtype that they promote to, and that dtype."""
    dtype = dtype_of(*arrays)
    return (*(None if a is None else a.astype(dtype) for a in arrays), dtype)


# ------------------------------------------------------------------------------------------ derivatives
class Operation(Generic[Result]):
    """A function with a rule of its own, compiled; arrays come first, hyperparameters last, and are static.

    Forward and reverse mode come from one rule by ``tangents``, and reverse mode alone from one by
    ``gradients``. ``recompute`` says what reverse mode computes again: all that the rule does not mark,
    nothing, or only what was ``widened`` or broadcast, which costs no pass over memory.
    """

    def __init__(self, value: Callable[..., Result], hyperparameters: int, recompute: Recompute) -> None:
        self._value, self._recompute = value, recompute
        self._arrays = len(inspect.signature(value).parameters) - hyperparameters
        self._static = tuple(range(self._arrays, self._arrays + hyperparameters))
        self._ruled: Any = value
        self._compiled: Any = value

    def __call__(self, *arguments: Any) -> Result:
        result: Result = self._compiled(*arguments)
        return result

    def tangents(self, rule: Callable[..., Tangents]) -> Callable[..., Tangents]:
        """Take ``rule(primals, outputs, tangents, *hyperparameters)``, the terms of each output's tangent.

        A tangent that is zero is None. Reverse mode is the transposed, and keeps what the rule reads
        of primals and outputs, and what it marks with ``keep``.
        """
        self._ruled = jax.custom_jvp(self._value, nondiff_argnums=self._static)
        again = self._checkpointed(rule)

        def jvp(*arguments: Any) -> tuple[Any, Any]:
            *values, primals, pushed = arguments
            outputs = self._ruled(*primals, *values)  # itself: the rule holds in nested derivatives, too
            given = tuple(None if isinstance(t, SymbolicZero) else t for t in pushed)
            if all(t is None for t in given):
                return outputs, _totals(outputs, None)
            return outputs, _totals(outputs, again(primals, tuple_of(outputs), given, *values))

        self._ruled.defjvp(jvp, symbolic_zeros=True)
        self._compiled = jax.jit(self._ruled, static_argnums=self._static)
        return rule

    def _checkpointed(self, rule: Callable[..., Tangents]) -> Callable[..., Tangents]:
        if self._recompute == "nothing":
            return rule
        apart = self._recompute == "all"  # behind a barrier, or XLA would keep it after all
        policy = jax.checkpoint_policies.save_only_these_names(_RESIDUAL)
        static = tuple(range(3, 3 + len(self._static)))
        made: Callable[..., Tangents] = jax.checkpoint(rule, prevent_cse=apart, policy=policy, static_argnums=static)
        return made

    def gradients(self, *, primals: Sequence[int], outputs: Sequence[int]) -> Callable[[Pull], Pull]:
        """Take ``rule(primals, outputs, cotangents, *hyperparameters)``, the gradient of each array.

        Reverse mode keeps the primals and outputs at these places; of the other primals the rule has the
        shape and the dtype, of the other outputs nothing.
        """

        def take(rule: Pull) -> Pull:
            self._ruled = jax.custom_vjp(self._value, nondiff_argnums=self._static)

            def forward(*arguments: Any) -> tuple[Any, Any]:
                result = self._ruled(*arguments)
                own, found = arguments[: self._arrays], tuple_of(result)
                residuals = [a if k in primals else None for k, a in enumerate(own)]
                return result, (
                    tuple(residuals),
                    tuple(y if k in outputs else None for k, y in enumerate(found)),
                    tuple(None if a is None else Like(a) for a in own),
                )

            def backward(*arguments: Any) -> tuple[Any, ...]:
                *values, (own, found, likes), cotangents = arguments
                shown = tuple(like if a is None else a for a, like in zip(own, likes, strict=True))
                gradients = rule(shown, found, tuple_of(cotangents), *values)
                return tuple(
                    None if like is None or g is None else like(g) for like, g in zip(likes, gradients, strict=True)
                )

            self._ruled.defvjp(forward, backward)
            self._compiled = jax.jit(self._ruled, static_argnums=self._static)
            return rule

        return take


def operation(
    *, hyperparameters: int = 0, recompute: Recompute = "all"
) -> Callable[[Callable[..., Result]], Operation[Result]]:
    """Make a function an ``Operation``, whose rule is still to come; its last arguments are hyperparameters."""
    return lambda value: Operation(value, hyperparameters, recompute)


def keep(value: Array, dtype: Any = None) -> Array:
    """Mark a value that reverse mode keeps, beside the inputs and outputs that the rule reads.

    A dtype is what it is kept in, if that is another.
    """
    kept: Array = _named(value.astype(dtype or value.dtype), _RESIDUAL).astype(value.dtype)
    return kept


def _totals(outputs: Any, terms: Tangents | None) -> Any:
    """The tangents of outputs as sums of terms, with the outputs' shapes and dtypes."""
    own = tuple_of(outputs)
    found = tuple(map(_total, own, terms or [[]] * len(own)))
    return found if isinstance(outputs, tuple) else found[0]


def _total(output: Array, terms: Sequence[Array]) -> Any:
    if not jnp.issubdtype(output.dtype, jnp.floating):
        return SymbolicZero(jax.typeof(output).to_tangent_aval())
    if not terms:
        return _placed(jnp.zeros_like(output), _axes(output))
    found = functools.reduce(jnp.add, terms)
    return _placed(jnp.broadcast_to(found, output.shape).astype(output.dtype), _axes(output))


def _axes(value: Any) -> frozenset[str]:
    """Return the axes of a mesh along which a value differs from device to device, inside ``shard_map``."""
    of: Any = jax.typeof(value)
    kind = getattr(of, "manual_axis_type", None)  # JAX 0.10; before it said so itself
    found: frozenset[str] = getattr(of, "vma", frozenset()) if kind is None else kind.varying
    return found


def _placed(value: Any, axes: frozenset[str]) -> Any:
    """Let a value differ along the axes of what it is a tangent or gradient of."""
    missing = axes - _axes(value)
    return jax.lax.pcast(value, tuple(missing), to="varying") if missing else value


@jax.tree_util.register_static
class Like:
    """The shape and dtype of an argument, for its gradient; no data."""

    def __init__(self, value: Array) -> None:
        self.shape, self.size, self.dtype, self.axes = value.shape, value.size, value.dtype, _axes(value)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.axes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Like) and vars(self) == vars(other)

    def __call__(self, gradient: Any) -> Array:
        """Sum what was broadcast, then round."""
        found: Array = _placed(conform(jnp.asarray(gradient), self.shape).astype(self.dtype), self.axes)
        return found


# ------------------------------------------------------------------------------------------ shapes
def shape_of(*arrays: Any) -> tuple[int, ...]:
    """Return the shape that arrays and numbers broadcast to."""
    return jnp.broadcast_shapes(*(jnp.shape(a) for a in arrays if a is not None))


def conform(value: Array, shape: Sequence[int]) -> Array:
    """Sum ``value`` where ``shape`` has size 1 or no dimension, expand where it has so itself."""
    value = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    own = value.shape[value.ndim - len(shape) :]
    return jnp.broadcast_to(sum_to(value, [1 if n == 1 else k for k, n in zip(own, shape, strict=True)]), shape)


def restore(value: Array, axis: Any, shape: Sequence[int]) -> Array:
    """Give a reduced ``value`` the dimensions ``axis`` again, of size 1, if they are gone."""
    if value.ndim == len(shape):
        return value
    axes = axis if isinstance(axis, tuple) else (axis,)
    return jnp.expand_dims(value, tuple(a % len(shape) for a in axes))


def drop(value: Array, axis: Any, keepdims: bool) -> Array:
    """Remove the dimensions ``axis``, of size 1, unless they are kept."""
    return value if keepdims else jnp.squeeze(value, axis)


def diag_embed(value: Array, dim1: int, dim2: int) -> Array:
    """Put the last dimension on the diagonal of two new ones."""
    size = value.shape[-1]
    square = jnp.where(jnp.eye(size, dtype=bool), value[..., None], 0)
    return jnp.moveaxis(square, (-2, -1), (dim1, dim2))


def cut_back(
    value: Array, shape: Sequence[int], axis: int, start: int = 0, stop: int | None = None, step: int = 1
) -> Array:
    """Return zeros of ``shape`` with ``value`` in a slice along ``axis``."""
    place = (*[slice(None)] * (axis % len(shape)), slice(start, stop, step))
    return jnp.zeros(shape, value.dtype).at[place].set(value)


def chunk_back(value: Array, shape: Sequence[int], axis: int, chunks: int, index: int) -> Array:
    """Return zeros of ``shape`` with ``value`` as one of the equal parts along ``axis``."""
    size = shape[axis] // chunks
    return cut_back(value, shape, axis, index * size, (index + 1) * size)


def pad(x: Array, edges: Sequence[int]) -> Array:
    """Put zeros around ``x``: two numbers for each dimension, from the last one on; negative ones cut off."""
    pairs = [(0, 0, 0)] * x.ndim
    for k in range(len(edges) // 2):
        pairs[-1 - k] = (edges[2 * k], edges[2 * k + 1], 0)
    return jax.lax.pad(x, jnp.zeros((), x.dtype), pairs)


# ------------------------------------------------------------------------------------------ functions
def magnitude(x: Array) -> Array:
    """Return ``abs(x)`` with the derivative 0 at 0, as PyTorch has it; JAX's is 1."""
    return x * jnp.sign(x)


def clamp(x: Array, low: Any, high: Any) -> Array:
    """Return ``x`` between bounds, with the derivative 1 at them; JAX's is 1/2."""
    if low is not None:
        x = jnp.where(x < low, low, x)
    return x if high is None else jnp.where(x > high, high, x)


def power(x: Array, exponent: float) -> Array:
    """Return a power of ``x``, which is not read where the exponent is 0."""
    return jnp.ones_like(x) if exponent == 0 else x**exponent


def finite(x: Array) -> Array:
    """Return ``x`` with 1e30 in place of an infinity: a limit is reached there."""
    return jnp.nan_to_num(x, nan=jnp.nan, posinf=1e30, neginf=-1e30)


def random_bits(shape: Sequence[int], seed: Any) -> Array:
    """Return 23 random bits for each place of an array, the same for a seed wherever they are drawn."""
    if isinstance(seed, int):
        number = jnp.uint32(seed >> 32 & 0xFFFFFFFF), jnp.uint32(seed & 0xFFFFFFFF)
    else:
        number = (seed >> 31 >> 1).astype(jnp.uint32), seed.astype(jnp.uint32)
    places = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape) + 1
    return mixed_bits(places, number).astype(jnp.int32)


# ------------------------------------------------------------------------------------------ reductions
def var(x: Array, axis: Any = None, correction: int = 1, keepdims: bool = False) -> Array:
    """Return the variance, of a sample unless ``correction`` is 0."""
    return jnp.var(x, axis=axis, ddof=correction, keepdims=keepdims)


def norm(x: Array, p: float = 2, axis: Any = None, keepdims: bool = False) -> Array:
    """Return the vector norm of order ``p``, which does not overflow; its derivative at 0 is 0."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(x), axis=axis, keepdims=True, initial=0))
    scale = jnp.where((largest > 0) & (largest < jnp.inf), largest, 1)
    powers = magnitude(x / scale) ** p if p != 2 else jnp.square(x / scale)
    sums = jnp.sum(powers, axis=axis, keepdims=True)
    some = sums > 0
    root = jnp.where(some, jnp.where(some, sums, 1) ** (1 / p), jnp.where(jnp.isnan(sums), sums, 0))
    found = root * scale
    return found if keepdims else jnp.squeeze(found, axis)


def extremum(argument: Callable[..., Array], x: Array, axis: int, keepdims: bool = False) -> Array:
    """Return the extremum along ``axis``, whose derivative goes to one element."""
    found = jnp.take_along_axis(x, argument(x, axis=axis, keepdims=True), axis=axis)
    return found if keepdims else jnp.squeeze(found, axis)


def sort(x: Array, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Return the elements along ``axis`` in order.

    They are taken from where they are, so that XLA sorts once for them and for their derivative; of two
    sorts for values and for places it makes different ones.
    """
    if not x.ndim:
        return x
    return jnp.take_along_axis(x, jnp.argsort(x, axis=axis, descending=descending, stable=stable), axis=axis)


def middle(x: Array, axis: int, keepdims: bool = False) -> Array:
    """Return where the median is: of two the lower one, and NaN where there is one."""
    place = jnp.take(jnp.argsort(x, axis=axis), jnp.array([(x.shape[axis] - 1) // 2]), axis=axis)
    missing = jnp.isnan(x)
    spoilt = jnp.any(missing, axis=axis, keepdims=True)
    place = jnp.where(spoilt, jnp.argmax(missing, axis=axis, keepdims=True), place)
    return place if keepdims else jnp.squeeze(place, axis)


def running(accumulate: Callable[..., Array], x: Array, axis: int) -> tuple[Array, Array]:
    """Return the extremum of each element and all before it, and where it is: the last place of several."""
    if not x.ndim:
        return x, jnp.zeros((), int)
    place = axis % x.ndim
    extreme = accumulate(jax.lax.stop_gradient(x), axis=place)
    index = jax.lax.broadcasted_iota(int, x.shape, place)
    where = jax.lax.cummax(jnp.where((x == extreme) | jnp.isnan(x), index, 0), axis=place)
    return jnp.take_along_axis(x, where, axis=place), where


def topk(x: Array, k: int, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    """Return the ``k`` largest or smallest elements along ``axis``, in order, and where they are."""
    moved = jax.lax.stop_gradient(jnp.moveaxis(x, axis, -1))
    places = jnp.moveaxis(jax.lax.top_k(moved if largest else -moved, k)[1], -1, axis)
    return jnp.take_along_axis(x, places, axis=axis), places


def cumsum_back(x: Array, axis: int) -> Array:
    """Sum each element and all that follow it."""
    return jnp.flip(jnp.cumsum(jnp.flip(x, axis), axis=axis), axis)


def logcumsumexp(x: Array, axis: int) -> Array:
    """Return the logarithm of the sum of exponentials of each element and all before it.

    JAX's own takes a window of all elements, many times as slow on a CPU.
    """
    found: Array = jax.lax.associative_scan(jnp.logaddexp, x, axis=axis)
    return found


def shift(x: Array, axis: int, step: int, fill: float = 0) -> Array:
    """Move each element ``step`` places on along ``axis``, back where that is negative; ``fill`` comes from outside."""
    edges = [(0, 0, 0)] * x.ndim
    edges[axis] = (step, -step, 0)
    return jax.lax.pad(x, jnp.full((), fill, x.dtype), edges)


def _along(a: Array, b: Array, axis: int, *, reverse: bool) -> Array:
    """Each element of ``b`` added to ``a`` times the result before it."""
    shape, own = jnp.broadcast_shapes(a.shape, b.shape), axis % b.ndim
    both = jnp.broadcast_to(a, shape), jnp.broadcast_to(b, shape)
    join = lambda one, two: (one[0] * two[0], two[0] * one[1] + two[1])  # noqa: E731
    found: Array = jax.lax.associative_scan(join, both, reverse=reverse, axis=own)[1]
    return found


def scan(a: Array, b: Array, axis: int) -> Array:
    """Return ``s[k] = a[k] * s[k - 1] + b[k]`` along ``axis``."""
    return _along(a, b, axis, reverse=False)


def scan_back(a: Array, b: Array, axis: int) -> Array:
    """Return ``r[k] = b[k] + a[k + 1] * r[k + 1]`` along ``axis``: the transposed of ``scan``."""
    return _along(shift(a, axis, -1), b, axis, reverse=True)


def put_along(value: Array, index: Array, shape: Sequence[int], axis: int) -> Array:
    """Return zeros of ``shape`` with ``value`` at ``index`` along ``axis``; no place twice."""
    zeros = jnp.zeros(shape, value.dtype)
    return jnp.put_along_axis(zeros, index, value, axis=axis, inplace=False)


def others(x: Array, axis: int | None = None) -> Array:
    """Return the product of all other elements along ``axis``, also right where one is 0."""
    if axis is None:
        return others(x.reshape(-1), 0).reshape(x.shape)
    moved = jnp.moveaxis(x, axis, -1)
    ones = jnp.ones_like(moved[..., :1])
    before = jnp.cumprod(jnp.concatenate((ones, moved[..., :-1]), -1), -1)
    after = jnp.cumprod(jnp.concatenate((ones, jnp.flip(moved, -1)[..., :-1]), -1), -1)
    return jnp.moveaxis(before * jnp.flip(after, -1), -1, axis)


def others_slope(x: Array, grad: Array, axis: int | None = None) -> Array:
    """Multiply ``grad`` by the (symmetric) derivative of ``others``."""
    if axis is None:
        return others_slope(x.reshape(-1), grad.reshape(-1), 0).reshape(x.shape)
    x, grad = jnp.moveaxis(x, axis, -1), jnp.moveaxis(grad, axis, -1)
    own = jnp.eye(x.shape[-1], dtype=bool)
    pairs = others(jnp.where(own, 1.0, x[..., None, :]), -1)
    return jnp.moveaxis((grad[..., None] * jnp.where(own, 0.0, pairs)).sum(-2), -1, axis)


# ------------------------------------------------------------------------------------------ places
def add_along(value: Array, index: Array, shape: Sequence[int], axis: int) -> Array:
    """Return zeros of ``shape`` to which ``value`` is added at ``index`` along ``axis``."""
    return _transposed(lambda x: jnp.take_along_axis(x, index, axis=axis), shape, value)


def add_slices(value: Array, index: Array, shape: Sequence[int], axis: int) -> Array:
    """Return zeros of ``shape`` to which the slices of ``value`` are added at ``index`` along ``axis``."""
    return _transposed(lambda x: jnp.take(x, index, axis=axis), shape, value)


def segment_sum(x: Array, index: Array, size: int, axis: int) -> Array:
    """Sum the slices of ``x`` along ``axis`` with the same number in ``index``, of ``size`` numbers."""
    return jnp.moveaxis(jax.ops.segment_sum(jnp.moveaxis(x, axis, 0), index, size), 0, axis)


def segment_extremum(extremum: Callable[..., Array], x: Array, index: Array, size: int, axis: int) -> Array:
    """Return the extrema of the slices along ``axis`` with the same number; 0 where there is none."""
    found = extremum(jnp.moveaxis(x, axis, 0), index, size)
    some = jax.ops.segment_sum(jnp.ones(index.shape, int), index, size) > 0
    return jnp.moveaxis(jnp.where(some.reshape((-1,) + (1,) * (found.ndim - 1)), found, 0), 0, axis)


# ------------------------------------------------------------------------------------------ products
def _transposed(function: Callable[[Array], Array], shape: Sequence[int], grad: Array) -> Array:
    """Return the transposed of a linear function, of an array of ``shape``, at ``grad``."""
    like: Any = _struct(tuple(shape), grad.dtype)
    if _axes(grad):
        like = _placed(jnp.zeros(shape, grad.dtype), _axes(grad))
    (found,) = jax.linear_transpose(function, like)(grad)
    transposed: Array = found
    return transposed


def matmul_left(grad: Array, b: Array, shape: Sequence[int]) -> Array:
    """Return the gradient of ``a @ b`` with respect to ``a`` of ``shape``."""
    return _transposed(lambda a: a @ b, shape, grad)


def matmul_right(a: Array, grad: Array, shape: Sequence[int]) -> Array:
    """Return the gradient of ``a @ b`` with respect to ``b`` of ``shape``."""
    return _transposed(lambda b: a @ b, shape, grad)


def conv(
    dims: int,
    x: Array,
    weight: Array,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    """Return PyTorch's convolution: channels first, with a batch or without."""
    batched = x if x.ndim == dims + 2 else x[None]
    found = jax.lax.conv_general_dilated(
        batched,
        weight,
        window_strides=several(stride, dims),
        padding=[(p, p) for p in several(padding, dims)],
        rhs_dilation=several(dilation, dims),
        feature_group_count=groups,
    )
    if bias is not None:
        found = found + (bias.reshape((-1,) + (1,) * dims) if jnp.ndim(bias) else bias)
    return found if x.ndim == dims + 2 else found[0]


def conv_input(dims: int, grad: Array, weight: Array, shape: Sequence[int], **how: Any) -> Array:
    """Return the gradient of a convolution in its input."""
    return _transposed(lambda x: conv(dims, x, weight, **how), shape, grad)


def conv_weight(dims: int, x: Array, grad: Array, shape: Sequence[int], **how: Any) -> Array:
    """Return the gradient of a convolution in its weight."""
    return _transposed(lambda w: conv(dims, x, w, **how), shape, grad)


def conv_transpose(
    dims: int,
    x: Array,
    weight: Array,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Array:
    """Return PyTorch's transposed convolution: the gradient of a convolution in its input."""
    each = [several(n, dims) for n in (stride, padding, output_padding, dilation)]
    sizes = zip(x.shape[-dims:], weight.shape[-dims:], *each, strict=True)
    lengths = [(n - 1) * s - 2 * p + d * (k - 1) + more + 1 for n, k, s, p, more, d in sizes]
    shape = (*x.shape[: -dims - 1], weight.shape[1] * groups, *lengths)
    return conv_input(dims, x, weight, shape, stride=stride, padding=padding, dilation=dilation, groups=groups)


# ------------------------------------------------------------------------------------------ windows
def _windows(dims: int, shape: Sequence[int], kernel: Any, stride: Any, padding: Any) -> tuple[Any, Any, list[int]]:
    """Return the flat places of each window's elements, which of them there are, and the windows' shape."""
    places, inside, sizes = np.zeros((1, 1), int), np.ones((1, 1), bool), []
    each = (several(n, dims) for n in (kernel, kernel if stride is None else stride, padding))
    for size, length, step, edge in zip(shape[-dims:], *each, strict=True):
        sizes.append((size + 2 * edge - length) // step + 1)
        own = np.arange(sizes[-1])[:, None] * step - edge + np.arange(length)
        there = (own >= 0) & (own < size)
        count = (places.shape[0] * own.shape[0], places.shape[1] * own.shape[1])
        places = (places[:, None, :, None] * size + np.clip(own, 0, size - 1)[None, :, None, :]).reshape(count)
        inside = (inside[:, None, :, None] & there[None, :, None, :]).reshape(count)
    return places, inside, sizes


def avg_pool(dims: int, x: Array, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Array:
    """Return PyTorch's mean of each window, in which the border counts."""
    places, inside, sizes = _windows(dims, x.shape, kernel_size, stride, padding)
    flat = x.reshape((*x.shape[:-dims], -1))
    found = jnp.where(inside, flat[..., places], 0).mean(-1)
    return found.reshape((*x.shape[:-dims], *sizes))


def avg_pool_back(dims: int, value: Array, shape: Sequence[int], **how: Any) -> Array:
    """Spread each element over its window: the transposed of the means."""
    return _transposed(lambda x: avg_pool(dims, x, **how), shape, value)


def max_pool(dims: int, x: Array, kernel_size: Any, stride: Any = None, padding: Any = 0) -> tuple[Array, Array]:
    """Return the largest element of each window, and where it is in the last dimensions as one."""
    places, inside, sizes = _windows(dims, x.shape, kernel_size, stride, padding)
    flat = x.reshape((*x.shape[:-dims], -1))
    largest = jnp.argmax(jnp.where(inside, flat[..., places], -jnp.inf), axis=-1)
    index = jnp.asarray(places)[jnp.arange(len(places)), largest]
    found = jnp.take_along_axis(flat, index, axis=-1)
    return found.reshape((*x.shape[:-dims], *sizes)), index.reshape((*x.shape[:-dims], *sizes))


# ------------------------------------------------------------------------------------------ matrices
def logdet(a: Array) -> Array:
    """Return the logarithm of the determinant, NaN where that is negative."""
    sign, logarithm = jnp.linalg.slogdet(a)
    return jnp.where(sign < 0, jnp.nan, logarithm)
