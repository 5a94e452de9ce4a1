"""Where formulas are measured: deterministic points over the domain, extremes and neighbours of kinks included."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import combinations
from typing import Any

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Environment, Format
from symgrad.ir.expr import Expr
from symgrad.spec.interval import Interval

# Magnitudes at which elementary functions change character: cancellation near 0 and 1, the thresholds of exp in float32
# (88, 104) and float64 (709, 745), large arguments, squares that overflow float32.
_MODERATE = (0.5, 1.0, 2.0, 0.1, 3.0, 1.5, 0.3, 0.75, 5.0, 8.0)
_EXTREME = (
    *(0.0, 1e-30, 1e-12, 1e-8, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.7, 0.9, 1.1, 1.3, 2.5, 4.0, 6.0),
    *(10.0, 13.0, 17.0, 20.0, 25.0, 33.0, 45.0, 60.0, 80.0, 88.5, 100.0, 200.0, 710.0, 1e3, 1e4, 1e6),
    *(1e9, 1e13, 1e19, 1e22, 1e30),
)
ORDINARY = (0.0, 0.05, 0.3, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 33.0, 60.0, 90.0, 200.0)
_NEAR_ONE = (1e-6, -1e-6, 1e-4, -1e-4, 1e-3, -1e-3, 0.01, -0.01, 0.05, -0.05)  # distances
_DENSE = tuple(round(0.137 * k, 3) for k in range(1, 60))  # where most arguments are; for formulas of one variable
# Tensors near each other: magnitudes, and relative distances from them.
_SIZES = (1.0, 0.3, 3.0, 20.0, 0.8, 100.0, 1e3, 0.05, 8.0, 1e4, 0.6)
_GAPS = (1e-3, 1e-5, 1e-2, 1e-4, 0.1, 1e-6, 0.03, 0.3)
_MOST_SETTINGS = 1024  # of hyperparameters, which are cycled through
_SPREAD = 2_654_435_761  # a prime, whose multiples are spread
_MOST_JOINT, _MOST_TOGETHER = 90, 88
_ALIKE = (1e30, 1e-30, 1e19, 1e-12, 1e22, 1e13, 1e30, 1e-6, 1e9, 1e-30, 1e19, 1e4)  # magnitudes of all tensors together
_ZEROS = 3  # points with the same tensor at 0
_MOST_AT_ENDS = 4  # settings of hyperparameters at an end of a tensor's domain
_INTEGERS = (-2.0, 3.0, 2.0, -1.0, -3.0, 1.0)
_GOLDEN = (math.sqrt(5) - 1) / 2


def _jitter(k: int) -> float:
    """A factor near 1 that has all its digits, so that no sample is special; the same in every run."""
    return 1.0 if k % 7 == 0 else 0.95 + 0.1 * (k * _GOLDEN % 1.0)


ALL_REALS = Interval(-math.inf, math.inf, True, True)


@lru_cache(maxsize=256)
def magnitudes(values: tuple[float, ...], within: Interval, target: Format) -> tuple[float, ...]:
    """Signed samples of the given magnitudes inside a range, rounded to the format.

    In a bounded range magnitudes become distances from its ends, so that the ends are approached closely.
    """
    found: dict[float, None] = {}
    for i, size in enumerate(values):
        scaled = size * _jitter(i) if abs(size - 1) > 0.06 or size == 1 else size
        for candidate in _placed(scaled, size, within):
            rounded = target.round(candidate)
            if rounded in within:
                found[rounded] = None
    if not found:
        found[target.round(_middle(within))] = None
    return tuple(found)


def values_of(symbol: Expr, within: Interval, sizes: tuple[float, ...], target: Format) -> Sequence[Any]:
    """Samples of a tensor: floats of the given magnitudes, some whole numbers, or both truth values."""
    if symbol["kind"] == "bool_tensor":
        return [True, False]
    return _whole_numbers(within) if symbol["kind"] == "int_tensor" else magnitudes(sizes, within, target)


def _placed(scaled: float, size: float, within: Interval) -> tuple[float, ...]:
    low, high = math.isfinite(within.lower), math.isfinite(within.upper)
    if low and high:
        step = (within.upper - within.lower) * min(size, 0.5) if size <= 0.7 else 0.0
        return (within.lower + step, within.upper - step, scaled, -scaled)
    if low:
        return (within.lower + scaled, scaled)
    if high:
        return (within.upper - scaled, -scaled)
    return (scaled, -scaled)


def _whole_numbers(within: Interval) -> list[float]:
    """Some whole numbers of a range: around 1, or from that end of it that is nearest."""
    first, last = within.integers
    start = min(max(1.0, first), last)
    near = dict.fromkeys(float(start + d) for d in (0, -1, 1, -2, 4, 2, -4))
    return [n for n in near if first <= n <= last][:6] or [_middle(within)]


def _middle(within: Interval) -> float:
    low = within.lower if math.isfinite(within.lower) else min(-1.0, within.upper - 1)
    high = within.upper if math.isfinite(within.upper) else max(1.0, within.lower + 1)
    return (low + high) / 2


def sample_points(
    tensors: Mapping[Expr, Interval],
    scalars: Mapping[Expr, Sequence[Any]],
    most: int = 240,
    *,
    powers: bool = False,
    ratios: bool = False,
    signs: bool = False,
) -> dict[Format, list[Environment]]:
    """Points for each format: each tensor over all magnitudes with the others moderate, then all extreme together, then
    all nearly equal.

    `scalars` gives the values of the hyperparameters, which are cycled through. At most `most` points, evenly thinned.
    With `powers`, for formulas with a tensor as exponent, all tensors are integers at some, and each is 0 at some.
    With `ratios` there are some more, at which all tensors are about as large or as small. Samples alternate in sign:
    with `signs` any of them meet.
    """
    return {target: _points(tensors, scalars, target, most, powers, ratios, signs) for target in (FLOAT32, FLOAT64)}


def _points(
    tensors: Mapping[Expr, Interval],
    scalars: Mapping[Expr, Sequence[Any]],
    target: Format,
    most: int,
    powers: bool,
    ratios: bool,
    signs: bool,
) -> list[Environment]:
    settings = settings_of(scalars)
    sweeps: dict[Expr, Sequence[Any]] = {}
    moderate: dict[Expr, Sequence[Any]] = {}
    dense = _DENSE if len(tensors) == 1 else _DENSE[::4]
    sizes = (*_EXTREME, *_MODERATE, *(1 + d for d in _NEAR_ONE), *dense)
    for symbol, within in tensors.items():
        sweeps[symbol] = values_of(symbol, within, sizes, target)
        moderate[symbol] = values_of(symbol, within, _MODERATE, target)
    kept = [*_integers(moderate, tensors), *_at_zero(moderate, tensors)][: most // 4] if powers else []

    def swept(i: int, k: int) -> Environment:
        symbol = names[i]
        others = {o: moderate[o][(k * (3 + j) + i + turned(k, j)) % len(moderate[o])] for j, o in enumerate(names)}
        return {**others, symbol: sweeps[symbol][k]}

    def joint(k: int) -> Environment:
        return {o: sweeps[o][(k * (2 * j + 1) * 7 + j + turned(k, j)) % len(sweeps[o])] for j, o in enumerate(names)}

    def turned(k: int, j: int) -> int:
        return int(k * (j + 1) * _GOLDEN) % 2 if signs else 0

    names = list(tensors)
    makers: list[Callable[[], Environment]] = [
        partial(swept, i, k) for i, symbol in enumerate(names) for k in range(len(sweeps[symbol]))
    ]
    if len(tensors) > 1:
        makers += [partial(joint, k) for k in range(_MOST_JOINT)]
        makers += [partial(_together, k, moderate, tensors, target) for k in range(_MOST_TOGETHER)]
    ends = [{**p, **own} for p in _at_ends(moderate, tensors) for own in settings[1:_MOST_AT_ENDS]][: most // 8]
    wanted = _thin(range(len(makers)), most - len(kept) - len(ends))
    thinned = [{**makers[k](), **settings[k % len(settings)]} for k in wanted]  # the others are not even made
    alike = _of_one_size(moderate, tensors, target)[: most // 16] if ratios and len(tensors) > 1 else []
    zeros = _both_zero(moderate, tensors)[: most // 16]
    own = ([{**p, **settings[k % len(settings)]} for k, p in enumerate(ps)] for ps in (kept, [*alike, *zeros]))
    first, last = own
    return [*first, *thinned, *last, *ends]


def settings_of(scalars: Mapping[Expr, Sequence[Any]]) -> list[Environment]:
    """Combinations of the values of hyperparameters."""
    return [dict(zip(scalars, own, strict=True)) for own in some_of([*scalars.values()], _MOST_SETTINGS)]


def some_of(values: Sequence[Sequence[Any]], most: int) -> list[tuple[Any, ...]]:
    """All combinations of values, the last ones changing fastest; of more than `most`, some from everywhere."""
    count = math.prod(map(len, values))
    step = 1 if count <= most else _SPREAD
    found: list[tuple[Any, ...]] = []
    for k in range(min(count, most)):
        rest, own = k * step % count, list[Any]()
        for choices in reversed(values):
            rest, place = divmod(rest, len(choices))
            own.append(choices[place])
        found.append(tuple(reversed(own)))
    return found


def _of_one_size(
    moderate: Mapping[Expr, Sequence[Any]], tensors: Mapping[Expr, Interval], target: Format
) -> list[Environment]:
    """Points at which all tensors are about as large or small, so that ratios are ordinary where powers overflow."""
    points: list[Environment] = []
    for k, size in enumerate(_ALIKE):
        point: dict[Expr, Any] = {}
        for j, (symbol, within) in enumerate(tensors.items()):
            value = target.round(size * _jitter(k + 5 * j + 1) * (-1 if (k + j) % 3 == 1 else 1))
            fits = symbol["kind"] not in ("bool_tensor", "int_tensor")
            found = next((v for v in (value, -value) if fits and v in within), None)
            point[symbol] = moderate[symbol][(k + j) % len(moderate[symbol])] if found is None else found
        points.append(point)
    return points


def _at_zero(moderate: Mapping[Expr, Sequence[Any]], tensors: Mapping[Expr, Interval]) -> list[Environment]:
    """Points at which one tensor is 0, where powers have kinks and poles."""
    floats = [s for s, within in tensors.items() if s["kind"] not in ("bool_tensor", "int_tensor") and 0.0 in within]
    return [
        {o: 0.0 if o is s else moderate[o][(k * (3 + j) + 1) % len(moderate[o])] for j, o in enumerate(tensors)}
        for k in range(_ZEROS)
        for s in floats
    ]


def _both_zero(moderate: Mapping[Expr, Sequence[Any]], tensors: Mapping[Expr, Interval]) -> list[Environment]:
    """Points at which two tensors are 0: a ratio of them is no number, and the formula may be one."""
    floats = [s for s, within in tensors.items() if s["kind"] not in ("bool_tensor", "int_tensor") and 0.0 in within]
    return [
        {o: 0.0 if o in pair else moderate[o][(3 * k + j) % len(moderate[o])] for j, o in enumerate(tensors)}
        for k, pair in enumerate(combinations(floats, 2))
    ]


def _at_ends(moderate: Mapping[Expr, Sequence[Any]], tensors: Mapping[Expr, Interval]) -> list[Environment]:
    """Points at which one tensor is at an end of its domain: what happens there depends on hyperparameters."""
    return [
        {o: end if o is s else moderate[o][j % len(moderate[o])] for j, o in enumerate(tensors)}
        for s, within in tensors.items()
        for end in (within.lower, within.upper)
        if math.isfinite(end) and end in within and s["kind"] == "tensor"
    ]


def _integers(moderate: Mapping[Expr, Sequence[Any]], tensors: Mapping[Expr, Interval]) -> list[Environment]:
    """Points at which a power of a negative number is real."""
    points: list[Environment] = []
    for k in range(len(_INTEGERS)):
        values = [_INTEGERS[k * (j + 1) % len(_INTEGERS)] for j in range(len(tensors))]
        points.append(
            {
                s: v if v in within and s["kind"] != "bool_tensor" else moderate[s][k % len(moderate[s])]
                for v, (s, within) in zip(values, tensors.items(), strict=True)
            }
        )
    return points


def _together(
    k: int, moderate: Mapping[Expr, Sequence[Any]], tensors: Mapping[Expr, Interval], target: Format
) -> Environment:
    """A point at which the tensors are nearly equal or opposite, so that differences or sums are small beside them."""
    size = _SIZES[k % len(_SIZES)] * _jitter(k + 1) * (-1 if k % 5 == 2 else 1)
    point: dict[Expr, Any] = {}
    for j, (symbol, within) in enumerate(tensors.items()):
        apart = j * _GAPS[k % len(_GAPS)] * (-1 if j % 2 == k % 2 else 1)
        value = target.round(size * (1 + apart))
        value = -value if j % 2 and k % 3 == 1 and -value in within else value
        fits = symbol["kind"] not in ("bool_tensor", "int_tensor") and value in within
        point[symbol] = value if fits else moderate[symbol][(k + j) % len(moderate[symbol])]
    return point


def _thin(places: Sequence[int], most: int) -> Sequence[int]:
    if len(places) <= most:
        return places
    return [places[i * len(places) // most] for i in range(most)]


_ROUND = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 100.0, -100.0)
_MOST_ROUND = 81  # points; of more, as two tensors have already, some from everywhere


def at_round_numbers(
    points: Sequence[Environment], ranges: Mapping[Expr, Interval], most: float = math.inf
) -> list[Environment]:
    """Points at which the given tensors of floats are whole numbers or halves: single poles, and where exp overflows.

    What else there is has the values of `points` in turn.
    """
    sizes = [v for v in _ROUND if abs(v) <= most]
    within = [[v for v in sizes if v in own] or [_middle(own)] for own in ranges.values()]
    found = some_of(within, _MOST_ROUND) if ranges and points else []
    return [{**points[k % len(points)], **dict(zip(ranges, own, strict=True))} for k, own in enumerate(found)]


_STRIDE = 7919  # a prime: samples alternate in sign, and every second one would leave out half of the line


def moderate(points: Mapping[Any, Sequence[Environment]], most: int) -> list[Environment]:
    """Some of the sample points, at which nothing is extreme and no digit special."""
    found: list[Environment] = []
    for point in points[FLOAT64]:
        sizes = [abs(v) for v in point.values() if not isinstance(v, bool | str)]
        if all(size == 0 or 1e-3 <= size <= 60 for size in sizes):
            found.append(point)
    return [found[k * _STRIDE % len(found)] for k in range(min(most, len(found)))]
