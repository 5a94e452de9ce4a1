"""What the generated MLX modules of this folder share.

Functions with rules for vjp, jvp and vmap, shapes, dtypes, rounding, operations with PyTorch's conventions where MLX
has others, and special functions that MLX lacks.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import mlx.core as mx

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

if TYPE_CHECKING:

    class Module(dict[str, Any]):
        """``mlx.nn.Module``, which type checkers do not find in MLX."""

        def __init__(self) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

else:
    from mlx.nn import Module

# What modules read of it by way of this file.
__all__ = [
    "Module",
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

Array: TypeAlias = mx.array
Arrays: TypeAlias = "Sequence[Any]"
Tangents: TypeAlias = "tuple[list[Array], ...]"
"""For each output, the terms of its tangent."""
Gradients: TypeAlias = "tuple[Array | None, ...]"
"""For each argument, its gradient; None for zero."""
Result = TypeVar("Result")
Rule = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Any]


# ------------------------------------------------------------------------------------------ arguments
def array(op: str, name: str, value: Any, kind: str = "float", *, optional: bool = False) -> Any:
    """Return an argument as an array of its kind: ``float``, ``int`` or ``bool``.

    Raises TypeError for anything else.
    """
    if value is None and optional:
        return None
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError(f"{op}: {name} must be an array, not {value!r}")
    found = value if isinstance(value, mx.array) else mx.array(value)
    if kind == "float" and mx.issubdtype(found.dtype, mx.complexfloating):
        raise TypeError(f"{op}: {name} must be real, not of {found.dtype}")
    if kind == "int" and not mx.issubdtype(found.dtype, mx.integer):
        raise TypeError(f"{op}: {name} must be an array of integers, not of {found.dtype}")
    if kind == "bool" and found.dtype != mx.bool_:
        raise TypeError(f"{op}: {name} must be an array of bool, not of {found.dtype}")
    if kind == "float" and not mx.issubdtype(found.dtype, mx.floating):
        found = found.astype(mx.float32)
    return found


def arrays(op: str, /, **values: Any) -> tuple[Any, ...]:
    """Return arguments as arrays of floats. Raises TypeError for anything else."""
    return tuple(array(op, name, value) for name, value in values.items())


# ------------------------------------------------------------------------------------------ dtypes
def dtype_of(*arrays: Any) -> Any:
    """Return the dtype that arrays promote to; None stands for an absent one."""
    found = functools.reduce(_promoted, (a.dtype for a in arrays if a is not None))
    return found if mx.issubdtype(found, mx.floating) else mx.float32


def _promoted(a: Any, b: Any) -> Any:
    return a if a == b else mx.result_type(mx.zeros((), a), mx.zeros((), b))


def widen(*arrays: Any) -> tuple[Any, ...]:
    """Return the arrays in what they promote to, float32 at least, and the dtype to round to."""
    dtype = dtype_of(*arrays)
    wide = mx.float64 if dtype == mx.float64 else mx.float32
    return (*(None if a is None else a.astype(wide) for a in arrays), dtype)


widest = widen  # in float64 MLX's functions have the accuracy of float32


def alike(*arrays: Any) -> tuple[Any, ...]:
    """Return the arrays in the dtype that they promote to, and that dtype."""
    dtype = dtype_of(*arrays)
    return (*(None if a is None else a.astype(dtype) for a in arrays), dtype)


# ------------------------------------------------------------------------------------------ derivatives
class Operation(Generic[Result]):
    """A function with a rule of its own; arrays come first, hyperparameters last.

    Forward and reverse mode come from one rule by ``tangents``, and reverse mode alone from one by
    ``gradients``. MLX closes over hyperparameters: there is one custom function for each of their values.
    """

    def __init__(self, value: Callable[..., Result], hyperparameters: int) -> None:
        self._value, self._name = value, value.__name__.strip("_")
        self._arrays = len(inspect.signature(value).parameters) - hyperparameters
        self._push: Callable[..., Tangents] | None = None
        self._pull: Callable[..., Gradients] | None = None
        self._at = functools.cache(self._closed)

    def __call__(self, *arguments: Any) -> Result:
        result: Result = self._at(*arguments[self._arrays :])(*arguments[: self._arrays])
        return result

    def _closed(self, *values: Any) -> Function:
        """The function of arrays alone."""

        def of(rule: Callable[..., Any] | None) -> Rule | None:
            return None if rule is None else lambda *sequences: rule(*sequences, *values)

        return Function(self._name, lambda *arrays: self._value(*arrays, *values), of(self._push), of(self._pull))

    def tangents(self, rule: Callable[..., Tangents]) -> Callable[..., Tangents]:
        """Take ``rule(primals, outputs, tangents, *hyperparameters)``, the terms of each output's tangent.

        A tangent that is zero is None. Reverse mode is the transposed.
        """
        self._push = rule
        return rule

    def gradients(self, rule: Callable[..., Gradients]) -> Callable[..., Gradients]:
        """Take ``rule(primals, outputs, cotangents, *hyperparameters)``, the gradient of each array."""
        self._pull = rule
        return rule


def operation(*, hyperparameters: int = 0) -> Callable[[Callable[..., Result]], Operation[Result]]:
    """Make a function an ``Operation``, whose rule is still to come; its last arguments are hyperparameters."""
    return lambda value: Operation(value, hyperparameters)


class Function:
    """A function of arrays with rules of its own for vjp, jvp and vmap; absent arrays are None.

    ``value(*arrays)`` returns one array or a tuple. ``push(primals, outputs, tangents)`` returns, for
    each output, the terms of its tangent; a tangent that is zero is None. Reverse mode is the
    transposed of that, unless ``pull(primals, outputs, cotangents)`` returns the gradients: then there
    is no forward mode.
    """

    def __init__(self, name: str, value: Callable[..., Any], push: Rule | None, pull: Rule | None = None) -> None:
        self._name, self._value, self._push, self._pull = name, value, push, pull
        self._made: dict[tuple[bool, ...], Any] = {}

    def __call__(self, *arrays: Any) -> Any:
        there = tuple(a is not None for a in arrays)
        if there not in self._made:
            self._made[there] = _with_rules(*self._of_present(there))
        results = self._made[there](*(a for a in arrays if a is not None))
        return results[0] if len(results) == 1 else tuple(results)

    def _of_present(self, there: tuple[bool, ...]) -> tuple[Callable[..., Any], Any, Any]:
        """The value and its rules as functions of the arrays that are not None."""

        def spread(values: Sequence[Any]) -> tuple[Any, ...]:
            own = iter(values)
            return tuple(next(own) if given else None for given in there)

        def value(*arrays: Any) -> tuple[Array, ...]:
            return tuple_of(self._value(*spread(arrays)))

        def push(primals: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]) -> tuple[Array, ...]:
            if self._push is None:
                raise ValueError(f"{self._name} has no forward mode: its gradient is not linear in the cotangent")
            terms = self._push(spread(primals), outputs, spread(tangents))
            return tuple(map(_total, outputs, terms))

        def pull(primals: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Array, ...]:
            assert self._pull is not None
            gradients = self._pull(spread(primals), outputs, cotangents)
            own = [g for g, given in zip(gradients, there, strict=True) if given]
            return tuple(map(_fit, primals, own))

        return value, push, None if self._pull is None else pull


def _with_rules(value: Callable[..., Any], push: Rule, pull: Rule | None) -> Any:
    """A custom function with all its rules; MLX passes a single argument, cotangent or axis bare."""
    function = mx.custom_function(value)

    @function.vjp
    def vjp(primals: Any, cotangents: Any, outputs: Any) -> Any:
        primals, cotangents, outputs = map(tuple_of, (primals, cotangents, outputs))
        found = (pull or functools.partial(_transposed_rule, push))(primals, outputs, cotangents)
        return found if len(found) > 1 else found[0]

    @function.jvp
    def jvp(primals: Any, tangents: Any) -> Any:
        primals, tangents = tuple_of(primals), tuple_of(tangents)
        return push(primals, tuple_of(function(*primals)), tangents)

    @function.vmap
    def vmap(inputs: Any, axes: Any) -> Any:
        inputs, axes = tuple_of(inputs), tuple_of(axes)
        outputs = tuple_of(_with_rules(*_batched(value, push, pull, axes))(*inputs))
        return list(outputs), [0] * len(outputs)

    return function


def _transposed_rule(
    push: Rule, primals: Sequence[Array], outputs: Sequence[Array], cotangents: Sequence[Array]
) -> tuple[Array, ...]:
    """The gradients, by the transposed of the tangents as a linear function."""
    wanted = [k for k, p in enumerate(primals) if mx.issubdtype(p.dtype, mx.floating)]
    smooth = [k for k, y in enumerate(outputs) if mx.issubdtype(y.dtype, mx.floating)]

    def linear(*tangents: Array) -> list[Array]:
        given = dict(zip(wanted, tangents, strict=True))
        pushed = push(primals, outputs, [given.get(k) for k in range(len(primals))])
        return [pushed[k] for k in smooth]

    zeros = [mx.zeros_like(primals[k]) for k in wanted]
    _, found = mx.vjp(linear, zeros, [cotangents[k] for k in smooth])
    gradients = dict(zip(wanted, found, strict=True))
    return tuple(gradients[k] if k in gradients else mx.zeros_like(p) for k, p in enumerate(primals))


def _batched(
    value: Callable[..., Any], push: Rule, pull: Rule | None, axes: Sequence[int | None]
) -> tuple[Callable[..., Any], Rule, Rule | None]:
    """The value and its rules for arrays with a batch along ``axes``; results have it first."""

    def values(*arrays: Array) -> Any:
        return tuple_of(_mapped(lambda *a: list(value(*a)), axes)(*arrays))

    def rule(of: Rule) -> Rule:
        def mapped(primals: Sequence[Any], outputs: Sequence[Any], others: Sequence[Any]) -> tuple[Array, ...]:
            there = [k for k, t in enumerate(others) if t is not None]
            n, m = len(primals), len(outputs)

            def one(*arrays: Array) -> list[Array]:
                own = dict(zip(there, arrays[n + m :], strict=True))
                given = [own.get(k) for k in range(len(others))]
                return list(of(arrays[:n], arrays[n : n + m], given))

            # Tangents have the axes of their primals, cotangents those of the outputs.
            own_axes = axes if of is push else [0] * m
            whole = [*axes, *[0] * m, *(own_axes[k] for k in there)]
            return tuple_of(_mapped(one, whole)(*primals, *outputs, *(others[k] for k in there)))

        return mapped

    def pulled(primals: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Array, ...]:
        assert pull is not None
        found = rule(pull)(primals, outputs, cotangents)
        return tuple(
            g.sum(axis=0) if axis is None else mx.moveaxis(g, 0, axis) for g, axis in zip(found, axes, strict=True)
        )

    return values, rule(push), None if pull is None else pulled


def _mapped(function: Callable[..., Any], axes: Sequence[int | None]) -> Callable[..., Any]:
    mapped: Callable[..., Any] = mx.vmap(function, in_axes=tuple(axes), out_axes=0)
    return mapped


def _total(output: Array, terms: Sequence[Array]) -> Array:
    if not terms or not mx.issubdtype(output.dtype, mx.floating):
        return mx.zeros_like(output)
    found = functools.reduce(mx.add, terms)
    return mx.broadcast_to(found, output.shape).astype(output.dtype)


def _fit(primal: Array, gradient: Any) -> Array:
    """A gradient with its argument's shape and dtype; one that is missing would be the cotangent."""
    if gradient is None:
        return mx.zeros_like(primal)
    return conform(gradient, primal.shape).astype(primal.dtype)


