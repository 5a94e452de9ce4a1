"""What each tensor operation makes of the elements of its operands, as formulas."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ops.tensors.einsum import parts
from symgrad.symbolic.convolutions import convolution, transposed_convolution
from symgrad.symbolic.moves import array_of
from symgrad.symbolic.rational_functions import Undecided


def contract(weights: Any, values: Any) -> Expr:
    """The sum of products of two arrays."""
    return ex.add(*(ex.mul(a, b) for a, b in zip(weights.ravel(), values.ravel(), strict=True)))


def _axes(dim: Any, rank: int) -> tuple[int, ...]:
    dims = range(rank) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    return tuple(sorted(d % rank for d in dims)) if rank else ()


def _reduced(function: Callable[[list[Expr]], Expr]) -> Callable[..., Any]:
    """A reduction over dimensions, from what it makes of a list of elements."""

    def apply(np: Any, attributes: dict[str, Any], x: Any) -> Any:
        axes = _axes(attributes.get("dim"), x.ndim)
        shape = [1 if k in axes else n for k, n in enumerate(x.shape)]

        def element(place: tuple[int, ...]) -> Expr:
            index = tuple(slice(None) if k in axes else p for k, p in enumerate(place))
            return function(list(x[index].ravel()))

        result = array_of(tuple(shape), element)
        return (
            result if attributes.get("keepdim") else result.reshape([n for k, n in enumerate(shape) if k not in axes])
        )

    return apply


def _along(function: Callable[[list[Expr]], list[Expr]]) -> Callable[..., Any]:
    """An operation along one dimension, from what it makes of a list of elements."""

    def apply(np: Any, attributes: dict[str, Any], x: Any) -> Any:
        (dim,) = _axes(attributes["dim"], x.ndim)
        moved = np.moveaxis(x, dim, -1)
        result = np.empty(moved.shape, dtype=object)
        for place in np.ndindex(*moved.shape[:-1]):
            for k, value in enumerate(function(list(moved[place]))):
                result[place + (k,)] = value  # noqa: RUF005 (a star in an index is newer than Python 3.10)
        return np.moveaxis(result, -1, dim)

    return apply


def _sum(values: list[Expr]) -> Expr:
    return ex.add(*values)


def _mean(values: list[Expr]) -> Expr:
    return _sum(values) / len(values)


def _logsumexp(values: list[Expr]) -> Expr:
    return make("log", _sum([make("exp", v) for v in values]))


def _softmax(values: list[Expr]) -> list[Expr]:
    total = _sum([make("exp", v) for v in values])
    return [make("exp", v) / total for v in values]


def _shifted_from(np: Any, attributes: dict[str, Any], x: Any) -> Any:
    start = ex.ONE if attributes["start"] == 1 else -ex.OO
    return _along(lambda values: [start, *values[:-1]])(np, attributes, x)


def _others(values: list[Expr]) -> list[Expr]:
    return [ex.mul(*(v for j, v in enumerate(values) if j != k)) for k in range(len(values))]


def _running(function: Callable[[list[Expr]], Expr]) -> Callable[[list[Expr]], list[Expr]]:
    return lambda values: [function(values[: k + 1]) for k in range(len(values))]


_sums = _running(_sum)


def _scan(back: bool) -> Callable[..., Any]:
    """s[k] = a[k]*s[k-1] + b[k] along a dimension, or r[k] = b[k] + a[k+1]*r[k+1]."""

    def apply(np: Any, attributes: dict[str, Any], a: Any, b: Any) -> Any:
        a, b = (np.moveaxis(v, attributes["dim"], 0) for v in np.broadcast_arrays(a, b))
        result = np.array(b, dtype=object)
        count = len(result)
        for k in reversed(range(count - 1)) if back else range(1, count):
            result[k] = b[k] + (a[k + 1] * result[k + 1] if back else a[k] * result[k - 1])
        return np.moveaxis(result, 0, attributes["dim"])

    return apply


def _extremum(op: str) -> Callable[[list[Expr]], Expr]:
    return lambda values: reduce(lambda a, b: make(op, a, b), values)


def _variance(np: Any, attributes: dict[str, Any], x: Any) -> Any:
    correction = attributes.get("correction", 1)

    def own(values: list[Expr]) -> Expr:
        mean = _mean(values)
        return _sum([(v - mean) ** 2 for v in values]) / int(len(values) - correction)

    return _reduced(own)(np, attributes, x)


def _norm(np: Any, attributes: dict[str, Any], x: Any) -> Any:
    p = attributes.get("p", 2)
    order = ex.num(p)

    def own(values: list[Expr]) -> Expr:
        powers = [v**2 if p == 2 else ex.power(make("abs", v), order) for v in values]
        return ex.power(_sum(powers), 1 / order)

    return _reduced(own)(np, attributes, x)


def _sum_to(np: Any, attributes: dict[str, Any], x: Any, like: Any) -> Any:
    """The sum over the dimensions that `like` does not have, or has with one element."""
    if x.ndim < like.ndim:
        x = x.reshape((1,) * (like.ndim - x.ndim) + x.shape)
    extra = x.ndim - like.ndim
    axes = tuple(range(extra)) + tuple(extra + k for k, n in enumerate(like.shape) if n == 1 != x.shape[extra + k])
    found = _reduced(_sum)(np, {"dim": axes, "keepdim": True}, x) if axes else x
    found = found.reshape(found.shape[extra:])
    return np.broadcast_to(found, like.shape)


def _matmul(np: Any, attributes: dict[str, Any], a: Any, b: Any) -> Any:
    left, right = a if a.ndim > 1 else a[None, :], b if b.ndim > 1 else b[:, None]
    product = (left[..., :, :, None] * right[..., None, :, :]) if left.shape[-1] else left
    found = _reduced(_sum)(np, {"dim": -2}, product)
    found = found if a.ndim > 1 else found[..., 0, :]
    return found if b.ndim > 1 else found[..., 0]


def _matmul_left(np: Any, attributes: dict[str, Any], g: Any, b: Any, like: Any) -> Any:
    g, a, b = _as_matrices(g, like, b)
    return _sum_to(np, {}, _matmul(np, {}, g, np.swapaxes(b, -1, -2)), a).reshape(like.shape)


def _matmul_right(np: Any, attributes: dict[str, Any], a: Any, g: Any, like: Any) -> Any:
    g, a, b = _as_matrices(g, a, like)
    return _sum_to(np, {}, _matmul(np, {}, np.swapaxes(a, -1, -2), g), b).reshape(like.shape)


def _as_matrices(g: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The cotangent of a product and its operands, with a row for a vector on the left, a column on the right."""
    if b.ndim == 1:
        g, b = g[..., None], b[:, None]
    if a.ndim == 1:
        g, a = g[..., None, :], a[None, :]
    return g, a, b


