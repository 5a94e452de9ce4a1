"""Operations of differences: backward needs the differences alone, not all of their operands.

A loss of `input - target` reads its tensors through one sum, and a ranking loss through two. Autograd on the composite
keeps these sums where a Function of inputs would keep every operand. A sum may be kept without losing second
derivatives if it is an output of its own, whose incoming cotangent is used: on a plain call the operation then returns
it beside its results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from symgrad import expr as ex
from symgrad.differentials import tangent
from symgrad.expr import Expr, make, symbol
from symgrad.parse import Program
from symgrad.shapes import declared_shape
from symgrad.spec.model import Formula, Output, Tensor
from symgrad.traversal import rebuild, substitute, topological


@dataclass(frozen=True)
class Pivot:
    """`value`, a sum of tensors with Python coefficients, and the symbol that stands for it inside."""

    value: Expr
    coefficients: Mapping[str, Expr]
    stand_in: Expr

    @property
    def name(self) -> str:
        """What generated code calls it."""
        return self.stand_in.name

    @property
    def whole(self) -> Expr:
        """The sum as one operand, which sums around it do not take apart."""
        return make("held", self.value)

    def tangent(self, tensor: str) -> Expr:
        """The tangent of the sum from that of one tensor."""
        return make("expand", self.coefficients[tensor] * tangent(tensor), self.stand_in)


@dataclass(frozen=True)
class Pivots:
    """The sums through which alone the outputs read some tensors; `inner` is the operation as a function of them."""

    sums: tuple[Pivot, ...]
    inner: Program

    def of(self, tensor: str) -> tuple[Pivot, ...]:
        """The sums that read a tensor."""
        return tuple(p for p in self.sums if tensor in p.coefficients)

    def outside(self, expression: Expr) -> Expr:
        """An expression in the sums as one in the tensors, to compute."""
        return substitute(expression, {p.stand_in: p.whole for p in self.sums})

    def written(self, expression: Expr) -> Expr:
        """An expression in the sums as one in the tensors, to read."""
        return substitute(expression, {p.stand_in: p.value for p in self.sums})


def find_pivots(program: Program) -> Pivots | None:
    """The sums through which an operation reads several tensors, if there are any."""
    if program.gradients or program.spec.options.inplace:
        return None
    sums = sorted(_sums(program), key=lambda n: -n.size)
    one_by_one = ([node] for node in sums)
    return next(filter(None, (_pivots(program, some) for some in (*one_by_one, sums))), None)


def _sums(program: Program) -> Iterator[Expr]:
    """The sums of several tensors that can be kept."""
    tensors = {t.name: t for t in program.spec.tensors}
    for node in topological(*program.outputs.values()):
        own = [tensors[name] for name in _coefficients(node) or ()]
        declared = any(t.shape is not None for t in program.spec.tensors)
        placed = not declared or declared_shape(node) is not None
        if len(own) > 1 and placed and all(t.default is None for t in own) and node not in program.outputs.values():
            yield node


def _pivots(program: Program, sums: Collection[Expr]) -> Pivots | None:
    """Those sums in place of their tensors, if they are fewer and the outputs read these tensors nowhere else."""
    found: list[Pivot] = []
    inside = dict(program.outputs)
    for node in sums:
        if any(node in topological(root) for root in inside.values()):
            coefficients = _coefficients(node) or {}
            stand_in = symbol(_name(program, node, found), "tensor", declared_shape(node))
            found.append(Pivot(node, coefficients, stand_in))
            inside = {o: _with(stand_in, node, root) for o, root in inside.items()}
    gone = {name for p in found for name in p.coefficients}
    if len(found) >= len(gone) or any(program.symbols[t] in root.symbols for root in inside.values() for t in gone):
        return None
    return Pivots(tuple(found), _inner(program, found, gone, inside))


def _with(stand_in: Expr, total: Expr, root: Expr) -> Expr:
    """The formula with a symbol for a sum, also where that is a part of a larger sum, or of its negative."""
    mapped: dict[Expr, Expr] = {}
    signed = ((ex.ONE, frozenset(total.args)), (ex.num(-1), frozenset(-term for term in total.args)))
    for node in topological(root):
        mapped[node] = rebuild(node, [mapped[a] for a in node.args])
        for sign, terms in signed if node.op == "add" else ():
            if terms.issubset(node.args):
                mapped[node] = ex.add(sign * stand_in, *(mapped[a] for a in node.args if a not in terms))
    return mapped[root]


def _coefficients(node: Expr) -> dict[str, Expr] | None:
    """The Python coefficient of each tensor in a sum of tensors; None for anything else."""
    if node.op != "add":
        return None
    found: dict[str, Expr] = {}
    for term in node.args:
        if term.is_static:
            continue
        factors = term.args if term.op == "mul" else (term,)
        tensors = [f for f in factors if not f.is_static]
        if len(tensors) != 1 or tensors[0].op != "sym" or tensors[0]["kind"] != "tensor" or tensors[0].name in found:
            return None
        found[tensors[0].name] = ex.mul(*(f for f in factors if f.is_static))
    return found


def _name(program: Program, node: Expr, others: Collection[Pivot]) -> str:
    """The name that the spec gives the sum, or a free one."""
    for name, value in program.lets.items():
        if value is node:
            return name
    taken = {*program.symbols, *program.outputs, *program.lets, *(p.name for p in others)}
    wishes = (f"diff{k if k > 1 else ''}" for k in count(1))
    return next(wish for wish in wishes if wish not in taken)


def _inner(program: Program, sums: Collection[Pivot], gone: Collection[str], outputs: Mapping[str, Expr]) -> Program:
    spec = program.spec
    rest = tuple(t for t in spec.tensors if t.name not in gone)
    place = spec.tensors[0].location
    tensors = (*(Tensor(p.name, place, shape=p.stand_in.get("shape")) for p in sums), *rest)
    symbols = {n: s for n, s in program.symbols.items() if n not in gone} | {p.name: p.stand_in for p in sums}
    return replace(program, spec=replace(spec, tensors=tensors), symbols=symbols, outputs=dict(outputs))


def with_outputs(program: Program, pivots: Pivots) -> Program:
    """The program that also returns the sums."""
    from symgrad.formula import formula

    spec = program.spec
    place = spec.outputs[0].location
    extra = (Output(Formula(p.name, formula(p.value), place)) for p in pivots.sums)
    return replace(
        program,
        spec=replace(spec, outputs=(*spec.outputs, *extra)),
        outputs={**program.outputs, **{p.name: p.value for p in pivots.sums}},
    )