def _elementary(
    name: str, value: Callable[[Array], Array], slope: Callable[[Array, Array], Array]
) -> Callable[[Array], Array]:
    """A function of one array with its derivative, by argument and value."""
    return Function(name, value, lambda primals, outputs, tangents: [[slope(primals[0], outputs[0]) * tangents[0]]])


# ------------------------------------------------------------------------------------------ shapes
def shape_of(*arrays: Any) -> tuple[int, ...]:
    """Return the shape that arrays and numbers broadcast to."""
    shapes = [tuple(a.shape) for a in arrays if isinstance(a, mx.array)]
    return tuple(mx.broadcast_shapes(*shapes)) if shapes else ()


def conform(value: Array, shape: Sequence[int]) -> Array:
    """Sum ``value`` where ``shape`` has size 1 or no dimension, expand where it has so itself."""
    value = value.reshape((1,) * (len(shape) - value.ndim) + tuple(value.shape))
    own = value.shape[value.ndim - len(shape) :]
    return mx.broadcast_to(sum_to(value, [1 if n == 1 else k for k, n in zip(own, shape, strict=True)]), shape)


def restore(value: Array, axis: Any, shape: Sequence[int]) -> Array:
    """Give a reduced ``value`` the dimensions ``axis`` again, of size 1, if they are gone."""
    if value.ndim == len(shape):
        return value
    axes = axis if isinstance(axis, tuple) else (axis,)
    return mx.expand_dims(value, tuple(a % len(shape) for a in axes))


