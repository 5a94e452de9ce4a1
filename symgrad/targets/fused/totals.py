"""Sums over everything that a formula calculates with: what a pass sums, and what is made of the sums after it.

In the formulas of a pass such a sum is a number that has a name. Forward sums it beside its results, and what follows
from it is calculated once, when the pass is done. Backward is given it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, symbol
from symgrad.ir.traversal import topological
from symgrad.ops.tensors.extent import Dim, extent
from symgrad.targets.fused.model import Kernel, Result
from symgrad.targets.fused.terms import ELEMENTS, ROWS, TOTAL, Unsupported, Value, View, is_count, is_total

if TYPE_CHECKING:
    from symgrad.targets.fused.elements import Elements

__all__ = [
    "FINISHED",
    "FOLLOWS",
    "finished",
    "is_finished",
    "named_total",
    "over_pass",
    "pass_shape",
    "require_known",
    "with_finish",
]

FINISHED = "finished"  # the kind of an output that follows from sums
FOLLOWS = "what follows a reduction to a number"
# What may follow from sums, beside powers.
_FINISHING = frozenset(
    {"num", "const", "add", "mul", "exp", "expm1", "log", "log1p", "where", "lt", "le", "gt", "ge", "max", "min"}
)


def pass_shape(formulas: Sequence[Expr]) -> tuple[Dim, ...] | None:
    """The declared shape of a pass, if each of its dimensions has one name or size, but for ones that broadcast."""
    known = [extent(n) for n in topological(*formulas) if not n.is_static]
    if not known or not all(e.exact for e in known):
        return None
    rank = max(len(e.dims) for e in known)
    found = [{e.dims[d] for e in known if len(e.dims) == rank} - {1} for d in range(-rank, 0)]
    return tuple(next(iter(own), 1) for own in found) if all(len(own) <= 1 for own in found) else None


def over_pass(elements: Elements, value: Value) -> Value:
    """A sum over everything as one over the elements of the pass, or over its rows. Raises Unsupported."""
    over, shape = value.over, elements.shape
    if over is None:
        raise Unsupported(FOLLOWS)
    if elements.one_shape:
        if over.exact or over.dims or value.dropped:
            raise Unsupported(FOLLOWS)
    elif shape is None or not over.exact:
        raise Unsupported(FOLLOWS)
    elif over.dims == shape[:-1] and not value.dropped:
        value = replace(value, expr=elements.lifted(value.expr, (-1,)), dropped=True)
    elif over.dims != (shape[:-1] if value.dropped else shape):
        raise Unsupported("totals of different shapes")
    return value


def named_total(elements: Elements, value: Value) -> Value:
    """A sum over everything as the number that it is.

    What is summed has an element for each of the pass, or for each of its rows. Where no shape is declared, it has
    so in a pass over tensors of one shape.
    """
    value = over_pass(elements, value)
    factors = value.expr.args if value.expr.op == "mul" else (value.expr,)
    outside = [f for f in factors if f.number is not None]  # one sum serves all multiples of it
    expr = ex.mul(
        *(f for f in factors if f not in outside),
        *([] if value.total == "sum" else [1 / (ROWS if value.dropped else ELEMENTS)]),
    )
    leaf = symbol(f"{TOTAL}{'of rows ' if value.dropped else ''}{expr.digest.hex()[:16]}", "tensor", ())
    elements.totals[leaf] = replace(value, expr=expr, total="sum")
    elements.views[leaf] = View(leaf)
    return Value(ex.mul(leaf, *outside))


def finished(values: Sequence[tuple[Result, Value]], elements: Elements) -> tuple[list[Result], tuple[Expr, ...]]:
    """What a pass computes for its outputs, and how each follows from it; nothing follows where they are it themselves.

    What a pass computes comes with its name: first outputs, then sums.
    """
    if not any(is_finished(value.expr) for _, value in values):
        return [result for result, _ in values], ()
    results = [result for result, value in values if not is_finished(value.expr)]
    sums: dict[Expr, str] = {}
    for _, value in values:
        order = topological(value.expr)
        totals = [n for n in order if is_total(n)]
        if totals and (value.dropped or value.total or value.dims is not None or not all(map(_is_plain, order))):
            raise Unsupported(FOLLOWS)
        sums |= {leaf: f"total{len(sums) + k}" for k, leaf in enumerate(t for t in totals if t not in sums)}
    for leaf, name in sums.items():
        own = elements.totals[leaf]
        results.append(Result(name, own.expr, total="sum", row="row" if own.dropped else "", leaf=leaf))
    return results, tuple(v.expr if is_finished(v.expr) else symbol(r.name, "tensor") for r, v in values)


def is_finished(value: Expr) -> bool:
    """Whether a value is made of sums over everything."""
    return any(map(is_total, value.symbols))


def _is_plain(node: Expr) -> bool:
    """Whether a node is a hyperparameter, or what is a call or an operator in torch."""
    if node.op == "sym" and not node.tensors:
        return node["kind"] in ("float", "int") and not is_count(node)
    if node.op == "pow":
        return node.args[1].is_static
    return is_total(node) or node.op in _FINISHING


def with_finish(kernel: Kernel, finish: tuple[Expr, ...], outputs: Sequence[Result]) -> Kernel:
    """A pass with what follows from its sums, if anything does."""
    if not finish:
        return kernel
    if kernel.wide:
        raise Unsupported("a total in float64")
    named = zip(outputs, finish, strict=True)
    own = tuple(replace(r, total=FINISHED) if is_finished(form) else r for r, form in named)
    read = frozenset().union(*(form.symbols for form in finish)) - set(kernel.numbers)
    more = sorted((s for s in read if not s.tensors), key=lambda s: s.name)
    return replace(kernel, finish=finish, outputs=own, numbers=(*more, *kernel.numbers))


def require_known(values: Sequence[Expr], totals: Sequence[Expr]) -> None:
    """Raise Unsupported where a pass would have to be given a sum that none before it has."""
    if any(is_total(s) and s not in totals for value in values for s in value.symbols):
        raise Unsupported("a total that no pass before it sums")
