"""Decides what backward reads in place of what it was derived from: where the plan gains and the accuracy allows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import substitute, topological
from symgrad.ir.truth import compare
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.plan.saving import Plan, rank
from symgrad.rules.output_reuse import OUTPUT_REUSE

_ALLOWED = 4.0  # ulp in float32 that a derivative in terms of the output may be off

K = TypeVar("K")


@dataclass(frozen=True)
class Derivatives:
    """Gradients, tangents and partials of a variant, which are rewritten together."""

    gradients: Mapping[tuple[str, str], Expr]
    tangents: Mapping[tuple[str, str], Expr]
    partials: Mapping[tuple[str, str], Expr]

    def replaced(self, part: Expr, replacement: Expr, kept: Iterable[Expr] = ()) -> Derivatives:
        """All of them with `part` replaced, though not inside of values that are `kept`.

        In partials results of whole tensors stand for themselves.
        """
        pair = {**{value: value for value in kept}, part: replacement}
        partials = self.partials if part.op in TENSOR_OPS else _map(self.partials, pair)
        return Derivatives(_map(self.gradients, pair), _map(self.tangents, pair), partials)


def _map(values: Mapping[K, Expr], pair: Mapping[Expr, Expr]) -> dict[K, Expr]:
    return {key: substitute(value, pair) for key, value in values.items()}


def reuse_outputs(
    derivatives: Derivatives,
    outputs: Mapping[str, Expr],
    make_plan: Callable[[Derivatives], Plan],
    error: Callable[[Mapping[tuple[str, str], Expr]], float],
    policy: str,
) -> tuple[Derivatives, Plan]:
    """The derivatives, in terms of outputs where that pays, and their plan.

    `make_plan` plans derivatives; `error` is the worst float32 error in ulp of partials.
    """
    best = make_plan(derivatives)
    for part, replacement, trusted in _replacements(derivatives, outputs, policy):
        candidate = derivatives.replaced(part, replacement, outputs.values())
        if candidate == derivatives or not (trusted or error(candidate.partials) <= _ALLOWED):
            continue
        plan = make_plan(candidate)
        if rank(plan, policy) < rank(best, policy):
            derivatives, best = candidate, plan
    return derivatives, best


def _replacements(
    derivatives: Derivatives, outputs: Mapping[str, Expr], policy: str
) -> Iterator[tuple[Expr, Expr, bool]]:
    """Parts, what may stand for them, and whether that is accurate enough without a measurement."""
    for output in outputs.values():
        for reuse in OUTPUT_REUSE:
            found = reuse.at(output)
            if found is not None:
                yield *found, policy == "memory" and reuse.autograd
    # Where an argument is positive its relu is, which is read anyway: then only one of them has to be kept.
    for node in topological(*derivatives.gradients.values()):
        if node.op == "relu" and node not in outputs.values():
            yield compare("gt", node.args[0], 0), compare("gt", node, 0), True
    # exp(log_softmax(a)) is one operation where the logarithm is not at hand.
    for node in topological(*derivatives.gradients.values()):
        if node.op == "exp" and node.args[0].op == "log_softmax":
            yield node, make("softmax", *node.args[0].args, **dict(node.args[0].attrs)), True
    # What was sorted is picked from its operand where the indices are kept, rather than sorted again.
    for node in topological(*derivatives.gradients.values()):
        row = TENSOR_OPS.get(node.op)
        if row is not None and row.jvp is not None and "i" in row.saves and node not in outputs.values():
            picked = row.jvp(node, node.args)  # linear, once it is known which elements these are
            if picked is not None:
                yield node, picked, True
