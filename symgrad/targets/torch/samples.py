"""What the generated test samples: shapes and ranges, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from symgrad.accuracy.cost import is_product
from symgrad.accuracy.evaluate import exact
from symgrad.analysis.places import places, shifts
from symgrad.differentiate.modes import is_tensor_op
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.extent import Extent, broadcast
from symgrad.ops.tensors.row import is_size
from symgrad.parse.fitting import Fitting, sizes, with_sizes
from symgrad.spec import Spec
from symgrad.spec.model import Tensor
from symgrad.targets.torch.dtypes import floated_in
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.settings import read_as_attributes, settings

__all__ = [
    "accepted",
    "bad_shapes",
    "in_sizes",
    "large_shapes",
    "refused",
    "sampled_range",
    "shapes",
    "shapes_beside",
    "spread",
    "value_at",
]

Shape: TypeAlias = "tuple[int, ...] | None"
Shapes: TypeAlias = "tuple[Shape, ...]"

_LARGEST = 20_000  # elements of a tensor
_SIZES = (3, 2, 4, 3, 2, 5)
# Shapes of tensors that broadcast with each other, cycled through.
_BROADCAST: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((2, 3), (3,), (2, 1), ()),
    ((), (2,), (1,)),
    ((2, 1), (1, 2), (2,)),
    ((2,), ()),
    ((), ()),
)
_OF_FREE = ((2, 3), (3,))
_EMPTY: tuple[tuple[tuple[int, ...], ...], ...] = (((0, 3), (3,), (1,)), ((3, 0), (3, 1), ()))
_STEPS = tuple(map(math.sqrt, (2, 3, 5, 7, 11, 13, 17, 19)))  # multiples of one would put points in line


def shapes(layout: Layout) -> tuple[list[Shapes], list[Shapes]]:
    """Shapes of all tensors to test with, and others with no elements."""
    spec = layout.spec
    nodes = topological(*layout.formulas)
    operations = [n for n in nodes if is_tensor_op(n)]
    directed = any(n.get("dim") is not None for n in operations)
    if any(t.shape is not None for t in spec.tensors):
        found, empty = _named(spec), []
        if not operations:
            empty = [in_sizes(spec, {}, first=0)]
    elif spec.test.shapes:
        found, empty = [_given(spec)], []
        if not operations:
            found += _broadcast(len(spec.tensors), _BROADCAST)
            empty = _broadcast(len(spec.tensors), _EMPTY)
    elif directed:
        found, empty = [((2, 3),) * len(spec.tensors), ((3, 2, 2),) * len(spec.tensors)], []
    else:
        found = _broadcast(len(spec.tensors), _BROADCAST)
        empty = [] if operations else _broadcast(len(spec.tensors), _EMPTY)
    found = _fitting(layout, found)
    if any(map(_wants_several, nodes)):
        found = [s for s in found if all(own and 1 not in own for own in s)] or found[:1]
    symbols = [layout.symbol(t.name) for t in spec.tensors]
    sized = [(s, dict(zip(symbols, s, strict=True))) for s in found]
    found = [
        s
        for s, of in sized
        if not any(_is_narrow(f, of) for f in layout.formulas) and not any(_is_clamped_apart(n, of) for n in nodes)
    ] or found[:1]
    found = [s for s in found if _has_places(layout, s) and _has_value(layout, nodes, s)] or found[:1]
    empty = [s for s in empty if _has_places(layout, s)]
    optional = [i for i, t in enumerate(spec.tensors) if t.default is not None]
    for i in optional:
        found.append(tuple(None if k == i else s for k, s in enumerate(found[0])))
    return list(dict.fromkeys(found)), list(dict.fromkeys(empty))


def _has_places(layout: Layout, shapes: Shapes) -> bool:
    """Whether dimensions are so large that what is drawn of integers names places in them."""
    spec = layout.spec
    bound: dict[object, int] = {}
    for t, shape in zip(spec.tensors, shapes, strict=True):
        bound |= dict(zip(reversed(t.shape or ()), reversed(shape or ()), strict=False))
    named, shifted = places(layout.formulas), shifts(layout.formulas)
    tensors = {layout.symbol(t.name): t for t in spec.tensors if layout.symbol(t.name) in named}
    drawn = {s: sampled_range(t, spec)[1] + shifted[s][1] for s, t in tensors.items()}
    return all(drawn[s] <= bound.get(d, math.inf) for s, dims in named.items() for d in dims if isinstance(d, str))


def _has_value(layout: Layout, nodes: Iterable[Expr], shapes: Shapes) -> bool:
    """Whether what formulas make of sizes alone is a number: `1 / (C - 1)` is none where C is 1."""
    tensors = [layout.symbol(t.name) for t in layout.spec.tensors]
    told = {s: shape for s, shape in zip(tensors, shapes, strict=True) if shape is not None}
    values = layout.environment(settings(layout)[0])
    sized = [with_sizes(n, told) for n in nodes if is_size(n) and n.args and not n.is_boolean]
    known = [n for n in sized if n.symbols <= values.keys()]
    return not known or all(math.isfinite(v) for v in exact(known, values, 53))


def _is_narrow(root: Expr, shapes: Mapping[Expr, Shape]) -> bool:
    """Whether integers that are made floats decide a dtype somewhere, which then is not that of gradcheck."""
    floats = [s for s in root.tensors if s["kind"] == "tensor"]
    return bool(floats) and any(map(shapes.get, floated_in(root))) and not all(map(shapes.get, floats))


def _is_clamped_apart(node: Expr, shapes: Mapping[Expr, Shape]) -> bool:
    """Whether torch has no gradients of a clamp: where one bound alone gives the result a dimension or a size."""
    if node.op != "clamp" or any(a.is_static for a in node.args[1:]):
        return False
    x, low, high = (broadcast([Extent(shapes[t] or ()) for t in a.tensors]) for a in node.args)
    return not broadcast([x, low]) == broadcast([x, high]) == broadcast([x, low, high])


def _wants_several(node: Expr) -> bool:
    """Whether a value or its slope is undefined for one element: a variance, a root of what vanishes then, a quotient
    by it."""
    if node.op == "pow" and (exponent := node.args[1].number) is not None and exponent < 1:
        return _vanishes(node.args[0])
    return node.op == "var" and node["correction"] != 0


def _vanishes(node: Expr) -> bool:
    """Whether a value is made of the distances from a mean, which for one element are zero."""
    if node.op == "add":
        means = (-term for term in node.args if term.op == "mul" and (-term).op == "mean")
        return any(mean.args[0] in node.args for mean in means)
    if node.op == "mul" or is_product(node):
        return any(map(_vanishes, node.args))
    if node.op in TENSOR_OPS and TENSOR_OPS[node.op].cost == 0:  # a view
        return _vanishes(node.args[0])
    return node.op == "var" or (node.op in ("pow", "sum", "mean", "norm", "abs") and _vanishes(node.args[0]))


def _fitting(layout: Layout, found: list[Shapes]) -> list[Shapes]:
    """Those of the shapes that the operations accept; first such ones as were looked for, where some do not fit."""
    spec = layout.spec
    fitting = _fitting_of(layout)
    symbols = [layout.symbol(t.name) for t in spec.tensors]
    fits = accepted(layout)
    fine = [shapes for shapes in found if fits(shapes)]
    free = [s for s, t in zip(symbols, spec.tensors, strict=True) if t.shape is None]
    if spec.test.shapes or len(fine) == len(found) or (fits(found[0]) and not free):
        return fine or found
    for named in sizes(_sizes(spec, {})):
        declared = {s: shape or () for s, shape in zip(symbols, in_sizes(spec, named), strict=True) if s not in free}
        whole = fitting.shapes(declared, free)
        if whole is not None:
            return [tuple(whole[s] for s in symbols), *fine]
    return fine or found


def accepted(layout: Layout) -> Callable[[Shapes], bool]:
    """Whether the operations accept some shapes."""
    fitting = _fitting_of(layout)
    symbols = [layout.symbol(t.name) for t in layout.spec.tensors]

    def fits(shapes: Shapes) -> bool:
        return not fitting.conflict({s: size for s, size in zip(symbols, shapes, strict=True) if size is not None})

    return fits


def _fitting_of(layout: Layout) -> Fitting:
    """What the operations accept with the values of the hyperparameters."""
    read = read_as_attributes(layout)
    values = [dict(zip((h.name for h in layout.spec.hyperparameters), v, strict=True)) for v in settings(layout)]
    attributes = list({tuple(sorted((n, v) for n, v in s.items() if n in read)): s for s in values}.values())
    return Fitting(layout.formulas, attributes)


def shapes_beside(layout: Layout, fixed: Mapping[str, tuple[int, ...]], shapes: Shapes) -> Shapes:
    """The shapes with those of some tensors fixed, and with others of the rest where they do not fit."""
    tensors, fitting = layout.spec.tensors, _fitting_of(layout)
    bound: dict[str, int] = {}
    for t in tensors:
        pairs = zip(reversed(t.shape or ()), reversed(fixed.get(t.name, ())), strict=False)
        bound |= {d: size for d, size in pairs if isinstance(d, str)}
    free = [layout.symbol(t.name) for t in tensors if t.shape is None and t.name not in fixed]
    symbols = [layout.symbol(t.name) for t in tensors]
    kept = {symbol: fixed.get(symbol.name, shape or ()) for symbol, shape in zip(symbols, shapes, strict=True)}
    if not bound and not fitting.conflict(kept):
        return tuple(kept.values())
    unbound = {n: size for n, size in _sizes(layout.spec, {}).items() if n not in bound}
    for named in sizes(unbound, (size for shape in fixed.values() for size in shape)):
        sized = in_sizes(layout.spec, {**named, **bound})
        declared = {s: fixed.get(s.name, shape or ()) for s, shape in zip(symbols, sized, strict=True) if s not in free}
        if (whole := fitting.shapes(declared, free)) is not None:
            return tuple(whole[s] for s in symbols)
    return tuple(kept.values())


def _broadcast(count: int, patterns: Sequence[Sequence[tuple[int, ...]]]) -> list[Shapes]:
    return [tuple(p[i % len(p)] for i in range(count)) for p in patterns]


def _given(spec: Spec) -> Shapes:
    default = next(iter(spec.test.shapes.values()))
    return tuple(tuple(spec.test.shapes.get(t.name, default)) for t in spec.tensors)


def _named(spec: Spec) -> list[Shapes]:
    """Named dimensions of different sizes; of size 1; with other leading dimensions."""
    given: dict[str, int] = {}
    for t in spec.tensors:
        sizes = spec.test.shapes.get(t.name)
        if sizes is not None and t.shape is not None:
            fixed = t.shape[1:] if t.shape[:1] == ("...",) else t.shape
            pairs = zip(reversed(fixed), reversed(sizes), strict=False)
            given |= {d: s for d, s in pairs if isinstance(d, str)}
    base = in_sizes(spec, given)
    with_given = tuple(
        tuple(spec.test.shapes[t.name]) if t.name in spec.test.shapes else s
        for t, s in zip(spec.tensors, base, strict=True)
    )
    found = [with_given, base]
    is_free = [t.shape is None for t in spec.tensors]
    if any(is_free) and not any(base) and not spec.test.shapes:  # beside scalars
        found.insert(0, tuple(_OF_FREE[k % len(_OF_FREE)] if free else () for k, free in enumerate(is_free)))
    if not spec.test.shapes:
        found.append(in_sizes(spec, dict.fromkeys(_dimension_names(spec), 1)))
    if any(t.shape and t.shape[0] == "..." for t in spec.tensors):
        found += [in_sizes(spec, given, leading=()), in_sizes(spec, given, leading=(2, 2))]
    return found


def _dimension_names(spec: Spec) -> list[str]:
    names = [d for t in spec.tensors for d in t.shape or () if isinstance(d, str) and d != "..."]
    return list(dict.fromkeys(names))


def _sizes(spec: Spec, given: dict[str, int]) -> dict[str, int]:
    return {n: given.get(n, _SIZES[k % len(_SIZES)]) for k, n in enumerate(_dimension_names(spec))}


def in_sizes(spec: Spec, given: dict[str, int], leading: tuple[int, ...] = (2,), first: int | None = None) -> Shapes:
    """The shapes of tensors with the given sizes of dimensions, those of `...` and of the first dimension."""
    size_of = _sizes(spec, given)
    if first is not None and size_of:
        size_of[next(iter(size_of))] = first

    def shape(t: Tensor) -> tuple[int, ...]:
        if t.shape is None:
            return ()
        parts: list[int] = []
        for d in t.shape:
            parts += leading if d == "..." else (size_of[d],) if isinstance(d, str) else (d,)
        return tuple(parts)

    return tuple(shape(t) for t in spec.tensors)


def large_shapes(layout: Layout) -> list[Shapes]:
    """Declared dimensions at the sizes at which kernels have tails, long rows and many rows, where they fit.

    Tensors without a declared shape broadcast, at sizes that symgrad.testing knows.
    """
    spec = layout.spec
    names = _dimension_names(spec)
    if not names or len(names) > 3 or any(t.shape is None for t in spec.tensors) or spec.test.shapes:
        return []  # those that are given say what to try
    fits = accepted(layout)
    found = []
    for several, longs in (((17, 18, 20, 24), (33, 34, 36)), ((9, 10, 12, 16), (1025, 1026, 1028))):  # to be divided
        pairs = [(many, long) for many in several for long in longs]
        tried = [in_sizes(spec, dict.fromkeys(names, many) | {names[-1]: long}, leading=(3,)) for many, long in pairs]
        sized = next(filter(fits, tried), tried[0])
        if max(math.prod(s or ()) for s in sized) <= _LARGEST:
            found.append(sized)
    return _fitting(layout, found) if found else []


def bad_shapes(spec: Spec, good: Shapes) -> list[Shapes]:
    """Shapes that contradict the declared ones: a dimension too few, or a name with two sizes, one of them 1, too."""
    found: list[Shapes] = []
    for i, t in enumerate(spec.tensors):
        shape = good[i]
        if t.shape and shape and t.shape[0] != "...":
            found.append(tuple(s if k != i else shape[1:] for k, s in enumerate(good)))
    names = [d for t in spec.tensors for d in t.shape or () if isinstance(d, str) and d != "..."]
    for i, t in enumerate(spec.tensors):
        shape = good[i]
        last = t.shape[-1] if t.shape else None
        if shape and isinstance(last, str) and last != "..." and names.count(last) > 1:
            for size in (shape[-1] + 1, 1):
                wrong = (*shape[:-1], size)
                if shape[-1] != 1:
                    found.append(tuple(s if k != i else wrong for k, s in enumerate(good)))
    return found


def spread(k: int, axis: int) -> float:
    """Where between 0 and 1 the k-th of points is along an axis: they fill the space of all axes."""
    return (k + 0.5) * _STEPS[axis % len(_STEPS)] % 1.0


def value_at(t: Tensor, within: tuple[float, float], share: float) -> float:
    """The value of a tensor at a share of a range; those of integers and of truth values are rounded down."""
    low, high = within
    value = low + (high - low) * share
    return value if t.dtype == "float" else value >= 1 if t.dtype == "bool" else math.floor(value)


def sampled_range(t: Tensor, spec: Spec) -> tuple[float, float]:
    """The range that values of a tensor are drawn from: the spec's, or a moderate one inside the domain.

    Those of integers and of truth values are rounded down, so that the upper end is none of them.
    """
    if t.name in spec.test.ranges:
        low, high = spec.test.ranges[t.name]
        return (float(math.ceil(low)), math.floor(high) + 1.0) if t.dtype == "int" else (float(low), float(high))
    if t.dtype == "bool":
        return 0.0, 2.0
    lower, upper = (t.domain.lower, t.domain.upper) if t.domain else (-math.inf, math.inf)
    if t.dtype == "int":
        first, last = t.domain.integers if t.domain else (lower, upper)
        low = float(min(max(first, 0), max(first, last - 3) if last < 0 else last))
        return low, float(min(last, low + 3)) + 1
    if math.isfinite(lower) and math.isfinite(upper):
        inset = (upper - lower) / 20
        return lower + inset, upper - inset
    if math.isfinite(lower):
        return lower + 0.25, lower + 3.0
    if math.isfinite(upper):
        return upper - 3.0, upper - 0.25
    return -3.0, 3.0


def refused(spec: Spec) -> list[tuple[str, str, str]]:
    """Hyperparameters, values as source, and the error that each value must raise."""
    found = []
    wrong_type = {"float": '"text"', "int": "1.5", "bool": '"text"', "str": "1"}
    for h in spec.hyperparameters:
        found.append((h.name, wrong_type[h.type], "TypeError"))
        if h.choices:
            odd = {"str": '"no such choice"', "bool": "None", "int": "987654", "float": "987654.5"}[h.type]
            found.append((h.name, odd, "ValueError"))
        elif h.domain is not None:
            whole = h.type == "int"
            for bound, is_open, step in (
                (h.domain.lower, h.domain.lower_open, -1),
                (h.domain.upper, h.domain.upper_open, 1),
            ):
                if math.isfinite(bound):
                    value = bound if is_open else bound + step
                    found.append((h.name, repr(int(value) if whole else value), "ValueError"))
                elif not whole:
                    found.append((h.name, "math.inf" if bound > 0 else "-math.inf", "ValueError"))
            if not whole:
                found.append((h.name, "math.nan", "ValueError"))
    return found
