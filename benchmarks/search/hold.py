"""Holding a module to its formula: values and derivatives, of eager bodies and of passes, at chosen points."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from typing import Any

import mpmath as mp
import torch
from torch import Tensor
from torch.autograd import forward_ad

from benchmarks.search.cases import Case, cases
from benchmarks.search.made import Made
from benchmarks.search.modes import modes
from benchmarks.search.rounding import ROUNDED, noise
from benchmarks.search.transforms import transforms
from symgrad.accuracy.evaluate import Exact
from symgrad.accuracy.truth import Table
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological

__all__ = ["Difference", "differences", "dtype_of"]

_DTYPES = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
# Of which torch's derivatives are off by so much: its trigamma leaves 2e-9 in float64, more where terms cancel.
_ROUGH, _ROUGHLY = {"lgamma", "digamma", "polygamma"}, 1e-9
_COTANGENT, _SECOND_COTANGENT, _TANGENT = (0.5, 1.5), (1.25, 0.25), (0.75, 1.25)  # first and last
_BITS, _MANY_BITS = 1000, 2**15
_UNDERFLOW = 32  # smallest numbers that a result may be off by: what overflows below a fraction line is bounded
_PROMISED = 1e18  # inputs without a domain up to which results are finite where they can be
_MOST_ASKED = 4  # points at which the truth is asked for
_SMOOTH = 1e-30  # what slopes on both sides of a step of 2**-150 differ by at most where there is no corner


@dataclass(frozen=True)
class Difference:
    """What is wrong, in a sentence, and where: `of` is `eager` or `passes`."""

    of: str
    what: str


def _results(function: Any, case: Case, tensors: Sequence[Tensor], *, forward: bool = True) -> dict[str, Tensor]:
    """What a function gives: outputs, gradients, second derivatives and tangents, by name.

    Tangents that are not computed in `forward` mode are gradients transposed.
    """
    numbers = case.numbers
    own = [t.detach().requires_grad_(k in case.wanted) for k, t in enumerate(tensors)]
    outputs = _several(function(*own, *numbers))
    found = {_numbered("y", k): y.detach() for k, y in enumerate(outputs)}
    floats = {k: y for k, y in enumerate(outputs) if y.is_floating_point()}
    wanted = [own[k] for k in case.wanted]
    names = [f"{k}" for k in case.wanted]
    if case.more:
        found |= {_numbered("tangent", k): torch.zeros_like(y.detach()) for k, y in floats.items()}
    linked_ys = {k: y for k, y in floats.items() if y.requires_grad}
    if linked_ys:
        given = {k: _spread(y, *_COTANGENT).requires_grad_(case.more) for k, y in linked_ys.items()}
        roots, cots = [*linked_ys.values()], [*given.values()]
        grads = torch.autograd.grad(roots, wanted, cots, create_graph=case.more, allow_unused=True)
        found |= {f"gradient {n}": _or_zeros(g, t) for n, g, t in zip(names, grads, wanted, strict=True)}
        linked = [g for g in grads if g is not None and g.requires_grad]
        if linked:
            leaves_ = [*wanted, *cots]
            of_leaves = [*names, *(_numbered("c", k) for k in given)]
            seconds = [_spread(g, *_SECOND_COTANGENT) for g in linked]
            second = torch.autograd.grad(linked, leaves_, seconds, allow_unused=True, retain_graph=True)
            found |= {f"second {n}": _or_zeros(g, t) for n, g, t in zip(of_leaves, second, leaves_, strict=True)}
            tangents = [_spread(g, *_TANGENT) for g in linked]
            moved = torch.autograd.grad(linked, cots, tangents, allow_unused=True)
            found |= {_numbered("tangent", k): _or_zeros(m, given[k]) for k, m in zip(given, moved, strict=True)}
    if case.more and forward and floats:
        with forward_ad.dual_level():
            duals = [
                forward_ad.make_dual(t.detach(), _spread(t, *_TANGENT)) if k in case.wanted else t.detach()
                for k, t in enumerate(own)
            ]
            results = _several(function(*duals, *numbers))
            for k, y in floats.items():
                tangent = forward_ad.unpack_dual(results[k]).tangent
                found[_numbered("tangent", k)] = torch.zeros_like(y) if tangent is None else tangent.detach()
    return found


def _several(results: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def _numbered(name: str, k: int) -> str:
    """The name of what belongs to an output; the first has no number."""
    return f"{name} {k}" if k else name


def _spread(like: Tensor, low: float, high: float) -> Tensor:
    n = max(like.numel(), 1)
    return (
        torch.linspace(low, high, n, dtype=torch.float64)
        .to(torch.bfloat16)[: like.numel()]
        .reshape(like.shape)
        .to(like.dtype)
    )


def _or_zeros(g: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if g is None else g.detach()


def dtype_of(seed: int) -> torch.dtype:
    """The dtype in which the module of a seed is held to its formula."""
    return random.Random(seed).choice(_DTYPES)


def differences(
    made: Made, seed: int, dtypes: Sequence[torch.dtype] = (), *, eager: bool = True
) -> Iterator[Difference]:
    """What is wrong with a module, at points that the seed draws; without `eager`, with its passes alone."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    for dtype in dtypes or (dtype_of(seed),):
        for case in cases(made, chance, dtype):
            yield from _held(made, case, dtype, eager)
        made.without_passes()
        if made.drawn.kind == "wide":
            yield from (Difference("eager", f"{dtype}, {what}") for what in transforms(made, seed, case))
            continue
        yield from (Difference("eager", f"{dtype}, {what}") for what in modes(made, seed, case.tensors, case.numbers))


