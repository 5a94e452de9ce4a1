"""What is saved for backward and what is recomputed.

Backward and forward together are one graph; the saved values are a cut of it between the inputs and the gradients. Only
inputs, outputs and masks may be in that cut, because the derivative of anything else would be lost in second
derivatives; the cheapest cut is a minimum vertex cut. On top of it `auto` and `speed` may keep float intermediates of
forward, which backward uses only where nothing differentiates it and recomputes otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from types import MappingProxyType

from symgrad.accuracy.cost import cost, is_product, total
from symgrad.accuracy.machine import machine
from symgrad.analysis.sizes import Sizes
from symgrad.ir.expr import COMPARISONS, ZERO, Expr, split_coefficient
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS, is_index
from symgrad.ops.tensors.along import indices
from symgrad.plan import composite
from symgrad.plan.composite import backward_cost
from symgrad.plan.cut import is_choice, minimum_cut, narrowed
from symgrad.plan.reading import RANDOM, carries_data, is_drawn, read_by, remaining_cost, repeated, repeated_cost
from symgrad.spec.model import Packing

_NOTHING: Mapping[Expr, Packing] = MappingProxyType({})
_WHY_EXTRA = "spares recomputing it; unused where backward is differentiated"
_MOST_EXTRAS = 6
_MOST_NUMBERS, _A_PASS = 12, 0.5
_NOTHING_BESIDE = 0.1  # bytes an element of the largest value, which nobody counts
_BIAS = 1.03  # times the composite's bytes
_TWICE = 0.5  # of the passes that only a differentiated backward repeats
_WORTH_KEEPING = 1.5  # passes that recomputing a value costs; forward has written it anyway, reading it costs a part


@dataclass(frozen=True)
class Saved:
    """One value kept for backward: `source` is `input`, `output`, `mask` or `intermediate`.

    `bytes` are for each element of the operation's largest value, in float32. An intermediate is computed again for
    the gradients of the tensors `without` it, if no other is wanted that reads it. `packing` says in which form a
    value is kept; what intermediates are computed from that are packed is `spared` where nothing else reads it.
    """

    value: Expr
    source: str
    bytes: float
    reason: str
    without: frozenset[str] = frozenset()
    packing: Packing | None = None
    spared: bool = False


@dataclass(frozen=True)
class Plan:
    """The saved values, the bytes an element they take and what the composite would save, and backward's cost.

    `repeated` counts the products and the like that backward computes once more.
    """

    saved: tuple[Saved, ...]
    bytes: float
    composite_bytes: float
    cost: float
    composite_cost: float
    repeated: int = 0
    composite_beside: float = 0.0  # beside inputs and outputs

    @property
    def is_larger(self) -> bool:
        """Whether more is kept than the composite keeps: an input as small as a bias is no more, if nothing else is."""
        least = _BIAS if bytes_beside(self.saved) <= self.composite_beside else 1.0
        return self.bytes > least * self.composite_bytes

    @property
    def base(self) -> tuple[Saved, ...]:
        """The saved values from which everything else can be recomputed and differentiated."""
        return tuple(s for s in self.saved if s.source != "intermediate")

    @property
    def extras(self) -> tuple[Saved, ...]:
        """Float intermediates, for speed only."""
        return tuple(s for s in self.saved if s.source == "intermediate")


def plan(
    formulas: Mapping[str, Expr],
    outputs: Mapping[str, Expr],
    gradients: Sequence[Expr],
    policy: str,
    fixed: frozenset[Expr] = frozenset(),
    differentiable: Collection[str] | None = None,
    *,
    tensors: Sequence[Expr] = (),
    extras: bool = True,
    fused: bool = False,
    packed: Mapping[Expr, Packing] = _NOTHING,
) -> Plan:
    """The plan for `gradients` (which may read inputs and values of `outputs`) under `auto`, `memory` or `speed`.

    `formulas` are the outputs as written, which the composite evaluates; `outputs` the forms that forward computes;
    `fixed` the tensors that are never differentiated, and `differentiable` the outputs that are (all, if None): of any
    other one but an index the derivative would be lost. Inputs are saved in the order of `tensors`. Without `extras`
    no float intermediate is kept. Fused passes have no masks to read, and read what was reduced before rather than
    reduce again. Values that are `packed` lose digits; they are kept so in any case, and read wherever they are needed.
    """
    places = {tensor: place for place, tensor in enumerate(tensors)}
    sound = frozenset(outputs if differentiable is None else differentiable)
    names = {v: name for name, v in outputs.items() if v.op != "sym" and (name in sound or is_index(v))}
    sizes = Sizes.of(formulas.values())
    composite_bytes, composite_beside = map(_rounded, composite.composite_bytes(formulas.values(), fixed, sizes))
    composite_cost = backward_cost(formulas.values(), fixed)

    def keeping(base: Sequence[Saved], extras: Sequence[Expr]) -> Plan:
        """The plan, but for what it costs."""
        base = [*base, *(_describe(e, names, sizes) for e in extras if e.is_boolean)]
        read = read_by(gradients, frozenset(s.value for s in base))  # a mask may stand for an input
        own = (Saved(e, "intermediate", _bytes(e, sizes), _WHY_EXTRA) for e in extras if not e.is_boolean)
        saved = tuple(in_form(s, packed.get(s.value)) for s in (*(s for s in base if s.value in read), *own))
        saved = _without_operands(saved, gradients) if packed else saved
        kept = frozenset(s.value for s in saved)
        bytes_ = _rounded(total(s.bytes for s in saved))
        again = len(repeated(gradients, kept))
        return Plan(saved, bytes_, composite_bytes, math.nan, composite_cost, again, composite_beside)

    @cache
    def spent(kept: frozenset[Expr]) -> float:
        return remaining_cost(gradients, kept, sizes)

    def priced(plan: Plan) -> Plan:
        return replace(plan, cost=spent(frozenset(s.value for s in plan.saved)))

    plans = []
    lives = frozenset(v for v in packed if v.op == "sym" or v in names)
    for masks in (False,) if fused else (True,) if packed else (True, False):
        cut = minimum_cut(gradients, names, sizes, masks=masks, packed=lives)
        if fused:
            cut += _reduced_outputs(gradients, names, cut)
        base = [
            _describe(value, names, sizes) for value in sorted(cut, key=lambda v: (places.get(v, len(places)), v.order))
        ]
        own = read_by(gradients, frozenset(cut)) - frozenset(cut)
        asked = [value for value in packed if value in own and (extras or value.is_boolean)]
        plans.append(priced(keeping(base, asked)))
        if policy != "memory" and not (fused or packed):
            kept = frozenset(s.value for s in base)
            candidates = _intermediates(outputs.values(), gradients, kept)[:_MOST_EXTRAS] if extras else []
            candidates += _signs(outputs.values(), gradients, kept) if masks else []
            candidates += _drawn_masks(outputs.values(), gradients, kept) if masks else []
            plans += [priced(keeping(base, chosen)) for size in (1, 2) for chosen in combinations(candidates, size)]

    def preference(plan: Plan) -> tuple[float, ...]:
        if policy != "auto":
            return rank(plan, policy)
        base, own = (frozenset(s.value for s in part) for part in (plan.base, plan.extras))
        return rank(replace(plan, cost=plan.cost + _TWICE * repeated_cost(gradients, base, own, sizes)), policy)

    best = min(plans, key=preference)
    if policy == "memory" or fused or not extras:
        return best
    forward = frozenset(own for n in topological(*outputs.values()) for own in _found_with(n))
    if not packed:
        kept = frozenset(s.value for s in best.base)
        found = _intermediates(outputs.values(), gradients, kept)
        numbers = [v for v in found if _bytes(v, sizes) < _NOTHING_BESIDE and not is_product(v)]
        best = _with_numbers(best, numbers[:_MOST_NUMBERS], lambda *own: priced(keeping(*own)), preference)
    starts = (best,) if packed else (best, *(p for p in plans if not p.extras))
    fuller = (_with_products(p, gradients, forward, keeping, lambda p: preference(priced(p))) for p in starts)
    return min(map(priced, fuller), key=preference)


def _with_numbers(
    plan: Plan,
    numbers: Iterable[Expr],
    keeping: Callable[[Sequence[Saved], Sequence[Expr]], Plan],
    preference: Callable[[Plan], tuple[float, ...]],
) -> Plan:
    """The plan that keeps values of few elements, too, as totals are: those that spare a pass, the dearest first."""
    for value in numbers:
        own = [s.value for s in plan.extras]
        other = keeping(plan.base, [*own, value])
        if value not in own and plan.cost - other.cost >= _A_PASS and preference(other) < preference(plan):
            plan = other
    return plan


def _with_products(
    plan: Plan,
    gradients: Sequence[Expr],
    forward: frozenset[Expr],
    keeping: Callable[[Sequence[Saved], Sequence[Expr]], Plan],
    preference: Callable[[Plan], tuple[float, ...]],
) -> Plan:
    """The plan that keeps more, as long as fewer products are repeated, in the composite's bytes.

    What it keeps are products of forward and sums with these, one after the other.
    """
    while True:
        own, kept = [s.value for s in plan.extras], frozenset(s.value for s in plan.saved)
        again = set(repeated(gradients, kept))
        sums = [n for n in read_by(gradients, kept) - kept if n.op == "add" and not again.isdisjoint(n.args)]
        spare = forward.intersection([*again, *sums])
        more = (keeping(plan.base, [*own, value]) for value in sorted(spare, key=lambda n: n.order))
        fewer = [p for p in more if p.repeated < plan.repeated and not p.is_larger]
        if not fewer:
            return plan
        plan = min(fewer, key=preference)


def _reduced_outputs(gradients: Sequence[Expr], names: Mapping[Expr, str], cut: Sequence[Expr]) -> list[Expr]:
    """The outputs along dimensions that are gone, which the gradients would compute again from what is saved."""
    again = topological(*gradients, leaves=frozenset(cut))
    return [n for n in again if n in names and n not in cut and n.op in TENSOR_OPS and carries_data(n)]


def rank(plan: Plan, policy: str) -> tuple[float, ...]:
    """What a policy minimises, first things first.

    `memory`: bytes, and of as many rather an output's than an input's. `speed`: the time of backward, with at most the
    composite's bytes. `auto`: bytes, if backward is no slower than the composite's or more is kept than it keeps; else
    time. Where intermediates are kept anyway, one more number for each row is free. An output is rather saved than an
    intermediate.
    """
    too_large = plan.is_larger
    if policy == "memory":
        return (plan.repeated, plan.bytes, sum(s.source == "input" for s in plan.saved), plan.cost)
    if policy == "auto" and not too_large and plan.cost <= plan.composite_cost:
        return (plan.repeated, 0, round(plan.bytes), bool(plan.extras), plan.cost, plan.bytes)
    if policy == "auto" and too_large:
        return (plan.repeated, 2, round(plan.bytes), plan.cost, plan.bytes, len(plan.extras))
    return (plan.repeated, 1 + too_large, plan.cost, plan.bytes, len(plan.extras))


def in_form(saved: Saved, packing: Packing | None) -> Saved:
    """A value in the form of a packing, if there is one, and what that says of it."""
    if packing is None:
        return saved
    reason = f"as {packing.form}" + (f", off by at most {packing.error}" if packing.error else "")
    size = _rounded(saved.bytes / narrowed(saved.value))
    return replace(saved, packing=packing, bytes=size, reason=reason)


def _describe(value: Expr, outputs: Mapping[Expr, str], sizes: Sizes) -> Saved:
    size = _bytes(value, sizes)
    if value.op == "sym":
        return Saved(value, "input", size, "an input, which lives anyway")
    if value in outputs:
        return Saved(value, "output", size, "the derivative is a function of the output, which lives anyway")
    why = "which elements were chosen" if is_choice(value) else "one byte an element"
    return Saved(value, "mask", size, f"{why}, in place of the input")


def _without_operands(saved: tuple[Saved, ...], gradients: Sequence[Expr]) -> tuple[Saved, ...]:
    """What is saved, without what is read only to compute intermediates again that are packed."""
    if not any(s.source == "intermediate" and s.packing for s in saved):
        return saved
    read = read_by(gradients, frozenset(s.value for s in saved))
    return tuple(s if s.value in read else replace(s, spared=True, bytes=0.0) for s in saved)


def without_unread(plan: Plan, gradients: Sequence[Expr]) -> Plan:
    """The plan without intermediates that gradients in machine form do not read: it divides, and reads no 1/x."""
    kept = [s.value for s in plan.saved]
    lowered = machine([*kept, *gradients])
    read = read_by(lowered[len(kept) :], frozenset(lowered[: len(kept)]))
    unread = [s for s, value in zip(plan.saved, lowered, strict=False) if s in plan.extras and value not in read]
    if not unread:
        return plan
    saved = tuple(s for s in plan.saved if s not in unread)
    return replace(plan, saved=saved, bytes=_rounded(plan.bytes - sum(s.bytes for s in unread)))


def bytes_beside(saved: Iterable[Saved]) -> float:
    """The bytes of what is saved beside inputs and outputs."""
    return total(s.bytes for s in saved if s.source in ("mask", "intermediate"))


def _bytes(value: Expr, sizes: Sizes) -> float:
    return _rounded(sizes.bytes(value))


def _rounded(figure: float) -> float:
    """To what is worth telling; whole numbers as such."""
    return round(figure, 3)


def _intermediates(outputs: Collection[Expr], gradients: Sequence[Expr], kept: frozenset[Expr]) -> list[Expr]:
    """Float values that forward computes and the gradients need, the dearest first; of x and 2 * x the first."""
    values = (n for n in topological(*outputs) if n.args and not n.is_static and not n.is_boolean)
    forward = [own for n in values if split_coefficient(n)[1] is n for own in _found_with(n)]
    needed = read_by(gradients, kept)
    own = (n for n in forward if n in needed and n not in kept and (carries_data(n) or is_drawn(n)))
    shared = [n for n in own if n.op != RANDOM and cost(n) >= _WORTH_KEEPING]
    shared.sort(key=lambda n: -cost(n))
    found = {o.args[0]: o for o in outputs if o.op == "boundary"}  # of an output, which it is then, not a value beside
    return list(dict.fromkeys(found.get(n, n) for n in shared))


def _found_with(value: Expr) -> list[Expr]:
    """A value, and the indices that torch finds with it."""
    row = TENSOR_OPS.get(value.op)
    return [value, indices(value)] if row is not None and "i" in row.saves else [value]


def _drawn_masks(outputs: Iterable[Expr], gradients: Sequence[Expr], kept: frozenset[Expr]) -> list[Expr]:
    """What forward has compared with random numbers: masks that spare drawing these again."""
    needed = read_by(gradients, kept)
    return [n for n in topological(*outputs) if n.op in COMPARISONS and n in needed and n not in kept and is_drawn(n)]


def _signs(outputs: Collection[Expr], gradients: Sequence[Expr], kept: frozenset[Expr]) -> list[Expr]:
    """The signs of outputs of which the gradients need no more: masks in place of what the output is computed from."""
    tests = (n for n in read_by(gradients, kept) if n.op in COMPARISONS and n not in kept)
    signs = [n for n in tests if n.args[0] in outputs and n.args[1] is ZERO]
    enough = [n for n in signs if n.args[0] not in read_by(gradients, kept | {n})]
    return sorted(enough, key=lambda n: n.order)