def drop(value: Array, axis: Any, keepdims: bool) -> Array:
    """Remove the dimensions ``axis``, of size 1, unless they are kept."""
    return value if keepdims else mx.squeeze(value, axis)


def diag_embed(value: Array, dim1: int, dim2: int) -> Array:
    """Put the last dimension on the diagonal of two new ones."""
    own = mx.eye(value.shape[-1]) > 0
    square = mx.where(own, mx.expand_dims(value, -1), 0)
    first, last = sorted((dim1, dim2))
    return mx.moveaxis(mx.moveaxis(square, -1, last), -2 if last == -1 else -1, first)


def diagonal(x: Array, dim1: int, dim2: int) -> Array:
    """Return the diagonal of two dimensions of one size as the last one; MLX's has no forward mode."""
    first, last = sorted((dim1 % x.ndim, dim2 % x.ndim))
    moved = mx.moveaxis(mx.moveaxis(x, last, -1), first, -2)
    return mx.where(mx.eye(moved.shape[-1]) > 0, moved, 0).sum(-1)


def cut_back(
    value: Array, shape: Sequence[int], axis: int, start: int = 0, stop: int | None = None, step: int = 1
) -> Array:
    """Return zeros of ``shape`` with ``value`` in a slice along ``axis``."""
    place = axis % len(shape)
    first, last, _ = slice(start, stop, step).indices(shape[place])
    if step != 1:  # zeros between the elements
        apart = pad(mx.expand_dims(value, place + 1), [*[0, 0] * (len(shape) - 1 - place), 0, step - 1])
        value = apart.reshape((*shape[:place], value.shape[place] * step, *shape[place + 1 :]))
        last = first + value.shape[place]
    return pad(value, [*[0, 0] * (len(shape) - 1 - place), first, shape[place] - max(first, last)])


def chunk_back(value: Array, shape: Sequence[int], axis: int, chunks: int, index: int) -> Array:
    """Return zeros of ``shape`` with ``value`` as one of the equal parts along ``axis``."""
    size = shape[axis] // chunks
    return cut_back(value, shape, axis, index * size, (index + 1) * size)


def pad(x: Array, edges: Sequence[int]) -> Array:
    """Put zeros around ``x``: two numbers for each dimension, from the last one on; negative ones cut off."""
    more = [(max(edges[k], 0), max(edges[k + 1], 0)) for k in range(0, len(edges), 2)]
    x = mx.pad(x, [*[(0, 0)] * (x.ndim - len(more)), *reversed(more)])
    for k in range(len(more)):
        before, after = -min(edges[2 * k], 0), -min(edges[2 * k + 1], 0)
        if before or after:
            x = cut(x, -1 - k, before, x.shape[-1 - k] - after)
    return x


def flip(x: Array, axes: Sequence[int]) -> Array:
    """Return ``x`` with the elements along some dimensions in reverse."""
    for axis in axes:
        x = lookup(x, mx.arange(x.shape[axis] - 1, -1, -1), axis)
    return x


