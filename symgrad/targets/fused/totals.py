"""Sums over everything that a formula calculates with: what a pass sums, and what is made of the sums after it.

In the formulas of a pass such a sum is a number that has a name. Forward sums it beside its results, and what follows
from it is calculated once, when the pass is done. Backward is given it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from symgrad.differentiate.modes import partials
from symgrad.differentiate.ties import released
from symgrad.ir import expr as ex
from symgrad.ir.expr import COMPARISONS, Expr, symbol
from symgrad.ir.traversal import substitute, topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors.extent import Dim, extent
from symgrad.targets.fused.model import Kernel, Operand, Result
from symgrad.targets.fused.terms import ELEMENTS, ROWS, TOTAL, Unsupported, Value, View, is_count, is_total

if TYPE_CHECKING:
    from symgrad.targets.fused.elements import Elements

__all__ = [
    "FINISHED",
    "FOLLOWS",
    "finished",
    "is_finished",
    "is_late",
    "late_of",
    "named_total",
    "over_pass",
    "pass_shape",
    "require_known",
    "spread",
    "with_finish",
]

FINISHED = "finished"  # the kind of an output that follows from sums
FOLLOWS = "what follows a reduction to a number"
# What may follow from sums, beside functions of numbers and powers.
_FINISHING = frozenset({"num", "const", "add", "mul", "where", "held", *COMPARISONS})


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
    outside = [f for f in factors if _may_follow(elements, f)]  # one sum serves all multiples of it
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
    late = late_of(elements, [value for _, value in values])
    if not any(late):
        return [result for result, _ in values], ()
    results = [result for (result, _), after in zip(values, late, strict=True) if not after]
    sums: dict[Expr, str] = {}
    for (_, value), after in zip(values, late, strict=True):
        order = topological(value.expr)
        totals = [n for n in order if is_total(n)]
        of_all = not (value.dropped or value.total or value.dims is not None)
        if (totals or after) and not (of_all and all(_is_plain(n, elements) for n in order)):
            raise Unsupported(FOLLOWS)
        sums |= {leaf: f"total{len(sums) + k}" for k, leaf in enumerate(t for t in totals if t not in sums)}
    for leaf, name in sums.items():
        own = elements.totals[leaf]
        results.append(Result(name, own.expr, total="sum", row="row" if own.dropped else "", leaf=leaf))
    forms = (v.expr if after else _computed(r) for (r, v), after in zip(values, late, strict=True))
    return results, tuple(forms)


def _computed(result: Result) -> Expr:
    """The symbol of a result in what follows from a pass."""
    return symbol(result.name, "tensor")


def is_late(result: Result, form: Expr) -> bool:
    """Whether an output is calculated after the pass, and is not a result of it."""
    return form is not _computed(result)


def late_of(elements: Elements, values: Sequence[Value]) -> list[bool]:
    """Which of several values follow from sums over everything, and numbers beside such."""
    found = [is_finished(value.expr) for value in values]
    return [own or (any(found) and elements.is_number(v)) for own, v in zip(found, values, strict=True)]


def is_finished(value: Expr) -> bool:
    """Whether a value is made of sums over everything."""
    return any(map(is_total, value.symbols))


def _may_follow(elements: Elements, factor: Expr) -> bool:
    """Whether a factor is one for all elements, and may be applied after the pass."""
    return elements.is_number(Value(factor)) and all(_is_plain(n, elements) for n in topological(factor))


def _is_plain(node: Expr, elements: Elements) -> bool:
    """Whether a node is a hyperparameter, a tensor without dimensions, or what is a call or an operator in torch."""
    if node.op == "sym" and not node.tensors:
        return node["kind"] in ("float", "int") and not is_count(node)
    if node.op == "sym":
        return is_total(node) or (node["kind"] not in ("int_tensor", "bool_tensor") and elements.is_number(Value(node)))
    if node.op == "pow":
        return node.args[1].is_static
    return node.op in _FINISHING or node.op in FUNCTIONS


def spread(elements: Elements, value: Value) -> Value:
    """A number that is made of sums over everything as a sum over everything itself. Raises Unsupported.

    Where it is linear in them, each element gives what it gives to them, and an equal part of the rest; else they have
    to be known.
    """
    expr = released(value.expr)
    totals = [n for n in topological(expr) if is_total(n)]
    of_rows = {elements.totals[t].dropped for t in totals}
    if len(of_rows) > 1:
        raise Unsupported(FOLLOWS)
    dropped = of_rows == {True}
    count = ROWS if dropped else ELEMENTS
    if not _is_affine(expr, totals):
        return Value(expr / count, dropped, total="sum")
    slopes = partials(expr, totals)
    constant = substitute(expr, dict.fromkeys(totals, ex.ZERO))
    parts = [ex.mul(slopes[t], elements.totals[t].expr) for t in totals]
    return Value(ex.add(constant / count, *parts), dropped, total="sum")


def _is_affine(value: Expr, totals: Sequence[Expr]) -> bool:
    """Whether a value is a constant and multiples of totals."""
    for node in topological(value):
        made = sum(not a.symbols.isdisjoint(totals) for a in node.args)
        if made and (node.op not in ("add", "mul") or (node.op == "mul" and made > 1)):
            return False
    return True


def with_finish(
    kernel: Kernel, finish: tuple[Expr, ...], outputs: Sequence[Result], operands: Sequence[Operand]
) -> Kernel:
    """A pass with what follows from its sums, if anything does, and from those of the operands that are read then."""
    if not finish:
        return kernel
    if kernel.wide:
        raise Unsupported("a total in float64")
    named = list(zip(outputs, finish, strict=True))
    own = tuple(replace(r, total=FINISHED) if is_late(r, form) else r for r, form in named)
    read = frozenset().union(*(form.symbols for form in finish)) - set(kernel.numbers)
    more = sorted((s for s in read if not s.tensors), key=lambda s: s.name)
    after = frozenset(s for r, form in named if is_late(r, form) for s in form.symbols)
    late = tuple(o for o in operands if o.leaf in after)
    return replace(kernel, finish=finish, late=late, outputs=own, numbers=(*more, *kernel.numbers))


def require_known(values: Sequence[Expr], totals: Sequence[Expr]) -> None:
    """Raise Unsupported where a pass would have to be given a sum that none before it has."""
    if any(is_total(s) and s not in totals for value in values for s in value.symbols):
        raise Unsupported("a total that no pass before it sums")
