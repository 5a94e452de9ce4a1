"""Golden numbers: points at moderate and at extreme values, and the truth there, with no derivative rule in it.

Every output is written out in formulas of elements, which are computed with many digits; gradients are difference
quotients of those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import mpmath as mp
from flint import arb

from symgrad.accuracy.balls import precision, to_mpf
from symgrad.accuracy.evaluate import FLOAT32, Exact
from symgrad.compiler.operation import Variant
from symgrad.errors import SymgradError
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.symbolic.elements import Elements, symbols_of
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.literals import literal, tuple_of
from symgrad.targets.torch.figures import shortest
from symgrad.targets.torch.layout import Layout as Samples
from symgrad.targets.torch.samples import Shapes, accepted, in_sizes, sampled_range, shapes, spread
from symgrad.targets.torch.settings import settings, variant_at

__all__ = ["golden"]

_MOST_ELEMENTS = 24  # of all arguments
_FEW = ((3,), (1, 3), (1, 3, 2))  # along the first dimension, the second, and those after it
_SCALES = (1.0, 30.0, 1000.0)
_LARGE, _SMALL = 1e30, 1e-37
_BITS = (600, 3000)  # what agrees in both is the truth
_AGREE = 1e-9
_ULP, _MOVED = 2.0**-21, 3
_CLEAR = 1e-5  # how much of a number an ulp in each argument may move, for more than its being finite to be asked


def golden(layout: Layout) -> Iterator[str]:
    """The literals of points with the truth, in the shapes of a case of the test; none where it cannot be told."""
    samples = Samples(layout.operation)
    sizes = _few(samples)
    if sizes is None:
        return
    for k, values in enumerate(settings(samples)[:2]):
        variant = variant_at(samples, values)
        scales = list(_scales(layout))[: 1 if k else None]
        if variant is None:
            continue
        if any(n.op == "random_bits" for n in topological(*variant.formulas.values())):  # what is drawn has no formula
            return
        for number, own in enumerate(scales, k):
            try:
                text = _at(layout, variant, values, sizes, own, number)
            except (SymgradError, ValueError, IndexError):  # not written out in elements, or not at these sizes
                return
            if text:
                yield text


def _few(samples: Samples) -> Shapes | None:
    """Shapes of few elements: rather of three along what was declared than of one alone, as far as operations fit."""
    cases = [s for s in shapes(samples)[0] if None not in s and _is_small(s)]
    if cases and any(n > 1 for shape in cases[0] for n in shape or ()):
        return cases[0]
    tensors = samples.spec.tensors
    names = dict.fromkeys(d for t in tensors for d in t.shape or () if isinstance(d, str))
    for sizes in _FEW if all(t.shape for t in tensors) else ():
        found = in_sizes(samples.spec, {n: sizes[min(k, len(sizes) - 1)] for k, n in enumerate(names)})
        if _is_small(found) and accepted(samples)(found):
            return found
    return next(iter(cases), None)


def _is_small(sizes: Shapes) -> bool:
    return sum(math.prod(s or ()) for s in sizes) <= _MOST_ELEMENTS


def _scales(layout: Layout) -> Iterator[dict[str, float]]:
    """By how much the values of tensors are larger: all of them, then one beside moderate ones.

    Where the spec says in which range a tensor is tested, it stays there.
    """
    tensors = [t.name for t in layout.spec.tensors if t.dtype == "float" and t.name not in layout.spec.test.ranges]
    for scale in _SCALES if tensors else _SCALES[:1]:
        yield dict.fromkeys(tensors, scale)
    if len(tensors) > 1:
        yield {tensors[0]: _SCALES[-1]}
        yield dict.fromkeys(tensors[1:], _SCALES[-1])


def _at(
    layout: Layout, variant: Variant, values: Sequence[Any], sizes: Shapes, scales: Mapping[str, float], number: int
) -> str | None:
    """A point with the truth; None where nothing is known of it."""
    spec = layout.spec
    names = dict(zip(layout.hyperparameters, values, strict=True))
    own = {layout.symbol(name): value for name, value in names.items()}
    arrays, point = dict[Expr, Any](), dict[Expr, Any](own)
    for i, (t, shape) in enumerate(zip(spec.tensors, sizes, strict=True)):
        symbol = layout.symbol(t.name)
        arrays[symbol] = symbols_of(t.name, shape or (), symbol["kind"])
        for j, element in enumerate(arrays[symbol].ravel()):
            share = spread(number + len(spec.tensors) * j, i)
            point[element] = _drawn(layout, t.name, share, scales.get(t.name, 1.0))
    elements = Elements(arrays, names, point)
    outputs = {o.name: elements(variant.formulas[o.name]) for o in spec.outputs}
    smooth = [o.name for o in spec.outputs if o.grad and layout.promoted(variant.formulas[o.name]) is not None]
    total = [e for name in smooth for e in outputs[name].ravel()]
    stopped = any(n.op == "detach" for f in variant.formulas.values() for n in topological(f))
    wanted = [] if stopped else [t for t in layout.differentiable if t not in variant.overrides]
    truth = _Truth(point, [e for a in arrays.values() for e in a.ravel()])
    found = [truth.values(values.ravel()) for values in outputs.values()]
    slopes = {t: truth.slopes(total, arrays[layout.symbol(t)].ravel()) for t in wanted if smooth}
    if all(v is None for row in (*found, *slopes.values()) for v in row):
        return None
    return "Golden({}, {}, {}, {}, {})".format(
        literal(sizes),
        tuple_of([_row([point[e] for e in a.ravel()], shortest) for a in arrays.values()]),
        f"{{{', '.join(f'{literal(n)}: {literal(v)}' for n, v in names.items())}}}",
        tuple_of([_row(row) for row in found]),
        f"{{{', '.join(f'{literal(t)}: {_row(row)}' for t, row in slopes.items())}}}",
    )


def _drawn(layout: Layout, tensor: str, share: float, scale: float) -> Any:
    """A value of a tensor with few digits, that its domain has."""
    t = next(t for t in layout.spec.tensors if t.name == tensor)
    low, high = sampled_range(t, layout.spec)
    value = low + (high - low) * share
    if t.dtype != "float":
        return math.floor(value) if t.dtype == "int" else value >= (low + high) / 2
    lower, upper = (t.domain.lower, t.domain.upper) if t.domain else (-math.inf, math.inf)
    if lower == -math.inf and upper == math.inf:
        value *= scale
    elif upper == math.inf:
        value = lower + (value - lower) * scale
    elif lower == -math.inf:
        value = upper - (upper - value) * scale
    short = FLOAT32.round(float(f"{value:.3g}"))
    return short if t.domain is None or short in t.domain else FLOAT32.round(value)


class _Truth:
    """True numbers at a point; `elements` are the symbols that have values there.

    None stands where there is no number, or none of float32, and ... where an ulp in the elements moves it much.
    """

    def __init__(self, point: Mapping[Expr, Any], elements: Sequence[Expr]) -> None:
        floats = [e for e in elements if type(point[e]) is float]
        points = [
            point,
            *(
                {**point, **{e: point[e] * (1 + _ULP * spread(k, n)) for k, e in enumerate(floats)}}
                for n in range(_MOVED)
            ),
        ]
        self._exacts = [Exact(points, bits) for bits in _BITS]

    def values(self, elements: Iterable[Expr]) -> list[Any]:
        """Those of elements."""
        return [_told([exact(e) for exact in self._exacts]) for e in elements]

    def slopes(self, elements: Sequence[Expr], leaves: Iterable[Expr]) -> list[Any]:
        """The derivatives of a sum of elements with the weights 1, 2, 3 and so on."""
        return [_told([_slopes(exact, elements, leaf) for exact in self._exacts]) for leaf in leaves]


def _slopes(exact: Exact, elements: Sequence[Expr], leaf: Expr) -> list[Any]:
    """The difference quotients at all points."""
    moved = exact.with_moved(leaf)
    columns = [(n, moved.balls(e), exact.balls(e)) for n, e in enumerate(elements, 1) if leaf in e.symbols]
    found = []
    with precision(exact.bits):
        for k, step in enumerate(moved.steps):
            difference = sum((n * (ahead[k] - here[k]) for n, ahead, here in columns), start=arb(0))
            found.append(to_mpf(difference / step) if step != 0 else mp.nan)
    return found


def _told(columns: Sequence[Sequence[Any]]) -> Any:
    """What is known of a number, of which the values at a point and beside it were computed with few and many bits."""
    (coarse, *beside), (fine, *_) = columns
    if isinstance(fine, bool):
        return fine if all(fine == other for other in (coarse, *beside)) else None
    if max(abs(fine), abs(coarse)) < _SMALL:
        return 0.0
    if not abs(fine) < _LARGE or not abs(fine - coarse) <= _AGREE * abs(fine):
        return None
    return float(f"{float(fine):.8g}") if max(abs(b - coarse) for b in beside) <= _CLEAR * abs(fine) else ...


def _row(values: Iterable[Any], of_float: Callable[[float], str] = repr) -> str:
    return tuple_of(["..." if v is ... else of_float(v) if type(v) is float else repr(v) for v in values])