# ------------------------------------------------------------------------------------------ kinks
def where(condition: Array, a: Any, b: Any) -> Array:
    """Return ``a`` where a condition holds, else ``b``; what was not chosen has no part in derivatives, NaN neither."""
    dtypes = [v.dtype for v in (a, b) if isinstance(v, mx.array)]
    a, b = (v if isinstance(v, mx.array) else mx.array(v, *dtypes) for v in (a, b))
    found: Array = _where(condition, a, b)
    return found


_where = Function(
    "where",
    mx.where,
    lambda primals, outputs, tangents: [[where(primals[0], *(0 if t is None else t for t in tangents[1:]))]],
    lambda primals, outputs, cotangents: (
        None,
        where(primals[0], cotangents[0], 0),
        where(primals[0], 0, cotangents[0]),
    ),
)


def clamp(x: Array, low: Any, high: Any) -> Array:
    """Return ``x`` between bounds, with the derivative 1 at them; MLX's is 0."""
    if low is not None:
        x = mx.where(x < low, low, x)
    return x if high is None else mx.where(x > high, high, x)


def maximum(a: Any, b: Any) -> Array:
    """Return the larger one; ties share the derivative, which MLX drops."""
    return mx.where(a > b, a, mx.where(a < b, b, 0.5 * a + 0.5 * b))


def minimum(a: Any, b: Any) -> Array:
    """Return the smaller one; ties share the derivative, which MLX drops."""
    return mx.where(a < b, a, mx.where(a > b, b, 0.5 * a + 0.5 * b))


def finite(x: Array) -> Array:
    """Return ``x`` with 1e30 in place of an infinity: a limit is reached there."""
    return mx.where(x == math.inf, 1e30, mx.where(x == -math.inf, -1e30, x))


def fmod(x: Array, other: Any) -> Array:
    """Return the remainder with the sign of ``x``."""
    size = mx.remainder(mx.abs(x), mx.abs(other) if isinstance(other, mx.array) else abs(other))
    return mx.where(x < 0, -size, size)


def heaviside(x: Array, values: Any) -> Array:
    """Return 0 below 0, 1 above, and ``values`` at 0."""
    return mx.where(x > 0, 1.0, mx.where(x < 0, 0.0, values))


def random_bits(shape: Sequence[int], seed: Any) -> Array:
    """Return 23 random bits for each place of an array, the same for a seed wherever they are drawn."""
    number = mx.array(seed, mx.int64)
    places = mx.arange(1, math.prod(shape) + 1, dtype=mx.uint32).reshape(shape)
    return mixed_bits(places, ((number >> 32).astype(mx.uint32), number.astype(mx.uint32))).astype(mx.int32)


# ------------------------------------------------------------------------------------------ reductions
def var(x: Array, axis: Any = None, correction: int = 1, keepdims: bool = False) -> Array:
    """Return the variance, of a sample unless ``correction`` is 0."""
    return mx.var(x, axis=axis, ddof=correction, keepdims=keepdims)


def norm(x: Array, p: float = 2, axis: Any = None, keepdims: bool = False) -> Array:
    """Return the vector norm of order ``p``, which does not overflow; its derivative at 0 is 0."""
    largest = mx.stop_gradient(mx.max(mx.abs(x), axis=axis, keepdims=True))
    scale = mx.where((largest > 0) & (largest < math.inf), largest, 1)
    powers = mx.abs(x / scale) ** p if p != 2 else mx.square(x / scale)
    sums = mx.sum(powers, axis=axis, keepdims=True)
    some = sums > 0
    safe = mx.where(some, sums, 1)
    root = mx.where(some, mx.sqrt(safe) if p == 2 else safe ** (1 / p), mx.where(mx.isnan(sums), sums, 0))
    found = root * scale
    return found if keepdims else mx.squeeze(found, axis)


def log_softmax(x: Array, axis: int) -> Array:
    """Return the logarithm of softmax, which a large offset does not spoil."""
    shifted = x - mx.stop_gradient(mx.max(x, axis=axis, keepdims=True))
    return shifted - mx.log(mx.sum(mx.exp(shifted), axis=axis, keepdims=True))


def extremum(argument: Callable[..., Array], x: Array, axis: int, keepdims: bool = False) -> Array:
    """Return the extremum along ``axis``, whose derivative goes to one element."""
    place = mx.stop_gradient(argument(x, axis=axis, keepdims=True))
    found = mx.take_along_axis(x, place, axis=axis)
    return found if keepdims else mx.squeeze(found, axis)


def argsort(x: Array, axis: int = -1, descending: bool = False, stable: bool = False) -> Array:
    """Return the places of the elements in order."""
    return mx.stop_gradient(mx.argsort(-x if descending else x, axis=axis))


def sort(x: Array, axis: int = -1, descending: bool = False, stable: bool = False) -> Array:
    """Return the elements in order."""
    return mx.take_along_axis(x, argsort(x, axis, descending), axis=axis)