def _held(made: Made, case: Case, dtype: torch.dtype, eager: bool) -> Iterator[Difference]:
    wide = [t.double() if t.is_floating_point() else t for t in case.tensors]
    try:
        true = _results(made.composite, case, wide, forward=False)
        usual = _results(made.composite, case, case.tensors)
    except (NotImplementedError, RuntimeError, IndexError):  # torch has no derivative of its own, or not in this dtype
        return
    made.without_passes()
    bodies = _results(made.function, case, case.tensors)
    compared = _Compared(made, case, true, usual, dtype)
    if eager:
        yield from (Difference("eager", f"{dtype}, {what}") for what in compared.against(bodies))
    if made.with_passes(dtype):
        found = _results(made.function, case, case.tensors)
        made.without_passes()
        compared.eager = bodies
        yield from (Difference("passes", f"{dtype}, {what}") for what in compared.against(found))


def _of_row(sizes: Tensor) -> Tensor:
    """The largest size in each row."""
    return (sizes.amax(-1, keepdim=True) if sizes.dim() > 1 else sizes.max()).expand(sizes.shape)


class _Compared:
    """Compares results with the truth, which is the composite in float64, where it knows better than that.

    Its tangents are gradients transposed: what torch computes in forward mode is off where 1e-13 is added to divisors.
    """

    def __init__(self, made: Made, case: Case, true: Any, usual: Any, dtype: torch.dtype) -> None:
        self.made, self.case, self.true, self.usual, self.dtype = made, case, true, usual, dtype
        self.eager: dict[str, Tensor] = {}
        self.info = max((torch.finfo(t.dtype) for t in case.tensors if t.is_floating_point()), key=lambda i: i.eps)
        nodes = topological(*made.operation.program.outputs.values())
        rough = not case.apart and any(n.op in _ROUGH for n in nodes)
        self.eps = max(self.info.eps, _ROUGHLY) if rough else self.info.eps

    @cached_property
    def spreads(self) -> dict[str, Tensor]:
        """How far the truth moves with an ulp in each input: in all elements of a tensor alike, or in each its own way.

        A deviation of equal numbers, of which none is moved alone, would stay exactly 0; rounded terms leave an ulp.
        """
        moved: dict[str, Tensor] = {n: torch.zeros(t.shape, dtype=torch.float64) for n, t in self.true.items()}
        alike = (
            [1.0 if (way >> k ^ k * way) & 1 else -1.0 for k, _ in enumerate(self.case.tensors)] for way in range(4)
        )
        generator = torch.Generator().manual_seed(0)
        apart = (
            [torch.randint(2, t.shape, generator=generator) * 2.0 - 1 for t in self.case.tensors] for _ in range(4)
        )
        for signs in chain(alike, [] if self.case.apart else apart):
            inputs = [
                t.double() * (1 + self.info.eps * sign) if t.is_floating_point() else t
                for t, sign in zip(self.case.tensors, signs, strict=True)
            ]
            for name, other in _results(self.made.composite, self.case, inputs, forward=False).items():
                if name in moved:
                    off = (other.double() - self.true[name].double()).abs().nan_to_num(float("inf"), float("inf"))
                    moved[name] = torch.maximum(moved[name], off)
        return moved

    @cached_property
    def doubt(self) -> dict[str, Tensor]:
        """How far rounding moves the truth, which is computed in float64."""
        wide = [t.double() if t.is_floating_point() else t for t in self.case.tensors]
        return noise(lambda: _results(self.made.composite, self.case, wide, forward=False), self.true)

    @cached_property
    def own_noise(self) -> dict[str, Tensor]:
        """How far rounding moves what the module's eager body gives."""
        self.made.without_passes()
        like = _results(self.made.function, self.case, self.case.tensors, forward=False)
        return noise(lambda: _results(self.made.function, self.case, self.case.tensors, forward=False), like)

    def _rounding(self, name: str, got: Tensor) -> Tensor:
        """How far a result may lie from the truth by rounding alone.

        Values and gradients of forms that were measured are held to what is expected of these, where there is a wider
        type to compute in; drafts, derivatives of derivatives and float64 to what their own operations can give. A
        tangent is made of the same terms as the gradient transposed: torch has no dispatch in forward mode.
        """
        allowed = self.doubt.get(name, torch.zeros(got.shape, dtype=torch.float64))
        if name.startswith(("second", "tangent")) or self.made.draft or self.dtype == torch.float64:
            own = self.own_noise.get(name)
            if own is not None and own.shape == allowed.shape:
                allowed = allowed + own.nan_to_num(self.info.max, self.info.max)
        if not self.case.apart and got.numel():
            allowed = _of_row(allowed)
        return ROUNDED * allowed

    def against(self, found: dict[str, Tensor]) -> Iterator[str]:
        lost = {n: t for n, t in self.true.items() if n not in found and n in self.usual}
        found = found | {n: torch.zeros_like(self.usual[n]) for n in lost}  # of no second derivative there is no graph
        for name, got in found.items():
            if name not in self.true or name not in self.usual:
                continue
            true, usual = self.true[name].double(), self.usual[name]
            if got.shape != true.shape or got.dtype != usual.dtype:
                yield f"{name}: {got.dtype} {list(got.shape)}, the composite {usual.dtype} {list(true.shape)}"
            elif got.is_floating_point():
                yield from self._element(name, got.double(), true, usual.double())
            elif (stepped := got.double() != true).any() and (stepped & (self._steps(name, got) == 0)).any():
                yield f"{name}: other whole numbers or truth values"

    @cached_property
    def _own_nan(self) -> Tensor:
        """Where the composite makes NaN of other numbers than NaN: torch's Airy functions do of infinity."""
        given = [torch.where(t.isnan(), t[~t.isnan()][0], t) if t.isnan().any() else t for t in self.case.tensors]
        own: Tensor = self.made.composite(*given, *self.case.numbers)
        return own.isnan()

    def _steps(self, name: str, got: Tensor) -> Tensor:
        """How far rounding moves whole numbers, which are those of an order where numbers are nearly equal."""
        return self.own_noise.get(name, torch.zeros(got.shape)) + self.doubt.get(name, torch.zeros(got.shape))

    def _element(self, name: str, got: Tensor, true: Tensor, usual: Tensor) -> Iterator[str]:
        held = true.isfinite() & usual.isfinite() & (true.abs() < self.info.max / 16)
        off = (got - true).abs().nan_to_num(float("inf"), float("inf"))
        eps = self.eps
        scale = true.abs()
        if not self.case.apart and true.numel():
            scale = _of_row(torch.where(held, scale, 0))
        allowed = 8 * (usual - true).abs() + 64 * eps * scale + _UNDERFLOW * self.info.tiny
        if name.startswith(("second", "tangent")):  # of terms that may cancel
            allowed = allowed + 16 * eps * self._terms(true)
        if name in self.eager:
            allowed = allowed + 8 * (self.eager[name].double() - true).abs().nan_to_num(float("inf"), float("inf"))
        if self.case.apart:
            known = self._promised_inputs(true)
            held &= known
            held &= self.true["y"].isfinite()
            if name.startswith(("second", "tangent")):  # nothing is promised where an input is extreme
                held &= self._near_inputs(true)
        else:  # of a row that is no number, or overflows in this dtype, no derivative is asked
            there = self._there()
            of_row = there.dim() > 1 and true.dim() > 1 and there.shape[:-1] == true.shape[:-1]
            held &= there.all(-1, keepdim=True) if of_row else there.all()
        bad = held & ~(off <= allowed)
        if bad.any():
            spread = self.spreads[name]
            if not self.case.apart and true.numel():
                spread = _of_row(spread)
            allowed = allowed + 16 * spread + 1e-12 * scale
            bad &= ~(off <= allowed)
        if bad.any():
            bad &= ~(off <= allowed + self._rounding(name, got))
        if bad.any() and not self._is_true(name, got, bad):
            yield self._sentence(name, got, true, usual, bad)
        if name == "y" and self.case.apart and not self.eager:
            nan_in = torch.stack([t.isnan() for t in torch.broadcast_tensors(*self.case.tensors)]).any(0)
            lost = nan_in & (got.isnan() != usual.isnan())
            if (lost & ~got.isnan()).any():
                lost &= got.isnan() | ~self._own_nan
            if lost.any():
                yield f"{self._sentence(name, got, true, usual, lost)}, which is about NaN"
            made_up = known & true.isnan() & got.isfinite()
            if made_up.any() and not self._is_true(name, got, made_up):
                yield f"{self._sentence(name, got, true, usual, made_up)}, which is undefined"

    def _there(self) -> Tensor:
        """Where the value is a number; of several outputs, whether all are everywhere."""
        there = [
            self.true[n].isfinite() & self.usual[n].isfinite()
            for n, y in self.true.items()
            if n.startswith("y") and y.is_floating_point()
        ]
        return there[0] if len(there) == 1 else torch.stack([t.all() for t in there]).all()

    def _terms(self, like: Tensor) -> Tensor:
        """The size of what second derivatives may be differences of, as far as gradients and they themselves tell."""
        sizes = [t.double().abs().nan_to_num(0.0, 0.0) for n, t in self.true.items() if not n.startswith("y")]
        if self.case.apart and all(t.shape == like.shape for t in sizes):
            return torch.stack(sizes).amax(0)
        return torch.stack([t.max() if t.numel() else torch.zeros((), dtype=torch.float64) for t in sizes]).max()

    def _near_inputs(self, like: Tensor) -> Tensor:
        sizes = [t.double().abs() for t in torch.broadcast_tensors(*self.case.tensors)]
        return torch.stack([(t == 0) | ((t > 1e-3) & (t < 1e3)) for t in sizes]).all(0).expand(like.shape)

    def _promised_inputs(self, like: Tensor) -> Tensor:
        """Where inputs are finite, and at most 1e18 where no domain is declared: beyond, no overflow is guarded."""
        domains = {t.name: t.domain for t in self.made.drawn.spec.tensors}
        limits = [_PROMISED if domains[name] is None else math.inf for name in self.made.tensors]
        sizes = [t.double().abs() for t in torch.broadcast_tensors(*self.case.tensors)]
        every = [t.isfinite() & (t <= limit) for t, limit in zip(sizes, limits, strict=True)]
        return torch.stack(every).all(0).expand(like.shape)

    def _is_true(self, name: str, got: Tensor, where: Tensor) -> bool:
        """Whether results at points are right by arithmetic of many digits, or what is tended to there."""
        if not self.case.apart:
            return False
        every = torch.broadcast_tensors(*self.case.tensors)
        for i in where.nonzero().flatten().tolist()[:_MOST_ASKED]:
            exactly = self._exactly(name, [float(t[i]) for t in every], i)
            if exactly is None:
                if name == "y" and not got[i].isfinite():  # a pole, which torch's own functions may miss
                    continue
                return False
            value, terms, corner = exactly
            spread = float(self.spreads[name][i].nan_to_num(0.0, 0.0))
            # What is held against others may be as wrong as they are, which in float64 shows here alone.
            others = [float(r[name][i]) for r in (self.usual, self.eager) if name in self.eager and name in r]
            rounding = 8 * max((abs(o - value) for o in others if math.isfinite(o)), default=0.0)
            rounding += 64 * self.info.eps * max(abs(value), terms) + corner + 16 * spread + _UNDERFLOW * self.info.tiny
            if not abs(float(got[i]) - value) <= rounding:
                return False
        return True

    def _exactly(self, name: str, inputs: Sequence[float], i: int) -> tuple[float, float, float] | None:
        """A result at a point, derivatives by differences of many digits, and the size of the terms it is made of.

        The third number is how far the slopes on either side of a corner lie from it, where a tensor cancels: the
        minimum of something and 0 has the convention of a clamp, that of something and w - w the one of a tie.
        None where the result is undefined.
        """
        by_name = {s.name: s for s in self.made.formula.symbols}
        given_numbers = zip(self.made.drawn.spec.hyperparameters, self.case.numbers, strict=True)
        numbers = {by_name[h.name]: value for h, value in given_numbers if h.name in by_name}
        symbols = [by_name.get(n) for n in self.made.tensors]
        like = self.true["y"]
        given, other, tangent = (float(_spread(like, *ends)[i]) for ends in (_COTANGENT, _SECOND_COTANGENT, _TANGENT))
        kind, _, place = name.partition(" ")
        every = [float(k in self.case.wanted) for k, _ in enumerate(symbols)]
        one = [float(str(k) == place) for k in range(len(symbols))]
        ways = {"y": [], "gradient": [one], "tangent": [every], "second": [every] if place == "c" else [one, every]}[
            kind
        ]
        factor = {"y": 1.0, "gradient": given, "tangent": tangent, "second": other * (1 if place == "c" else given)}[
            kind
        ]
        if kind == "y":
            point = {s: v for s, v in zip(symbols, inputs, strict=True) if s is not None}
            (truth,) = Table([point | numbers], True)(self.made.formula)
            if truth is None:  # undefined, or a number that takes more digits: expm1(-1e4) has 14,000 bits
                (value,) = Exact([point | numbers], _MANY_BITS)(self.made.formula)
                return (float(value), 0.0, 0.0) if mp.isfinite(value) else None
            return float(truth.value), 0.0, 0.0
        with mp.workprec(_BITS):
            steps = [(abs(mp.mpf(v)) or mp.mpf(1)) * mp.mpf(2) ** -150 for v in inputs]
            terms, corners = [], [mp.mpf(0)]

            def at(moves: Mapping[int, Any]) -> dict[Expr, Any]:
                moved = ((s, mp.mpf(v) + moves.get(k, 0)) for k, (s, v) in enumerate(zip(symbols, inputs, strict=True)))
                return {s: v for s, v in moved if s is not None} | numbers

            # Along each pair of variables, for steps are of the sizes of these.
            for places in product(*([k for k, share in enumerate(way) if share] for way in ways)):
                points, signs = [], []
                for sides in product((1, -1), repeat=len(places)):
                    moves = [(k, side * steps[k]) for k, side in zip(places, sides, strict=True)]
                    points.append(at({k: sum(m for j, m in moves if j == k) for k in places}))
                    signs.append(math.prod(sides))
                values = Exact(points, _BITS)(self.made.formula)
                total = mp.fsum(sign * value for sign, value in zip(signs, values, strict=True))
                scale = factor / mp.fprod(2 * steps[k] for k in places)
                terms.append(scale * total)
                if self.made.cancelled:
                    jumps = [self._jump(at, k, steps[k]) for k in places]
                    of_second = mp.inf if max(jumps) > _SMOOTH else 0
                    corners.append(of_second if len(places) > 1 else abs(factor * jumps[0]))
            slope, size = mp.fsum(terms), mp.fsum(map(abs, terms))
            return (float(slope), float(size), float(mp.fsum(corners))) if mp.isfinite(slope) else None

    def _jump(self, at: Callable[[Mapping[int, Any]], dict[Expr, Any]], k: int, step: Any) -> Any:
        """How far the slopes in a variable on either side of a point lie from that across it."""
        before, here, after = Exact([at({k: way * step}) for way in (-1, 0, 1)], _BITS)(self.made.formula)
        return abs(before - 2 * here + after) / (2 * step)

    def _sentence(self, name: str, got: Tensor, true: Tensor, usual: Tensor, bad: Tensor) -> str:
        index = tuple(bad.nonzero()[0].tolist())
        at = ""
        if self.case.apart:
            every = torch.broadcast_tensors(*self.case.tensors)
            at = " at " + ", ".join(f"{n}={float(t[index]):.9g}" for n, t in zip(self.made.tensors, every, strict=True))
        return (
            f"{name}{at} {list(index)}: {float(got[index]):.9g}, truth {float(true[index]):.9g}, composite "
            f"{float(usual[index]):.9g}; {int(bad.sum())} of {bad.numel()}, wanted {self.case.wanted}"
        )
