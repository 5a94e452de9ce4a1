"""What is saved for backward and what is recomputed.

Backward and forward together are one graph; the saved values are a cut of it between the inputs and the gradients. Only
inputs, outputs and masks may be in that cut, because the derivative of anything else would be lost in second
derivatives; the cheapest cut is a minimum vertex cut. On top of it `auto` and `speed` may keep float intermediates of
forward, which backward uses only where nothing differentiates it and recomputes otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import networkx as nx

from symgrad.backends.torch.fusion import fuse
from symgrad.cost import backward_cost, cost, operation_cost
from symgrad.expr import Expr, topological
from symgrad.machine import machine
from symgrad.tensor_ops import TENSOR_OPS, data_arguments

_FLOAT = 4  # bytes an element, in float32
_MASK = 1
_MOST_EXTRAS = 6
_WORTH_KEEPING = 2.0  # passes that recomputing a value costs; writing and reading it costs about one


@dataclass(frozen=True)
class Saved:
    """One value kept for backward: `source` is `input`, `output`, `mask` or `intermediate`."""

    value: Expr
    source: str
    bytes: int
    reason: str


@dataclass(frozen=True)
class Plan:
    """The saved values, the bytes an element they take and what the composite would save, and backward's cost."""

    saved: tuple[Saved, ...]
    bytes: int
    composite_bytes: int
    cost: float
    composite_cost: float

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
    *,
    extras: bool = True,
    fused: bool = False,
) -> Plan:
    """The plan for `gradients` (which may read inputs and values of `outputs`) under `auto`, `memory` or `speed`.

    `formulas` are the outputs as written, which the composite evaluates; `outputs` the forms that forward computes;
    `fixed` the tensors that are never differentiated. Without `extras` no float intermediate is kept. Fused passes
    have no masks to read, and read what was reduced before rather than reduce again.
    """
    names = {value: name for name, value in outputs.items() if value.op != "sym"}
    composite_bytes = saved_by_composite(formulas.values(), fixed)
    composite_cost = backward_cost(formulas.values(), fixed)

    def assess(base: Sequence[Saved], extras: Sequence[Expr]) -> Plan:
        saved = (*base, *(Saved(e, "intermediate", _FLOAT, _WHY_EXTRA) for e in extras))
        spent = remaining_cost(gradients, frozenset(s.value for s in saved))
        return Plan(saved, sum(s.bytes for s in saved), composite_bytes, spent, composite_cost)

    plans = []
    for masks in (False,) if fused else (True, False):
        cut = minimum_cut(gradients, names, masks=masks)
        if fused:
            cut += _reduced_outputs(gradients, names, cut)
        base = [_describe(value, names) for value in sorted(cut, key=lambda v: v.order)]
        plans.append(assess(base, ()))
        if policy != "memory" and extras:
            candidates = _intermediates(outputs.values(), gradients, frozenset(s.value for s in base))
            plans += [assess(base, chosen) for size in (1, 2) for chosen in combinations(candidates, size)]
    return min(plans, key=lambda p: rank(p, policy))


def _reduced_outputs(gradients: Sequence[Expr], names: Mapping[Expr, str], cut: Sequence[Expr]) -> list[Expr]:
    """The outputs along dimensions that are gone, which the gradients would compute again from what is saved."""
    again = topological(*gradients, leaves=frozenset(cut))
    return [n for n in again if n in names and n not in cut and n.op in TENSOR_OPS and _carries_data(n)]


_WHY_EXTRA = "spares recomputing it; unused where backward is differentiated"


def rank(plan: Plan, policy: str) -> tuple[float, ...]:
    """What a policy minimises, first things first.

    `memory`: bytes, and of as many rather an output's than an input's. `speed`: the time of backward, with at most the
    composite's bytes. `auto`: bytes, if backward is no slower than the composite's; else time.
    """
    too_large = plan.bytes > plan.composite_bytes
    if policy == "memory":
        return (plan.bytes, sum(s.source == "input" for s in plan.saved), plan.cost)
    if policy == "auto" and not too_large and plan.cost <= plan.composite_cost:
        return (0, plan.bytes, plan.cost)
    return (1 + too_large, plan.cost, plan.bytes)