def middle(x: Array, axis: int, keepdims: bool = False) -> Array:
    """Return where the median is: of two the lower one, and NaN where there is one."""
    place = mx.take(mx.argsort(x, axis=axis), mx.array([(x.shape[axis] - 1) // 2]), axis=axis)
    missing = mx.isnan(x)
    spoilt = mx.any(missing, axis=axis, keepdims=True)
    place = mx.where(spoilt, mx.argmax(missing.astype(mx.int32), axis=axis, keepdims=True), place)
    return mx.stop_gradient(place if keepdims else mx.squeeze(place, axis))


def topk(x: Array, k: int, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    """Return the ``k`` largest or smallest elements along ``axis``, in order, and where they are."""
    places = cut(argsort(x, axis, descending=largest), axis, 0, k)
    return mx.take_along_axis(x, places, axis=axis), places


def add_along(value: Array, index: Array, shape: Sequence[int], axis: int) -> Array:
    """Return zeros of ``shape`` to which ``value`` is added at ``index`` along ``axis``."""
    return _transposed(lambda x: mx.take_along_axis(x, mx.stop_gradient(index), axis=axis), shape, value)


def lookup(x: Array, index: Array, axis: int) -> Array:
    """Return the slices of ``x`` that ``index`` names along ``axis``, in whose place its dimensions are.

    Along an axis, for MLX has no forward mode of what adds slices.
    """
    place = axis % x.ndim
    shape = (*x.shape[:place], index.size, *x.shape[place + 1 :])
    places = mx.broadcast_to(index.reshape((-1,) + (1,) * (x.ndim - 1 - place)), shape)
    found = mx.take_along_axis(x, mx.stop_gradient(places), axis=place)
    return found.reshape((*x.shape[:place], *index.shape, *x.shape[place + 1 :]))


def add_slices(value: Array, index: Array, shape: Sequence[int], axis: int) -> Array:
    """Return zeros of ``shape`` to which the slices of ``value`` are added at ``index`` along ``axis``."""
    return _transposed(lambda x: lookup(x, index, axis), shape, value)


def segment_sum(x: Array, index: Array, size: int, axis: int) -> Array:
    """Sum the slices of ``x`` along ``axis`` with the same number in ``index``, of ``size`` numbers."""
    place = axis % x.ndim
    return add_slices(x, index, (*x.shape[:place], size, *x.shape[place + 1 :]), axis)


def shift(x: Array, axis: int, step: int, fill: float = 0) -> Array:
    """Move each element ``step`` places on along ``axis``, back where that is negative; ``fill`` comes from outside."""
    size = x.shape[axis]
    steps = max(-size, min(step, size))
    outside = list(x.shape)
    outside[axis] = abs(steps)
    new = mx.full(outside, fill, dtype=x.dtype)
    parts = [new, cut(x, axis, 0, size - steps)] if steps > 0 else [cut(x, axis, -steps, size), new]
    return mx.concatenate(parts, axis=axis) if steps else x


def cumprod(x: Array, axis: int) -> Array:
    """Return the product of each element and all before it; MLX's has no forward mode."""
    reach = 1
    while reach < x.shape[axis]:
        x = x * shift(x, axis, reach, 1)
        reach *= 2
    return x


def _along(a: Array, b: Array, axis: int, direction: int) -> Array:
    """Each element of ``b`` added to ``a`` times the result before it, in steps of 1, 2, 4 and so on."""
    a, b = mx.broadcast_arrays(a, b)
    reach = 1
    while reach < b.shape[axis]:
        b = b + a * shift(b, axis, direction * reach)
        a = a * shift(a, axis, direction * reach, 1)
        reach *= 2
    return b


def scan(a: Array, b: Array, axis: int) -> Array:
    """Return ``s[k] = a[k] * s[k - 1] + b[k]`` along ``axis``."""
    return _along(a, b, axis, 1)


def scan_back(a: Array, b: Array, axis: int) -> Array:
    """Return ``r[k] = b[k] + a[k + 1] * r[k + 1]`` along ``axis``: the transposed of ``scan``."""
    return _along(shift(a, axis, -1), b, axis, -1)


def put_along(value: Array, index: Array, shape: Sequence[int], axis: int) -> Array:
    """Return zeros of ``shape`` with ``value`` at ``index`` along ``axis``; no place twice."""
    return mx.put_along_axis(mx.zeros(shape, value.dtype), index, value, axis=axis)


def _product(x: Array) -> Array:
    """Return the product along the last axis: of halves, for MLX has no forward mode of the gradient of its own."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        rest = x[..., 2 * half :]
        x = mx.concatenate([x[..., :half] * x[..., half : 2 * half], rest], axis=-1)
    return x.squeeze(-1) if x.shape[-1] else mx.ones(x.shape[:-1], x.dtype)


def others(x: Array, axis: int | None = None) -> Array:
    """Return the product of all other elements along ``axis``, also right where one is 0."""
    if axis is None:
        return others(x.reshape(-1), 0).reshape(x.shape)
    moved = mx.moveaxis(x, axis, -1)
    size = moved.shape[-1]
    own = mx.eye(size) > 0
    pairs = mx.where(own, 1.0, mx.expand_dims(moved, -2))
    return mx.moveaxis(_product(pairs), -1, axis)


def others_slope(x: Array, grad: Array, axis: int | None = None) -> Array:
    """Multiply ``grad`` by the (symmetric) derivative of ``others``."""
    if axis is None:
        return others_slope(x.reshape(-1), grad.reshape(-1), 0).reshape(x.shape)
    x, grad = mx.moveaxis(x, axis, -1), mx.moveaxis(grad, axis, -1)
    own = mx.eye(x.shape[-1]) > 0
    pairs = others(mx.where(own, 1.0, mx.expand_dims(x, -2)), -1)
    return mx.moveaxis((mx.expand_dims(grad, -1) * mx.where(own, 0.0, pairs)).sum(-2), -1, axis)


# ------------------------------------------------------------------------------------------ products
def _transposed(function: Callable[[Array], Array], shape: Sequence[int], grad: Array) -> Array:
    """Return the transposed of a linear function, of an array of ``shape``, at ``grad``."""
    _, (found,) = mx.vjp(function, [mx.zeros(shape, grad.dtype)], [grad])
    return found


def matmul_left(grad: Array, b: Array, shape: Sequence[int]) -> Array:
    """Return the gradient of ``a @ b`` with respect to ``a`` of ``shape``."""
    return _transposed(lambda a: a @ b, shape, grad)


def matmul_right(a: Array, grad: Array, shape: Sequence[int]) -> Array:
    """Return the gradient of ``a @ b`` with respect to ``b`` of ``shape``."""
    return _transposed(lambda b: a @ b, shape, grad)


def einsum(equation: str, *operands: Array) -> Array:
    """Return ``mx.einsum``, which does not know an ellipsis."""
    inputs, output = equation.split("->")
    terms = inputs.split(",")
    if "..." not in equation:
        return mx.einsum(equation, *operands)
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    ranks = [x.ndim - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True)]
    lead = "".join(free[: max(n for t, n in zip(terms, ranks, strict=True) if "..." in t)])
    named = [t.replace("...", lead[len(lead) - n :] if n else "") for t, n in zip(terms, ranks, strict=True)]
    return mx.einsum(f"{','.join(named)}->{output.replace('...', lead)}", *operands)


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
    """Return PyTorch's convolution, channels first, with a batch or without; MLX has them last."""
    batched = x if x.ndim == dims + 2 else mx.expand_dims(x, 0)
    function = mx.conv1d if dims == 1 else mx.conv2d
    last = function(mx.moveaxis(batched, 1, -1), mx.moveaxis(weight, 1, -1), stride, padding, dilation, groups)
    found = mx.moveaxis(last, -1, 1)
    if bias is not None:
        found = found + (bias.reshape((-1,) + (1,) * dims) if isinstance(bias, mx.array) and bias.ndim else bias)
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


# ------------------------------------------------------------------------------------------ special functions
def logsigmoid(x: Array) -> Array:
    """Return ``log(sigmoid(x))``."""
    return -mx.logaddexp(-x, 0)


def hypot(a: Any, b: Any) -> Array:
    """Return ``sqrt(a**2 + b**2)``, which does not overflow."""
    return _hypot(*_pair(a, b))


def xlogy(x: Any, y: Any) -> Array:
    """Return ``x * log(y)``, and 0 where x is 0."""
    x, y = _pair(x, y)
    none = mx.logical_and(x == 0, ~mx.isnan(y))  # `&` is wrong under vmap where one is not mapped
    return mx.where(none, 0, x * mx.log(mx.where(none, 1, y)))


def xlog1py(x: Any, y: Any) -> Array:
    """Return ``x * log1p(y)``, and 0 where x is 0."""
    x, y = _pair(x, y)
    none = mx.logical_and(x == 0, ~mx.isnan(y))  # `&` is wrong under vmap where one is not mapped
    return mx.where(none, 0, x * mx.log1p(mx.where(none, 0, y)))


def bounded(x: Array) -> Array:
    """Return an exponent of what divides, finite: else its derivative would be 0 * inf."""
    most = math.log(mx.finfo(x.dtype).max) - 0.01
    return mx.clip(x, -most, most)


def bounded_below(x: Array) -> Array:
    """Return an argument of erfcx, which grows as exp(x**2) below 0, where that divides; as `bounded` does."""
    return mx.maximum(x, -math.sqrt(math.log(mx.finfo(x.dtype).max) - 5))  # its slope is finite there, too


def digamma(x: Array) -> Array:
    """Return the derivative of ``lgamma``."""
    return polygamma(0, x)


def polygamma(n: int, x: Array) -> Array:
    """Return the ``n``-th derivative of ``digamma``."""
    return _polygamma(n)(x)


def _pair(a: Any, b: Any) -> tuple[Array, Array]:
    """Two arrays in one shape and dtype, where one may be a number."""
    like = a if isinstance(a, mx.array) else b
    a, b = (v if isinstance(v, mx.array) else mx.array(v, like.dtype) for v in (a, b))
    shape = shape_of(a, b)
    return mx.broadcast_to(a, shape), mx.broadcast_to(b, shape)


def _length(a: Array, b: Array) -> Array:
    large, small = mx.maximum(mx.abs(a), mx.abs(b)), mx.minimum(mx.abs(a), mx.abs(b))
    plain = (large == 0) | (large == math.inf)
    ratio = mx.where(plain, 0, small / mx.where(plain, 1, large))
    return large * mx.sqrt(1 + ratio * ratio)


def _length_terms(primals: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]) -> Any:
    length = mx.where(outputs[0] == 0, 1, outputs[0])
    return [[p / length * t for p, t in zip(primals, tangents, strict=True) if t is not None]]


_hypot: Callable[[Array, Array], Array] = Function("hypot", _length, _length_terms)


def _sinc_value(x: Array) -> Array:
    angle = math.pi * x
    return mx.where(x == 0, 1, mx.sin(angle) / mx.where(x == 0, 1, angle))


def _sinc_slope(x: Array, y: Array) -> Array:
    """Near 0, where the difference cancels, by its series."""
    near = mx.abs(x) < 0.1
    safe, z = mx.where(near, 1, x), (math.pi * x) ** 2
    series = -math.pi * math.pi * x / 3 * (1 - z / 10 * (1 - z / 28 * (1 - z / 54 * (1 - z / 88))))
    return mx.where(near, series, (mx.cos(math.pi * safe) - y) / safe)


sinc = _elementary("sinc", _sinc_value, _sinc_slope)
"""Return ``sin(pi x) / (pi x)``, and 1 at 0."""

_ROOT_PI = math.sqrt(math.pi)

# (1 + 2 x) erfcx(x) for x >= 0 as a Chebyshev series in (x - 15/4) / (x + 15/4).
_ERFCX = (
    *(1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189),
    *(-0.026658668435305753, 0.009074997670705265, -0.002413163540417608, 0.0004907758365258086),
    *(-6.916973302501207e-05, 4.13902798607301e-06, 7.74038306619849e-07, -2.1886401049234397e-07),
    *(1.076499946567091e-08, 4.521959811218287e-09, -7.754400208831351e-10, -6.318088340886684e-11),
    *(2.86879501093067e-11, 1.9455868545777347e-13, -9.65469674843344e-13, 3.25254814814874e-14),
    *(3.3478119482868056e-14,),
)


def _series(coefficients: Sequence[float], t: Array) -> Array:
    """A Chebyshev series, by Clenshaw's recurrence."""
    before, last = mx.zeros_like(t), mx.zeros_like(t)
    for c in reversed(coefficients[1:]):
        before, last = last, 2 * t * last - before + c
    return t * last - before + coefficients[0]


def _scaled(x: Array) -> Array:
    """``erfcx`` of what is not negative."""
    t = mx.where(x < 1e30, (x - 3.75) / (mx.minimum(x, 1e30) + 3.75), 1)
    return _series(_ERFCX, t) / (1 + 2 * x)


def _gauss(x: Array) -> Array:
    """``exp(-x**2)``; what the square loses when it is rounded is made up for, by a factor that stays small."""
    x = mx.clip(x, -30, 30)
    head = x.astype(mx.bfloat16).astype(x.dtype)
    return mx.exp(-head * head) * mx.exp(-(x - head) * (x + head))


def _erfc_value(x: Array) -> Array:
    size = mx.abs(x)
    tail = _gauss(size) * _scaled(size)
    return mx.where(size < 0.5, 1 - mx.erf(x), mx.where(x > 0, tail, 2 - tail))


def _erfcx_value(x: Array) -> Array:
    size = mx.abs(x)
    inverse = 2 / mx.maximum(_gauss(size), 1e-45)  # beyond, the result is infinite
    return mx.where(x < 0, mx.where(size > 9.5, 2 * _growth(size), inverse - _scaled(size)), _scaled(size))


def _growth(x: Array) -> Array:
    """``exp(x**2)``."""
    x = mx.minimum(x, 30)
    head = x.astype(mx.bfloat16).astype(x.dtype)
    return mx.exp(head * head) * mx.exp((x - head) * (x + head))


def _erfcx_slope(x: Array, y: Array) -> Array:
    """By its asymptotic series from 12 on, where the difference cancels."""
    z = 1 / mx.square(mx.maximum(x, 12))
    series = -z * (1 - 1.5 * z * (1 - 2.5 * z * (1 - 3.5 * z))) / _ROOT_PI
    return mx.where(x > 12, series, 2 * x * y - 2 / _ROOT_PI)


def _log_ndtr_value(x: Array) -> Array:
    t = x * math.sqrt(0.5)
    low = mx.log(0.5 * _scaled(mx.maximum(-t, 0))) - 0.5 * x * x
    return mx.where(x < -1, low, mx.log1p(-0.5 * _erfc_value(mx.maximum(t, -1))))


def _log_ndtr_slope(x: Array, y: Array) -> Array:
    """The density over the distribution function, for negative x without the exponential of both."""
    t = x * math.sqrt(0.5)
    low = math.sqrt(2 / math.pi) / _scaled(mx.maximum(-t, 0))
    return mx.where(x < 0, low, mx.exp(-0.5 * x * x - y) / math.sqrt(2 * math.pi))


def _ndtri_value(p: Array) -> Array:
    """By the inverse of erf in the middle; in a tail by Newton's steps from outside, on the logarithm."""
    tail = mx.minimum(p, 1 - p)
    logarithm = mx.log(mx.minimum(tail, 0.25))
    x = -mx.sqrt(-2 * logarithm)
    for _ in range(5):
        found = _log_ndtr_value(x)
        x = x - (found - logarithm) / _log_ndtr_slope(x, found)
    far = mx.where(tail == 0, -math.inf, x)
    return mx.where(tail > 0.25, math.sqrt(2) * mx.erfinv(2 * p - 1), mx.where(p < 0.5, far, -far))


def _ndtri_slope(p: Array, x: Array) -> Array:
    tail = mx.minimum(p, 1 - p)
    return mx.where(tail == 0, math.inf, 1 / (tail * _log_ndtr_slope(-mx.abs(x), mx.log(tail))))


erfc = _elementary("erfc", _erfc_value, lambda x, y: -2 / _ROOT_PI * _gauss(x))
"""Return the complementary error function."""
erfcx = _elementary("erfcx", _erfcx_value, _erfcx_slope)
"""Return ``exp(x**2) * erfc(x)``."""
log_ndtr = _elementary("log_ndtr", _log_ndtr_value, _log_ndtr_slope)
"""Return the logarithm of the normal distribution function."""
ndtri = _elementary("ndtri", _ndtri_value, _ndtri_slope)
"""Return the inverse of the normal distribution function."""

# lgamma(x) / ((x - 1) (x - 2)) on [1, 2] as a Chebyshev series in 2 x - 3.
_LGAMMA = (
    *(0.49141539302938714, -0.07611416167043585, 0.008432324965932778, -0.001079493726328608),
    *(0.00014900748003692963, -2.1512399888556784e-05, 3.1979329860862186e-06, -4.851693012139927e-07),
    *(7.47148782116316e-08, -1.1638296700170518e-08, 1.829400437118668e-09, -2.8969180607129607e-10),
    *(4.61570140620909e-11, -7.392810230497983e-12, 1.1894280008333085e-12, -1.9212068676522805e-13),
    *(3.113975526387164e-14,),
)


def _lgamma_value(x: Array) -> Array:
    """By its series on [1, 2] and recurrence below 8, then by Stirling's; by reflection for negative numbers."""
    size = mx.where(x < 0.5, 1 - x, x)
    low = mx.minimum(size, 8)
    product, own = mx.ones_like(low), mx.where(low < 1, low + 1, low)
    for _ in range(6):
        more = own > 2
        product = mx.where(more, product * (own - 1), product)
        own = mx.where(more, own - 1, own)
    near = (own - 1) * (own - 2) * _series(_LGAMMA, 2 * own - 3)
    near = near + mx.log(product) - mx.where(low < 1, mx.log(mx.where(low < 1, low, 1)), 0)
    high = mx.maximum(size, 8)
    z = 1 / (high * high)
    rest = (1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z * (1 / 1188 - z * (691 / 360360)))))) / high
    far = (high - 0.5) * (mx.log(high) - 1) + (0.5 * math.log(2 * math.pi) - 0.5) + rest
    positive = mx.where(size < 8, near, mx.where(size == math.inf, math.inf, far))
    sine = mx.abs(mx.sin(math.pi * (x - mx.round(x))))
    reflected = mx.log(math.pi / sine) - positive
    return mx.where(x < 0.5, mx.where(x == -math.inf, math.inf, reflected), positive)


