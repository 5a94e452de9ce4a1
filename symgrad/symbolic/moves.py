"""Operations that only move elements, by the places that the elements of their results come from.

A row makes of the places of an operand (an array of their numbers) those of the result, with -1 where there is a zero.
So the transposed of an operation, which puts elements back and adds up what meets, needs no row of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from symgrad.ir import expr as ex

__all__ = ["BACK", "MOVES", "ORDERS", "array_of", "each", "put_back", "taken"]

Attributes = Mapping[str, Any]
Row = Callable[..., Any]
"""(numpy, attributes, places, *further operands of integers) -> places."""


def array_of(shape: tuple[int, ...], element: Callable[[tuple[int, ...]], Any]) -> Any:
    """An array of formulas, by what stands at each place."""
    import numpy as np

    found = np.empty(shape, dtype=object)
    for place in np.ndindex(*shape):
        found[place] = element(place)
    return found


def taken(x: Any, places: Any) -> Any:
    """The elements of `x` at `places`."""
    flat = x.ravel()
    return array_of(places.shape, lambda spot: ex.ZERO if places[spot] < 0 else flat[places[spot]])


def put_back(np: Any, value: Any, places: Any, shape: tuple[int, ...]) -> Any:
    """The transposed: zeros of `shape` to which each element of `value` is added at its place."""
    terms: dict[int, list[Any]] = {}
    for place, own in zip(places.ravel(), np.broadcast_to(value, places.shape).ravel(), strict=True):
        terms.setdefault(int(place), []).append(own)
    found = np.empty(shape, dtype=object)
    for k in range(found.size):
        found.flat[k] = ex.add(*terms.get(k, []))
    return found


def _slice(np: Any, attributes: Attributes, grid: Any) -> Any:
    index: list[Any] = [slice(None)] * grid.ndim
    index[attributes["dim"]] = slice(attributes["start"], attributes["stop"], attributes["step"])
    return grid[tuple(index)]


def _chunk(np: Any, attributes: Attributes, grid: Any) -> Any:
    return np.split(grid, attributes["chunks"], attributes["dim"])[attributes["index"]]


def _shifted(np: Any, attributes: Attributes, grid: Any) -> Any:
    """Each element one place further along a dimension, or back, and nothing where none comes from."""
    dim, step = attributes["dim"], attributes["step"]
    found = np.roll(grid, step, dim)
    empty: list[Any] = [slice(None)] * grid.ndim
    empty[dim] = 0 if step > 0 else -1
    found[tuple(empty)] = -1
    return found


def _pad(np: Any, attributes: Attributes, grid: Any) -> Any:
    pad = attributes["pad"]
    for k in range(len(pad) // 2):
        before, after = pad[2 * k], pad[2 * k + 1]
        dim = grid.ndim - 1 - k
        size = grid.shape[dim]
        cut: list[Any] = [slice(None)] * grid.ndim
        cut[dim] = slice(max(0, -before), size - max(0, -after))
        widths = [(0, 0)] * grid.ndim
        widths[dim] = (max(0, before), max(0, after))
        grid = np.pad(grid[tuple(cut)], widths, constant_values=-1)
    return grid


def _triangle(name: str) -> Row:
    def row(np: Any, attributes: Attributes, grid: Any) -> Any:
        kept = getattr(np, name)(np.ones(grid.shape, dtype=bool), attributes["diagonal"])
        return np.where(kept, grid, -1)

    return row


def _diag_embed(np: Any, attributes: Attributes, grid: Any) -> Any:
    kept = np.where(np.eye(grid.shape[-1], dtype=bool), grid[..., None], -1)
    return np.moveaxis(kept, (-2, -1), (attributes["dim1"], attributes["dim2"]))


def _flatten(np: Any, attributes: Attributes, grid: Any) -> Any:
    first, last = attributes["start_dim"] % grid.ndim, attributes["end_dim"] % grid.ndim
    return grid.reshape(*grid.shape[:first], -1, *grid.shape[last + 1 :])


def _unflatten(np: Any, attributes: Attributes, grid: Any, *sizes: Any) -> Any:
    place = attributes["dim"] % grid.ndim
    return grid.reshape(*grid.shape[:place], *map(int, sizes), *grid.shape[place + 1 :])


def _gather(np: Any, attributes: Attributes, grid: Any, index: Any) -> Any:
    dim = attributes["dim"] % grid.ndim
    own = tuple(slice(None) if k == dim else slice(n) for k, n in enumerate(index.shape))
    return np.take_along_axis(grid[own], index, dim)


def _lookup(np: Any, attributes: Attributes, grid: Any, index: Any) -> Any:
    return np.take(grid, index, axis=attributes["dim"])


def _avg_pool(dims: int) -> Row:
    """The places that each window covers, in a further, last dimension."""

    def row(np: Any, attributes: Attributes, grid: Any) -> Any:
        kernel, stride, padding = (attributes[name] for name in ("kernel_size", "stride", "padding"))
        sizes = [each(kernel, k) for k in range(dims)]
        steps = [n if stride is None else each(stride, k) for k, n in enumerate(sizes)]
        edges = [(0, 0)] * (grid.ndim - dims) + [(each(padding, k),) * 2 for k in range(dims)]
        padded = np.pad(grid, edges, constant_values=-1)
        windows = np.lib.stride_tricks.sliding_window_view(padded, sizes, axis=tuple(range(-dims, 0)))
        places: tuple[Any, ...] = (..., *(slice(None, None, n) for n in steps), *[slice(None)] * dims)
        chosen = windows[places]
        return chosen.reshape(*chosen.shape[:-dims], -1)

    return row


def each(value: Any, k: int) -> int:
    """What an attribute says of the dimension of number `k`, whether it is one for all or a tuple."""
    return int(value[k % len(value)] if isinstance(value, tuple) else value)


MOVES: Mapping[str, Row] = {
    "slice": _slice,
    "chunk": _chunk,
    "pad": _pad,
    "shifted": _shifted,
    "flip": lambda np, attributes, grid: np.flip(grid, attributes["dims"]),
    "roll": lambda np, attributes, grid: np.roll(grid, attributes["shifts"], attributes["dims"]),
    "permute": lambda np, attributes, grid: np.transpose(grid, attributes["dims"]),
    "tril": _triangle("tril"),
    "triu": _triangle("triu"),
    "diagonal": lambda np, attributes, grid: np.diagonal(grid, 0, attributes["dim1"], attributes["dim2"]),
    "diag_embed": _diag_embed,
    "flatten": _flatten,
    "reshape": lambda np, attributes, grid, *sizes: grid.reshape(*map(int, sizes)),
    "unflatten": _unflatten,
    "gather": _gather,
    "take_along": _gather,
    "lookup": _lookup,
    **{f"avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
}

# The transposed of a row, whose operands are the value, those of integers, and one of the shape of the result.
BACK: Mapping[str, str] = {
    "slice_back": "slice",
    "chunk_back": "chunk",
    "put_along": "gather",
    "add_along": "gather",
    "add_slices": "lookup",
    **{f"avg_pool{n}d_back": f"avg_pool{n}d" for n in (1, 2, 3)},
}


# ------------------------------------------------------------------------------------------------ orders
def _along_last(np: Any, attributes: Attributes, values: Any, function: Callable[[Any], Any]) -> Any:
    moved = np.moveaxis(values, attributes["dim"], -1)
    return np.moveaxis(np.apply_along_axis(function, -1, moved), -1, attributes["dim"])


def _one(function: Callable[[Any, Any], int]) -> Row:
    """The place of one element along a dimension, which goes with it unless `keepdim`."""

    def row(np: Any, attributes: Attributes, values: Any) -> Any:
        found = _along_last(np, attributes, values, lambda line: np.array([function(np, line)]))
        return found if attributes.get("keepdim") else np.squeeze(found, attributes["dim"])

    return row


def _sort(np: Any, attributes: Attributes, values: Any) -> Any:
    sign = -1 if attributes["descending"] else 1
    return _along_last(np, attributes, sign * values, lambda line: np.argsort(line, kind="stable"))


def _topk(np: Any, attributes: Attributes, values: Any) -> Any:
    sign = -1 if attributes["largest"] else 1
    return _along_last(np, attributes, sign * values, lambda line: np.argsort(line, kind="stable")[: attributes["k"]])


def _running(name: str) -> Row:
    def row(np: Any, attributes: Attributes, values: Any) -> Any:
        def line(own: Any) -> Any:
            return np.array([getattr(np, name)(own[: k + 1]) for k in range(len(own))])

        return _along_last(np, attributes, values, line)

    return row


# The places along a dimension, by the numbers that decide the order.
ORDERS: Mapping[str, Row] = {
    "sort": _sort,
    "topk": _topk,
    "cummax": _running("argmax"),
    "cummin": _running("argmin"),
    "max": _one(lambda np, line: int(np.argmax(line))),
    "min": _one(lambda np, line: int(np.argmin(line))),
    "median": _one(lambda np, line: int(np.argsort(line, kind="stable")[(len(line) - 1) // 2])),
}