def minimum_cut(gradients: Iterable[Expr], outputs: Mapping[Expr, str], *, masks: bool = True) -> list[Expr]:
    """The values of fewest bytes from which the gradients can be computed: a minimum vertex cut.

    Equal cuts are decided for outputs and masks, which are nearer to the gradients, against inputs. Without `masks`
    only inputs and outputs are considered. Products, convolutions and sorts are not repeated where that can be avoided.
    """
    gradients = list(gradients)
    order = [n for n in topological(*gradients) if _carries_data(n)]
    position = {node: index for index, node in enumerate(order)}
    network = nx.DiGraph()
    network.add_nodes_from(("source", "sink"))
    for index, node in enumerate(order):
        weight = _weight(node, outputs, masks)
        network.add_edge(("in", index), ("out", index), **({} if weight is None else {"capacity": weight}))
        if node.op == "sym":
            network.add_edge("source", ("in", index))
        for argument in data_arguments(node):
            if argument in position:
                network.add_edge(("out", position[argument]), ("in", index))
    for root in gradients:
        for top in _data_roots(root, frozenset(position)):
            network.add_edge(("out", position[top]), "sink")
    strict = network.copy()
    strict.add_edges_from(("source", ("in", i)) for i, node in enumerate(order) if is_dear(node))
    try:
        _, (reachable, _) = nx.minimum_cut(strict, "source", "sink")
    except nx.NetworkXUnbounded:  # some product has to be repeated
        _, (reachable, _) = nx.minimum_cut(network, "source", "sink")
    return [node for i, node in enumerate(order) if ("in", i) in reachable and ("out", i) not in reachable]


def is_dear(node: Expr) -> bool:
    """Whether a value costs too much to be computed twice."""
    return node.op in TENSOR_OPS and not TENSOR_OPS[node.op].recompute


def _carries_data(node: Expr) -> bool:
    """Whether the value depends on the data of a tensor of forward (not on a cotangent, nor on shapes alone)."""
    cached: bool | None = node.__dict__.get("carries_data")
    if cached is None:
        if node.op == "sym":
            cached = bool(node.tensors) and node["kind"] not in ("cotangent", "tangent")
        elif any(s["kind"] in ("cotangent", "tangent") for s in node.symbols):
            cached = False
        else:
            cached = any(_carries_data(a) for a in data_arguments(node))
        node.__dict__["carries_data"] = cached
    return cached


def _data_roots(root: Expr, present: frozenset[Expr]) -> list[Expr]:
    """The largest forward values that a gradient reads: those whose users contain a cotangent."""
    if root in present:
        return [root]
    found: dict[Expr, None] = {}
    for node in topological(root, leaves=present):
        if node not in present:
            found.update(dict.fromkeys(a for a in data_arguments(node) if a in present))
    return list(found)


def _weight(node: Expr, outputs: Mapping[Expr, str], masks: bool) -> int | None:
    """Bytes scaled, with a small preference for what is nearer to the gradients; None where not to be saved."""
    if node.op == "sym":
        return (_MASK if node.is_boolean else _FLOAT) * 1000 + 3
    if node.is_boolean:  # it is computed once more when it is saved
        cheap = not any(is_dear(n) for n in topological(node, leaves=frozenset(outputs)) if n not in outputs)
        return _MASK * 1000 + 1 if masks and cheap else None
    return _FLOAT * 1000 + 2 if node in outputs else None


def _describe(value: Expr, outputs: Mapping[Expr, str]) -> Saved:
    if value.op == "sym":
        return Saved(value, "input", _MASK if value.is_boolean else _FLOAT, "an input, which lives anyway")
    if value in outputs:
        return Saved(value, "output", _FLOAT, "the derivative is a function of the output, which lives anyway")
    return Saved(value, "mask", _MASK, "one byte an element in place of the input")


def _intermediates(outputs: Iterable[Expr], gradients: Sequence[Expr], kept: frozenset[Expr]) -> list[Expr]:
    """Float values that forward computes and the gradients need, the dearest first."""
    forward = {n for n in topological(*outputs) if n.args and not n.is_static and not n.is_boolean}
    needed = topological(*gradients, leaves=kept)
    shared = [n for n in needed if n in forward and n not in kept and cost(n) >= _WORTH_KEEPING]
    shared.sort(key=lambda n: -cost(n))
    return shared[:_MOST_EXTRAS]


def remaining_cost(gradients: Sequence[Expr], saved: frozenset[Expr]) -> float:
    """What computing the gradients costs in eager operations when `saved` values are at hand."""
    lowered = machine([*gradients, *saved])
    at_hand = frozenset(lowered[len(gradients) :])
    roots = fuse(lowered[: len(gradients)], at_hand)
    return sum(operation_cost(n) for n in topological(*roots, leaves=at_hand) if n not in at_hand)


def saved_by_composite(formulas: Iterable[Expr], fixed: frozenset[Expr] = frozenset()) -> int:
    """Bytes an element that autograd keeps for the formulas as written, in float32."""
    from symgrad.cost import composite_saves

    return sum(_MASK if value.is_boolean else _FLOAT for value in composite_saves(formulas, fixed))
