"""Whole tensors at small explicit sizes: every operation written out in formulas of elements.

So what is said of tensors becomes claims about pointwise formulas, which the judge understands: a maximum along a
dimension is a nested `maximum`, a matrix product sums of products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any

from symgrad.accuracy.evaluate import Environment, Exact
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import rebuild, topological
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.einsum import parts
from symgrad.ops.tensors.row import Ref
from symgrad.symbolic.field import Undecided
from symgrad.symbolic.moves import BACK, MOVES, ORDERS, put_back, taken

if TYPE_CHECKING:
    import numpy

__all__ = ["RANDOM_BITS", "Elements", "NeedsPoint", "contract", "symbols_of"]

RANDOM_BITS = "random bits"  # no name of a tensor


def symbols_of(name: str, shape: tuple[int, ...], kind: str) -> numpy.ndarray:
    """A symbol for each element of a tensor."""
    import numpy as np

    found = np.empty(shape, dtype=object)
    for place in np.ndindex(*shape):
        found[place] = ex.symbol("_".join([name, *map(str, place)]), kind)
    return found


class NeedsPoint(Undecided):
    """What an operation does depends on numbers: on an order, or on which elements are picked."""


class Elements:
    """Formulas of all elements: `tensors` gives those of each tensor, `values` those of hyperparameters by name.

    `point` gives the numbers that decide orders and indices.
    """

    def __init__(
        self, tensors: Mapping[Expr, numpy.ndarray], values: Mapping[str, Any], point: Environment | None = None
    ) -> None:
        self._known: dict[Expr, Any] = dict(tensors)
        self._values = values
        self._point = point

    def __call__(self, root: Expr) -> numpy.ndarray:
        """The elements of a value, as an array of formulas.

        Raises NeedsPoint where numbers decide and there is no point, Undecided for an operation that is not known.
        """
        for node in topological(root, leaves=self._known.keys()):
            if node not in self._known:
                self._known[node] = self._array(node, [self._known[a] for a in node.args])
        found: numpy.ndarray = self._known[root]
        return found

    def _array(self, node: Expr, args: list[Any]) -> Any:
        import numpy as np

        if not node.args:
            result = np.empty((), dtype=object)
            result[()] = node
            return result
        if node.op == "random_bits":
            return _random_bits(node, args[0].shape)
        if node.op in ("held", "floated", "boundary", "detach"):
            return args[0]
        if node.op not in TENSOR_OPS:
            grid = np.broadcast_arrays(*args)
            result = np.empty(grid[0].shape, dtype=object)
            for place in np.ndindex(result.shape):
                result[place] = rebuild(node, [a[place] for a in grid])
            return result
        found = self._tensor(np, node, self._attributes(node), args)
        if isinstance(found, np.ndarray):
            return found
        result = np.empty((), dtype=object)
        result[()] = ex.num(found) if isinstance(found, int) else found
        return result

    def _tensor(self, np: Any, node: Expr, attributes: dict[str, Any], args: list[Any]) -> Any:
        """What a row makes of the elements of its operands."""
        if (written := TENSOR_OPS[node.op].opened) is not None:
            return self(written(node))
        if node.op in _RULES:
            return _RULES[node.op](np, attributes, *args)
        if node.op in _DECIDED:
            return _DECIDED[node.op](np, attributes, *args, self._numbers)
        if node.op in MOVES:
            grid = np.arange(args[0].size).reshape(args[0].shape)
            places = MOVES[node.op](np, attributes, grid, *map(self._integers, args[1:]))
            return _mean_of_windows(taken(np, args[0], places)) if "pool" in node.op else taken(np, args[0], places)
        if node.op in BACK:
            value, *indices, like = args
            grid = np.arange(like.size).reshape(like.shape)
            places = MOVES[BACK[node.op]](np, attributes, grid, *map(self._integers, indices))
            if "pool" in node.op:
                value = value[..., None] / ex.num(places.shape[-1])
            return put_back(np, value, places, like.shape)
        name, _, field = node.op.partition("_")
        if name in ORDERS and field in ("values", "indices"):
            x = args[0]
            found = ORDERS[name](np, attributes, self._numbers(x))
            if field == "indices":
                return _of_numbers(np, found)
            dropped = name in _ONE_PLACE and not attributes.get("keepdim")
            index = np.expand_dims(found, attributes["dim"]) if dropped else found
            values = np.take_along_axis(x, index, attributes["dim"])
            return np.squeeze(values, attributes["dim"]) if dropped else values
        raise Undecided(f"{node.op} is not written out in elements")

    def _numbers(self, array: Any) -> Any:
        """The values of elements at the point; numbers have one anyway."""
        import numpy as np

        found = np.empty(array.shape)
        exact = Exact([self._point or {}], 200)
        for place, value in np.ndenumerate(array):
            if value.symbols and self._point is None:
                raise NeedsPoint("an order of elements, or which of them are picked")
            found[place] = float(exact(value)[0])
        return found

    def _integers(self, array: Any) -> Any:
        return self._numbers(array).astype(int)

    def _attributes(self, node: Expr) -> dict[str, Any]:
        def value(given: Any) -> Any:
            if isinstance(given, Ref):
                return self._values[given.name]
            if isinstance(given, Expr):
                return int(self._numbers(self(given)))
            return tuple(map(value, given)) if isinstance(given, tuple) else given

        return {name: value(given) for name, given in node.attrs}


def _random_bits(node: Expr, shape: tuple[int, ...]) -> Any:
    """Symbols of their own for what is drawn: one seed draws the same everywhere."""
    import numpy as np

    found = np.empty(shape, dtype=object)
    draw = int.from_bytes(node.digest[:6], "big")
    for place in np.ndindex(*shape):
        found[place] = symbol("_".join([RANDOM_BITS, str(draw), *map(str, place)]), "int_tensor")
    return found


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
        result = np.empty(shape, dtype=object)
        for place in np.ndindex(*shape):
            index = tuple(slice(None) if k in axes else p for k, p in enumerate(place))
            result[place] = function(list(x[index].ravel()))
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


def _sums(values: list[Expr]) -> list[Expr]:
    return [_sum(values[: k + 1]) for k in range(len(values))]


def _others(values: list[Expr]) -> list[Expr]:
    return [ex.mul(*(v for j, v in enumerate(values) if j != k)) for k in range(len(values))]


def _running(function: Callable[[list[Expr]], Expr]) -> Callable[[list[Expr]], list[Expr]]:
    return lambda values: [function(values[: k + 1]) for k in range(len(values))]


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


def _unsqueezed(np: Any, attributes: dict[str, Any], x: Any) -> Any:
    dims = attributes["dim"] if isinstance(attributes["dim"], tuple) else (attributes["dim"],)
    return np.expand_dims(x, dims)


def _squeezed(np: Any, attributes: dict[str, Any], x: Any) -> Any:
    dims = attributes["dim"] if isinstance(attributes["dim"], tuple) else (attributes["dim"],)
    return np.squeeze(x, dims)


def _part(np: Any, attributes: dict[str, Any], x: Any, *of: Any) -> Any:
    dim, index = attributes["dim"], attributes["index"]
    starts = np.cumsum([a.shape[dim] for a in of])[:-1]
    return np.split(x, starts, dim)[index]


def _restored(np: Any, attributes: dict[str, Any], x: Any, of: Any) -> Any:
    return x if attributes.get("keepdim") or not of.ndim else np.expand_dims(x, _axes(attributes["dim"], of.ndim))


def _of_numbers(np: Any, values: Any) -> Any:
    found = np.empty(values.shape, dtype=object)
    for place, value in np.ndenumerate(values):
        found[place] = ex.num(int(value))
    return found


def _mean_of_windows(windows: Any) -> Any:
    import numpy as np

    return _reduced(_mean)(np, {"dim": -1}, windows)


# ------------------------------------------------------------------------------------------------ by numbers
_ONE_PLACE = ("max", "min", "median")


def _arange(np: Any, attributes: dict[str, Any], *args: Any) -> Any:
    end, *_, numbers = args
    return _of_numbers(np, np.arange(int(numbers(end))))


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


_DECIDED: dict[str, Callable[..., Any]] = {
    "arange": _arange,
    "segment_sum": _segments(_sum),
    "segment_max": _segments(_extremum("maximum")),
    "segment_min": _segments(_extremum("minimum")),
}


# ------------------------------------------------------------------------------------------------ convolutions
def _products(
    dims: int, how: dict[str, Any], x: tuple[int, ...], weight: tuple[int, ...], y: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """The places in input, weight and result of each product of a convolution; all have a batch."""
    stride, padding, dilation = (
        [v[k % len(v)] if isinstance(v, tuple) else v for k in range(dims)]
        for v in (how["stride"], how["padding"], how["dilation"])
    )
    groups = how["groups"]
    for n, out, *spot in product(*map(range, y)):
        for channel, *tap in product(*map(range, weight[1:])):
            place = [p * s + t * d - e for p, s, t, d, e in zip(spot, stride, tap, dilation, padding, strict=True)]
            if all(0 <= p < size for p, size in zip(place, x[2:], strict=True)):
                own = out // (weight[0] // groups) * weight[1] + channel
                yield (n, own, *place), (out, channel, *tap), (n, out, *spot)


def _convolution(dims: int, wanted: int) -> Callable[..., Any]:
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
        stride, padding, dilation = (
            v[k % len(v)] if isinstance(v, tuple) else v for v in (how["stride"], how["padding"], how["dilation"])
        )
        room = x.shape[2 + k] + 2 * padding - dilation * (weight.shape[2 + k] - 1) - 1
        if room < 0:
            raise Undecided("a kernel that is larger than the input")
        found.append(room // stride + 1)
    return found


def _transposed_convolution(dims: int) -> Callable[..., Any]:
    def apply(np: Any, attributes: dict[str, Any], x: Any, weight: Any) -> Any:
        sizes = []
        for k in range(dims):
            stride, padding, dilation, more = (
                v[k % len(v)] if isinstance(v, tuple) else v
                for v in (attributes[n] for n in ("stride", "padding", "dilation", "output_padding"))
            )
            length, taps = x.shape[k - dims], weight.shape[k - dims]
            sizes.append((length - 1) * stride - 2 * padding + dilation * (taps - 1) + more + 1)
        like = np.empty((*x.shape[: -dims - 1], weight.shape[1] * attributes["groups"], *sizes), dtype=object)
        return _convolution(dims, 0)(np, attributes, x, weight, like)

    return apply


# ------------------------------------------------------------------------------------------------ matrices
def _determinant(np: Any, a: Any) -> Expr:
    n = len(a)
    if n == 0:
        return ex.ONE
    minors = (_determinant(np, np.delete(np.delete(a, 0, 0), k, 1)) for k in range(n))
    return ex.add(*(ex.mul((-1) ** k, a[0, k], minor) for k, minor in enumerate(minors)))


def _cofactor(np: Any, a: Any) -> Any:
    n = len(a)
    found = np.empty((n, n), dtype=object)
    for i, j in np.ndindex(n, n):
        found[i, j] = ex.mul((-1) ** (i + j), _determinant(np, np.delete(np.delete(a, i, 0), j, 1)))
    return found


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


_RULES: dict[str, Callable[..., Any]] = {
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
    "unsqueeze": _unsqueezed,
    "squeeze": _squeezed,
    "restore": _restored,
    "count": _count,
    "drop": lambda np, attributes, x, *of: x if attributes.get("keepdim") else np.squeeze(x, attributes["dim"]),
    "cat": lambda np, attributes, *args: np.concatenate(args, attributes["dim"]),
    "part": _part,
    "reshape_as": lambda np, attributes, x, like: x.reshape(like.shape),
    **{f"conv{n}d": _convolution(n, 2) for n in (1, 2, 3)},
    **{f"conv{n}d_input": _convolution(n, 0) for n in (1, 2, 3)},
    **{f"conv{n}d_weight": _convolution(n, 1) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _transposed_convolution(n) for n in (1, 2, 3)},
    "inverse": _INVERSE,
    "cofactor": _of_matrices(_cofactor),
    "solve": _solve,
    "det": _of_matrices(_determinant),
    "logdet": _of_matrices(lambda np, a: make("log", _determinant(np, a))),
    "logabsdet": _of_matrices(lambda np, a: make("log", make("abs", _determinant(np, a)))),
    "cholesky": _of_matrices(_cholesky),
}