lgamma = _elementary("lgamma", _lgamma_value, lambda x, y: digamma(x))
"""Return the logarithm of the absolute gamma function."""

# digamma(x) / (x - its root) on [1, 2] as a polynomial in x - 3/2.
_DIGAMMA = (
    *(-0.00017312261802727394, 0.00025968482126430747, -0.00015148586836773365, 0.0002272331660987376),
    *(-0.0004821990530566789, 0.0007233266279287554, -0.0010376374098418604, 0.0015566317474486838),
    *(-0.002345267632540769, 0.003519006401502276, -0.005279964873257405, 0.007926944646403797),
    *(-0.011908218001568644, 0.0179072524394512, -0.02697579675613825, 0.04076083381242074),
    *(-0.061922133273064534, 0.09498872445494122, -0.14840492305390884, 0.2405424842407742),
    *(-0.4236274212814605, 0.951055876031833),
)


def _digamma_value(x: Array) -> Array:
    """By its polynomial on [1, 2] and recurrence below 10, then by the asymptotic series; by reflection below 0."""
    size = mx.where(x < 0, 1 - x, x)
    low = mx.minimum(size, 10)
    small = low < 1
    more = mx.where(small, -1 / mx.where(small, low, 1), 0)
    own = mx.where(small, low + 1, low)
    for _ in range(8):
        above = own > 2
        own = mx.where(above, own - 1, own)
        more = mx.where(above, more + 1 / own, more)
    value = mx.zeros_like(own)
    for c in _DIGAMMA:
        value = value * (own - 1.5) + c
    root = 1.4616321449683622
    head = float(root - root % 2**-20)  # exact in float32
    near = ((own - head) - (root - head)) * value + more
    high = mx.maximum(size, 10)
    z = 1 / (high * high)
    rest = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * (691 / 32760))))))
    positive = mx.where(size < 10, near, mx.log(high) - 0.5 / high - rest)
    angle = math.pi * (x - mx.round(x))
    reflected = positive - math.pi / mx.tan(angle)
    return mx.where(x < 0, mx.where(x == mx.round(x), math.nan, reflected), positive)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _hurwitz(n: int, x: Array) -> Array:
    """``(-1)**(n + 1) * polygamma(n, x)`` for positive x: a sum of terms, and the series of Euler and Maclaurin."""
    steps = 12 + n
    total = mx.zeros_like(x)
    for k in range(steps):
        total = total + 1 / (x + k) ** (n + 1)
    y = x + steps
    total = total + y ** (-n) / n + 0.5 * y ** (-n - 1)
    factor = 1.0
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        factor = math.prod(range(n + 1, n + 2 * k)) / math.factorial(2 * k)
        total = total + bernoulli * factor * y ** (-n - 2 * k)
    return math.factorial(n) * total


def _polygamma_value(n: int, x: Array) -> Array:
    if n == 0:
        return _digamma_value(x)
    positive = (-1) ** (n + 1) * _hurwitz(n, mx.where(x > 0, x, 1 - x))
    if n == 1:
        ratio = math.pi / mx.sin(math.pi * (x - mx.round(x)))
        return mx.where(x > 0, positive, ratio * ratio - positive)
    return mx.where(x > 0, positive, mx.where(x == 0, (-1) ** (n + 1) * math.inf, math.nan))


@functools.cache
def _polygamma(n: int) -> Callable[[Array], Array]:
    return _elementary("polygamma", functools.partial(_polygamma_value, n), lambda x, y: _polygamma(n + 1)(x))