def _einsum(np: Any, attributes: dict[str, Any], *args: Any) -> Any:
    terms, output = parts(attributes["equation"])
    letters = [letter for letter in dict.fromkeys("".join(terms)) if letter not in output]
    if "." in "".join(terms) or any(len(set(t)) != len(t) for t in (*terms, output)):
        raise Undecided("an einsum with repeated or unnamed dimensions")
    order = [*output, *letters]
    grids = []
    for term, x in zip(terms, args, strict=True):
        moved = np.transpose(x, [term.index(letter) for letter in order if letter in term])
        shape = iter(moved.shape)
        grids.append(moved.reshape([next(shape) if letter in term else 1 for letter in order]))
    product = reduce(lambda a, b: a * b, np.broadcast_arrays(*grids))
    return _reduced(_sum)(np, {"dim": tuple(range(len(output), len(order)))}, product) if letters else product


def _part(np: Any, attributes: dict[str, Any], x: Any, *of: Any) -> Any:
    dim, index = attributes["dim"], attributes["index"]
    starts = np.cumsum([a.shape[dim] for a in of])[:-1]
    return np.split(x, starts, dim)[index]


def _restored(np: Any, attributes: dict[str, Any], x: Any, of: Any) -> Any:
    return x if attributes.get("keepdim") or not of.ndim else np.expand_dims(x, _axes(attributes["dim"], of.ndim))


def of_numbers(values: Any) -> Any:
    """An array of whole numbers as formulas."""
    return array_of(values.shape, lambda place: ex.num(int(values[place])))


def mean_of_windows(windows: Any) -> Any:
    import numpy as np

    return _reduced(_mean)(np, {"dim": -1}, windows)


def _arange(np: Any, attributes: dict[str, Any], *args: Any) -> Any:
    end, *_, numbers = args
    return of_numbers(np.arange(int(numbers(end))))


def _segments(function: Callable[[list[Expr]], Expr]) -> Callable[..., Any]:
    """What is made of the elements of each segment along a dimension; 0 where there are none."""

    def apply(np: Any, attributes: dict[str, Any], x: Any, index: Any, size: Any, numbers: Any) -> Any:
        moved = np.moveaxis(x, attributes["dim"], 0)
        own = numbers(index).astype(int)
        result = np.empty((int(numbers(size)), *moved.shape[1:]), dtype=object)
        for place in np.ndindex(*result.shape):
            spots = [(k,) + place[1:] for k in range(len(own)) if own[k] == place[0]]  # noqa: RUF005 (as above)
            values = [moved[spot] for spot in spots]
            result[place] = function(values) if values else ex.ZERO
        return np.moveaxis(result, 0, attributes["dim"])

    return apply


# Rows that numbers decide: (numpy, attributes, *operands, the numbers of an operand at the point).
DECIDED: dict[str, Callable[..., Any]] = {
    "arange": _arange,
    "segment_sum": _segments(_sum),
    "segment_max": _segments(_extremum("maximum")),
    "segment_min": _segments(_extremum("minimum")),
}


def _determinant(np: Any, a: Any) -> Expr:
    n = len(a)
    if n == 0:
        return ex.ONE
    minors = (_determinant(np, np.delete(np.delete(a, 0, 0), k, 1)) for k in range(n))
    return ex.add(*(ex.mul((-1) ** k, a[0, k], minor) for k, minor in enumerate(minors)))


