"""Second derivatives: what the cotangents of the gradients give to everything that backward reads.

Backward is a function of the saved values and of the cotangents of the outputs. Its vjp is symbolic as the first one
is: each second partial is a formula of its own, and gets the form that is accurate for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from symgrad.compiler.workbench import Workbench
from symgrad.differentiate.modes import is_linear, partials, region_leaves, vjp
from symgrad.differentiate.symbols import cotangent
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.tensors import data_arguments
from symgrad.ops.tensors.shapes import declared_shape
from symgrad.parse import Program
from symgrad.plan.reuse import Derivatives
from symgrad.plan.saving import Plan, Saved

__all__ = ["Second", "second_derivatives", "total_gradients"]


NOT_ASKED = "kernels: all has them"  # where passes serve large calls alone


@dataclass(frozen=True)
class Second:
    """`pulled` holds, by tensor and by what backward reads, what the cotangent of that tensor's gradient gives to it.

    What backward reads are symbols: inputs, outputs that are saved, and cotangents of outputs. The cotangent of the
    gradient of x is the symbol `grad_grad_x`. `wide`: evaluated in float64 for smaller inputs. `missing` says why
    there are none.
    """

    pulled: Mapping[tuple[str, Expr], Expr] = field(default_factory=dict)
    wide: bool = False
    missing: str = ""


_MOST_PARTIALS = 18  # of three tensors and as many outputs; each has a form, which takes time to choose


def total_gradients(
    program: Program, roots: Mapping[str, Expr], derivatives: Derivatives, chosen: Plan
) -> dict[str, Expr]:
    """The gradient of each tensor, to be differentiated: as derived, where backward reads the inputs alone."""
    own = {program.symbols[t]: t for _, t in derivatives.gradients}
    if all(s.source == "input" for s in chosen.base):
        seeds: dict[Expr, Expr] = {}
        for output, root in roots.items():  # of which two may be one formula
            seed = make("expand", cotangent(output), root)
            seeds[root] = seeds[root] + seed if root in seeds else seed
        return {own[tensor]: gradient for tensor, gradient in vjp(seeds, own).items()}
    totals: dict[str, list[Expr]] = {}
    for (output, t), gradient in derivatives.gradients.items():
        root = roots[output]
        expanded = make("expand", cotangent(output), root)
        totals.setdefault(t, []).append(substitute(gradient, {cotangent(output, root): expanded}))
    return {t: ex.add(*gradients) for t, gradients in totals.items()}


def second_derivatives(
    gradients: Mapping[str, Expr],
    tensors: Mapping[str, Expr],
    outputs: Mapping[str, Expr],
    saved: tuple[Saved, ...],
    bench: Workbench,
) -> Second:
    """The second derivatives of a variant.

    `gradients` are the whole gradients by tensor, in terms of `tensors`, of the values in `saved` and of cotangents
    expanded to the shapes of their outputs; `outputs` the forms of all outputs that have a cotangent.
    """
    if any(node.op == "boundary" for node in topological(*gradients.values())):
        return Second(missing="a formula that is divided")
    names = {form: name for name, form in outputs.items() if form.op != "sym"}
    if any(s.value.op != "sym" and s.value not in names for s in saved):
        return Second(missing="a value that is kept")
    read = {s.value: _variable(names[s.value], s.value) for s in saved if s.value.op != "sym"}
    cotangents = frozenset(cotangent(o) for o in outputs)
    leaves = [leaf for s in saved if (leaf := read.get(s.value, s.value))["kind"] == "tensor"]
    gradients = {tensor: substitute(gradient, read) for tensor, gradient in gradients.items()}
    if sum(len(_data(g) & {*leaves, *cotangents}) for g in gradients.values()) > _MOST_PARTIALS:
        return Second(missing=f"more than {_MOST_PARTIALS} second partials")
    known = frozenset(bench.slopes)
    pulled: dict[tuple[str, Expr], Expr] = {}
    for tensor, gradient in gradients.items():
        seeds = {gradient: cotangent(f"grad_{tensor}", tensors[tensor])}
        found = vjp(seeds, [*leaves, *cotangents], _linear_parts(bench.slope_form, cotangents))
        for leaf in [leaf for leaf in (*leaves, *map(cotangent, outputs)) if leaf in found]:
            form = bench.finish(_bare(found[leaf], cotangents))
            if form.is_differential:  # or it is 0: it is linear in cotangents
                pulled[tensor, leaf] = form
    return Second(pulled, any(choice.chosen.wide for flat, choice in bench.slopes.items() if flat not in known))


def _data(root: Expr) -> set[Expr]:
    """What a value is computed from, without what it has its shape from alone."""
    found, pending = {root}, [root]
    while pending:
        below = set(data_arguments(pending.pop())) - found
        found |= below
        pending += below
    return found


def _variable(name: str, form: Expr) -> Expr:
    """A saved output as a variable, with its shape where that is known."""
    return symbol(name, "tensor", declared_shape(form))


def _bare(root: Expr, cotangents: frozenset[Expr]) -> Expr:
    """The value with the cotangents of outputs as they are, which have the shapes of these anyway."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(root):
        args = [mapped[a] for a in node.args]
        mapped[node] = args[0] if node.op == "expand" and args[0] in cotangents else rebuild(node, args)
    return mapped[root]


def _linear_parts(settle: Callable[[Expr], Expr], variables: frozenset[Expr]) -> Callable[[Expr], Expr]:
    """A choice of forms that looks at what multiplies each variable, for values that are linear in them."""

    def chosen(partial: Expr) -> Expr:
        leaves = region_leaves(partial)
        varying = [leaf for leaf in leaves if leaf.op != "count" and variables & leaf.symbols]
        if not varying or not is_linear(partial, frozenset(varying)):
            return settle(partial)
        slopes = partials(partial, varying)
        return ex.add(*(settle(slopes[leaf]) * leaf for leaf in varying))

    return chosen
