"""Gradients that a spec gives in place of the derived ones, and what forward mode makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from symgrad.compiler.workbench import Workbench
from symgrad.differentiate.modes import is_linear, vjp
from symgrad.differentiate.symbols import cotangent, tangent
from symgrad.ir import expr as ex
from symgrad.ir.expr import ZERO, Expr, add, make, symbol
from symgrad.ir.traversal import substitute, transform
from symgrad.ops.tensors.shapes import absorbed, declared_shape, same_shape, shape_sources
from symgrad.ops.tensors.shaping import squeeze
from symgrad.parse import Program
from symgrad.parse.alignment import side_by_side

__all__ = ["Override", "override"]


@dataclass(frozen=True)
class Override:
    """A gradient that the spec gives; `transposed` is the jvp of a linear one (output -> tangent), else None.

    `gradient` is what is emitted for `given`, which is as it was written.

    Of several outputs `terms` are what each cotangent alone contributes, linearly, and under None all the rest; there
    are none where that is the whole gradient.
    """

    gradient: Expr
    given: Expr
    transposed: Mapping[str, Expr] | None
    terms: Mapping[str | None, Expr] = field(default_factory=dict)

    @property
    def rest(self) -> Expr:
        """What is not linear in one cotangent."""
        return self.terms.get(None, ZERO) if self.terms else self.gradient


def override(program: Program, formulas: Mapping[str, Expr], tensor: str, gradient: Expr, bench: Workbench) -> Override:
    """The gradient of a tensor that the spec gives, where the outputs are `formulas`.

    It may be smaller than the tensor, which it then broadcasts to, as the gradient of a sum does.
    """
    own = {o: cotangent(o, formulas[o]) for o in program.cotangents}
    gradient = substitute(gradient, {program.cotangents[o]: symbol_ for o, symbol_ in own.items()})
    cotangents = frozenset(own.values()) & gradient.symbols
    values = {symbol_: formulas[o] for o, symbol_ in own.items()}
    parts = _by_output(gradient, own, values) if len(own) > 1 else {}
    terms = {o: _settled(_of_shape(part, program.symbols[tensor], values), bench) for o, part in parts.items()}
    gradient = _of_shape(gradient, program.symbols[tensor], values)
    settled = add(*terms.values()) if terms else _settled(gradient, bench)
    if not is_linear(gradient, cotangents):
        return Override(settled, gradient, None, terms)
    given = settled if is_linear(settled, cotangents) else gradient
    transposed: dict[str, Expr] = {}
    for output in [o for o, symbol_ in own.items() if symbol_ in cotangents]:
        # A cotangent stands for a value of the output's shape while the map is transposed.
        value = formulas[output]
        stand_in = symbol(own[output].name, "tensor", declared_shape(value))
        forward = substitute(given, {own[output]: stand_in})
        pulled = vjp({forward: tangent(tensor)}, [stand_in])
        if stand_in in pulled:
            pushed = _without_reductions(
                substitute(pulled[stand_in], {stand_in: value}), value, program.symbols[tensor], tangent(tensor)
            )
            transposed[output] = bench.finish(pushed)
    return Override(settled, gradient, transposed, terms)


def _settled(gradient: Expr, bench: Workbench) -> Expr:
    recognised, _ = bench.recognise(gradient)
    return bench.finish(bench.settle(recognised))


def _by_output(gradient: Expr, own: Mapping[str, Expr], values: Mapping[Expr, Expr]) -> dict[str | None, Expr]:
    """The terms of a gradient by the output in whose cotangent alone they are linear, the others first, under None.

    None at all where one is perhaps smaller than the others: in their sum it counts for each of their elements.
    """
    parts: dict[str | None, list[Expr]] = {output: [] for output in (None, *own)}
    for term in gradient.terms:
        read = [output for output, symbol_ in own.items() if symbol_ in term.symbols]
        linear = len(read) == 1 and is_linear(term, frozenset({own[read[0]]}))
        parts[read[0] if linear else None].append(term)
    found = {output: add(*terms) for output, terms in parts.items() if terms}
    whole = substitute(gradient, values)
    alike = all(same_shape(shape_sources(substitute(part, values)), whole) for part in found.values())
    return found if alike and set(found) != {None} else {}


def _of_shape(gradient: Expr, tensor: Expr, values: Mapping[Expr, Expr]) -> Expr:
    """A gradient with at least the shape of its tensor, to which it is summed in the end.

    `values` are those that have the shapes of the cotangents.
    """
    if gradient is ex.ZERO:
        return gradient
    if gradient.is_static:
        return make("expand", gradient, tensor)
    gradient, like = side_by_side(gradient, tensor)
    whole = shape_sources(substitute(gradient, values))
    if like is not tensor:
        return squeeze(make("conform", gradient, like), *like["dim"])
    if same_shape(whole | shape_sources(like), substitute(gradient, values)):
        return gradient
    return make("conform", gradient, like)


def _without_reductions(root: Expr, like: Expr, tensor: Expr, pushed: Expr) -> Expr:
    """A tangent without sums to the shape of its output, `like`, where the tensor and others have no larger one."""
    own = shape_sources(like)

    def visit(node: Expr) -> Expr:
        if node.op != "sum_to" or node.args[1] is not like:
            return node
        sources = shape_sources(substitute(node.args[0], {pushed: tensor}))
        return node.args[0] if absorbed(sources | own) == own else make("conform", *node.args)

    return transform(root, visit)