def _cofactor(np: Any, a: Any) -> Any:
    def element(place: tuple[int, ...]) -> Expr:
        i, j = place
        return ex.mul((-1) ** (i + j), _determinant(np, np.delete(np.delete(a, i, 0), j, 1)))

    return array_of((len(a), len(a)), element)


def _inverse(np: Any, a: Any) -> Any:
    return _cofactor(np, a).T / _determinant(np, a)


def _cholesky(np: Any, a: Any) -> Any:
    n = len(a)
    found = np.full((n, n), ex.ZERO, dtype=object)
    for i in range(n):
        for j in range(i + 1):
            rest = a[i, j] - ex.add(*(found[i, k] * found[j, k] for k in range(j)))
            found[i, j] = ex.power(rest, ex.HALF) if i == j else rest / found[j, j]
    return found


def _of_matrices(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(np: Any, attributes: dict[str, Any], a: Any) -> Any:
        if a.shape[-1] > _LARGEST_MATRIX:
            raise Undecided(f"a matrix of more than {_LARGEST_MATRIX} rows")
        found = [np.asarray(function(np, m), dtype=object) for m in a.reshape(-1, *a.shape[-2:])]
        return np.stack(found).reshape((*a.shape[:-2], *found[0].shape))

    return apply


_LARGEST_MATRIX = 3
_INVERSE = _of_matrices(_inverse)


def _solve(np: Any, attributes: dict[str, Any], a: Any, b: Any) -> Any:
    return _matmul(np, {}, _INVERSE(np, {}, a), b)


def _count(np: Any, attributes: dict[str, Any], x: Any) -> int:
    found = 1
    for axis in _axes(attributes.get("dim"), x.ndim):
        found *= x.shape[axis]
    return found


# Rows by operation: (numpy, attributes, *operands) -> result.
RULES: dict[str, Callable[..., Any]] = {
    "sum": _reduced(_sum),
    "mean": _reduced(_mean),
    "prod": _reduced(lambda values: ex.mul(*values)),
    "amax": _reduced(_extremum("maximum")),
    "amin": _reduced(_extremum("minimum")),
    "max_values": _reduced(_extremum("maximum")),
    "min_values": _reduced(_extremum("minimum")),
    "logsumexp": _reduced(_logsumexp),
    "var": _variance,
    "norm": _norm,
    "softmax": _along(_softmax),
    "log_softmax": _along(lambda values: [v - _logsumexp(values) for v in values]),
    "cumsum": _along(_sums),
    "cumprod": _along(_running(lambda values: ex.mul(*values))),
    "logcumsumexp": _along(_running(_logsumexp)),
    "scan": _scan(back=False),
    "scan_back": _scan(back=True),
    "shifted_from": _shifted_from,
    "cumsum_back": _along(lambda values: _sums(values[::-1])[::-1]),
    "others": _along(_others),
    "matmul": _matmul,
    "matmul_left": _matmul_left,
    "matmul_right": _matmul_right,
    "einsum": _einsum,
    "transpose": lambda np, attributes, x: np.swapaxes(x, attributes["dim0"], attributes["dim1"]),
    "mT": lambda np, attributes, x: np.swapaxes(x, -1, -2),
    "T": lambda np, attributes, x: x.T,
    "sum_to": _sum_to,
    "expand": lambda np, attributes, x, like: np.broadcast_to(x, np.broadcast_shapes(x.shape, like.shape)),
    "conform": lambda np, attributes, x, like: _sum_to(
        np, {}, np.broadcast_to(x, np.broadcast_shapes(x.shape, like.shape)), like
    ),
    "unsqueeze": lambda np, attributes, x: np.expand_dims(x, attributes["dim"]),
    "squeeze": lambda np, attributes, x: np.squeeze(x, attributes["dim"]),
    "restore": _restored,
    "count": _count,
    "drop": lambda np, attributes, x, *of: x if attributes.get("keepdim") else np.squeeze(x, attributes["dim"]),
    "cat": lambda np, attributes, *args: np.concatenate(args, attributes["dim"]),
    "part": _part,
    "reshape_as": lambda np, attributes, x, like: x.reshape(like.shape),
    **{f"conv{n}d": convolution(n, 2) for n in (1, 2, 3)},
    **{f"conv{n}d_input": convolution(n, 0) for n in (1, 2, 3)},
    **{f"conv{n}d_weight": convolution(n, 1) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": transposed_convolution(n) for n in (1, 2, 3)},
    "inverse": _INVERSE,
    "cofactor": _of_matrices(_cofactor),
    "solve": _solve,
    "det": _of_matrices(_determinant),
    "logdet": _of_matrices(lambda np, a: make("log", _determinant(np, a))),
    "logabsdet": _of_matrices(lambda np, a: make("log", make("abs", _determinant(np, a)))),
    "cholesky": _of_matrices(_cholesky),
}
