"""Convolutions written out: which products of elements make which element, of results and of their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.symbolic.moves import each
from symgrad.symbolic.rational_functions import Undecided


def _products(
    dims: int, how: dict[str, Any], x: tuple[int, ...], weight: tuple[int, ...], y: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """The places in input, weight and result of each product of a convolution; all have a batch."""
    stride, padding, dilation = ([each(how[n], k) for k in range(dims)] for n in ("stride", "padding", "dilation"))
    groups = how["groups"]
    for n, out, *spot in product(*map(range, y)):
        for channel, *tap in product(*map(range, weight[1:])):
            place = [p * s + t * d - e for p, s, t, d, e in zip(spot, stride, tap, dilation, padding, strict=True)]
            if all(0 <= p < size for p, size in zip(place, x[2:], strict=True)):
                own = out // (weight[0] // groups) * weight[1] + channel
                yield (n, own, *place), (out, channel, *tap), (n, out, *spot)


def convolution(dims: int, wanted: int) -> Callable[..., Any]:
    """The operand `wanted` of input, weight and result, from the sum of products with the other two."""

    def apply(np: Any, attributes: dict[str, Any], one: Any, other: Any, *rest: Any) -> Any:
        batched = [a.ndim == dims + 2 for a in (one, other, *rest[:1])]
        if wanted == 2:
            x, weight = _with_batch(one, dims), other
            y = np.empty((x.shape[0], weight.shape[0], *_convolved(dims, attributes, x, weight)), dtype=object)
            is_batched = batched[0]
        elif wanted == 0:
            y, weight, x = _with_batch(one, dims), other, np.empty(_with_batch(rest[0], dims).shape, dtype=object)
            is_batched = batched[2]
        else:
            x, y, weight = _with_batch(one, dims), _with_batch(other, dims), np.empty(rest[0].shape, dtype=object)
            is_batched = True
        arrays = (x, weight, y)
        terms: dict[tuple[int, ...], list[Expr]] = {}
        for places in _products(dims, attributes, x.shape, weight.shape, y.shape):
            factors = [a[p] for k, (a, p) in enumerate(zip(arrays, places, strict=True)) if k != wanted]
            terms.setdefault(places[wanted], []).append(ex.mul(*factors))
        result = arrays[wanted]
        for place in np.ndindex(*result.shape):
            result[place] = ex.add(*terms.get(place, []))
        if wanted == 2 and rest:  # the bias
            result = result + rest[0].reshape(-1, *[1] * dims)
        return result if is_batched else result[0]

    return apply


def _with_batch(x: Any, dims: int) -> Any:
    return x if x.ndim == dims + 2 else x[None]


def _convolved(dims: int, how: dict[str, Any], x: Any, weight: Any) -> list[int]:
    found = []
    for k in range(dims):
        stride, padding, dilation = (each(how[n], k) for n in ("stride", "padding", "dilation"))
        room = x.shape[2 + k] + 2 * padding - dilation * (weight.shape[2 + k] - 1) - 1
        if room < 0:
            raise Undecided("a kernel that is larger than the input")
        found.append(room // stride + 1)
    return found


def transposed_convolution(dims: int) -> Callable[..., Any]:
    def apply(np: Any, attributes: dict[str, Any], x: Any, weight: Any) -> Any:
        sizes = []
        for k in range(dims):
            names = ("stride", "padding", "dilation", "output_padding")
            stride, padding, dilation, more = (each(attributes[n], k) for n in names)
            length, taps = x.shape[k - dims], weight.shape[k - dims]
            sizes.append((length - 1) * stride - 2 * padding + dilation * (taps - 1) + more + 1)
        like = np.empty((*x.shape[: -dims - 1], weight.shape[1] * attributes["groups"], *sizes), dtype=object)
        return convolution(dims, 0)(np, attributes, x, weight, like)

    return apply
