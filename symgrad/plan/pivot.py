"""Operations of differences and totals: backward needs these alone, not all of their operands.

A loss of `input - target` reads its tensors through one sum, a ranking loss through two, and an activation of a mean
over rows reads the rows through their means. Autograd on the composite keeps these values where a Function of inputs
would keep every operand. Such a value may be kept without losing second derivatives if it is an output of its own,
whose incoming cotangent is used: on a plain call the operation then returns it beside its results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from symgrad.analysis.sizes import elements
from symgrad.differentiate.modes import jvp, vjp
from symgrad.differentiate.symbols import tangent
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.shapes import declared_shape
from symgrad.parse import Program
from symgrad.parse.formula import formula
from symgrad.plan.hoist import hoisted
from symgrad.spec.model import Formula, Output, Tensor

_SMALLER = 0.75  # of the elements of the tensors: more sums than tensors are no gain unless they are much smaller


@dataclass(frozen=True)
class Pivot:
    """`value`, linear in its `own` tensors, and the symbol that stands for it inside.

    `coefficients` are the Python coefficients of the tensors, where the value is a sum of these and of nothing else.
    """

    value: Expr
    own: Mapping[str, Expr]
    coefficients: Mapping[str, Expr]
    stand_in: Expr

    @property
    def name(self) -> str:
        """What generated code calls it."""
        return self.stand_in.name

    @property
    def whole(self) -> Expr:
        """The value as one operand, which sums around it do not take apart."""
        return make("held", self.value)

    def pulled(self, tensor: str, gradient: Expr) -> Expr:
        """A gradient of the value as one of a tensor; where that has a factor alone, not yet summed to its shape."""
        if self.coefficients:
            inside = gradient.args[0] if gradient.op == "sum_to" else gradient
            return self.coefficients[tensor] * inside
        symbol = self.own[tensor]
        return hoisted(vjp({self.value: gradient}, [symbol])[symbol])

    def tangent(self, tensor: str) -> Expr:
        """The tangent of the value from that of one tensor."""
        if self.coefficients:
            return self.coefficients[tensor] * tangent(tensor)
        return jvp([self.value], {self.own[tensor]: tangent(tensor)})[self.value]


@dataclass(frozen=True)
class Pivots:
    """The sums through which alone gradients read the `spared` tensors; `inner` is the operation in terms of them."""

    sums: tuple[Pivot, ...]
    spared: frozenset[str]
    inner: Program

    def of(self, tensor: str) -> tuple[Pivot, ...]:
        """The sums that read a tensor."""
        return tuple(p for p in self.sums if tensor in p.own)

    def outside(self, expression: Expr) -> Expr:
        """An expression in the sums as one in the tensors, to compute."""
        return substitute(expression, {p.stand_in: p.whole for p in self.sums})

    def written(self, expression: Expr) -> Expr:
        """An expression in the sums as one in the tensors, to read."""
        return substitute(expression, {p.stand_in: p.value for p in self.sums})


def find_pivots(program: Program, saved: Collection[str]) -> Pivots | None:
    """The sums through which an operation reads `saved` tensors, where they are fewer or much smaller than these."""
    if program.gradients or program.spec.options.inplace:
        return None
    sums = sorted(_sums(program), key=lambda n: -n.size)
    tried = filter(None, (_pivots(program, saved, some) for some in (*([node] for node in sums), sums)))
    best = min(tried, key=lambda pivots: _kept(pivots) - _spared(program, pivots), default=None)
    if best is None or len(best.sums) < len(best.spared) or _kept(best) < _SMALLER * _spared(program, best):
        return best
    return None


def _kept(pivots: Pivots) -> float:
    return sum(elements(p.value) for p in pivots.sums)


def _spared(program: Program, pivots: Pivots) -> float:
    return sum(elements(program.symbols[name]) for name in pivots.spared)


def _sums(program: Program) -> Iterator[Expr]:
    """The linear values that can be kept: of several tensors, or smaller than the one."""
    tensors, fixed = {program.symbols[t.name]: t for t in program.spec.tensors}, program.fixed
    declared = any(t.shape is not None for t in tensors.values())
    readable = {program.outputs[o.name] for o in program.spec.outputs if o.grad}  # backward reads these as they are
    for node in dict.fromkeys(map(_without_constant, topological(*program.outputs.values()))):
        if node.op == "sym" or _without_factor(node) is not node or node in readable:
            continue
        own = _variables(node, fixed)
        if own is None:
            continue
        less = len(own) > 1 or elements(node) < max(map(elements, own))
        placed = not declared or declared_shape(node) is not None or _is_reduction(node)
        if less and placed and all(tensors[s].default is None for s in node.tensors):
            yield node


def _pivots(program: Program, saved: Collection[str], sums: Collection[Expr]) -> Pivots | None:
    """Those sums in place of their tensors, as far as that spares a `saved` one; None where nothing is left."""
    fixed = program.fixed
    found: list[Pivot] = []
    inside = dict(program.outputs)
    for node in sums:
        stand_in = symbol(_name(program, node, found), "tensor", declared_shape(node))
        replaced = {o: _with(stand_in, node, root) for o, root in inside.items()}
        if replaced != inside:
            own = {s.name: s for s in _variables(node, fixed) or ()}
            found.append(Pivot(node, own, _coefficients(node), stand_in))
            inside = replaced
    read = {s.name for o in program.spec.outputs if o.grad for s in inside[o.name].symbols}
    spared = frozenset(name for p in found for name in p.own if name in saved and name not in read)
    useful = [p.value for p in found if spared & p.own.keys()]
    if len(useful) < len(found):
        return _pivots(program, saved, useful) if useful else None
    gone = {name for p in found for name in p.own} - {s.name for root in inside.values() for s in root.symbols}
    return Pivots(tuple(found), spared, _inner(program, found, gone, inside)) if found else None


def _with(stand_in: Expr, total: Expr, root: Expr) -> Expr:
    """The formula with a symbol for a sum, also where that is a part of a larger sum, or of its negative."""
    if total.op != "add":
        return substitute(root, {total: stand_in})
    mapped: dict[Expr, Expr] = {}
    signed = ((ex.ONE, frozenset(total.args)), (ex.num(-1), frozenset(-term for term in total.args)))
    for node in topological(root):
        mapped[node] = rebuild(node, [mapped[a] for a in node.args])
        for sign, terms in signed if node.op == "add" else ():
            if terms.issubset(node.args):
                mapped[node] = ex.add(sign * stand_in, *(mapped[a] for a in node.args if a not in terms))
    return mapped[root]


def _variables(node: Expr, fixed: frozenset[Expr]) -> frozenset[Expr] | None:
    """The tensors in which a value is linear, by sums, reductions, choices and factors of `fixed` tensors.

    None where it is not linear in all others.
    """
    if node.op == "sym":
        return frozenset({node}) if node["kind"] == "tensor" else None
    if node.op == "mul":
        varying = [f for f in node.args if not f.tensors <= fixed]
        return _variables(varying[0], fixed) if len(varying) == 1 else None
    if node.op == "where" and (node.args[0].is_static or not node.args[0].tensors <= fixed):
        return None
    if node.op not in ("add", "where") and not _is_reduction(node):
        return None
    parts = [_variables(_without_factor(a), fixed) for a in node.args if not (a.is_static or a.is_boolean)]
    return frozenset().union(*(part or () for part in parts)) if parts and None not in parts else None


def _without_constant(node: Expr) -> Expr:
    """A sum without its Python terms: rounded with them, it would lose what is small beside them."""
    return ex.add(*(term for term in node.args if not term.is_static)) if node.op == "add" else node


def _without_factor(term: Expr) -> Expr:
    """A term without its Python coefficient."""
    return ex.mul(*(f for f in term.args if not f.is_static)) if term.op == "mul" else term


def _is_reduction(node: Expr) -> bool:
    """Whether an operation makes less of its operand, and its derivative reads no more than which elements it took."""
    row = TENSOR_OPS.get(node.op)
    if row is None or row.vjp is None or len(node.args) != 1 or not (row.linear or row.saves == "i"):
        return False
    return elements(node) < elements(node.args[0])


def _coefficients(node: Expr) -> dict[str, Expr]:
    """The Python coefficient of each tensor in a sum of different tensors; none for anything else."""
    terms = {t: _without_factor(t) for t in node.args if not t.is_static} if node.op == "add" else {}
    if any(tensor.op != "sym" for tensor in terms.values()):
        return {}
    return {s.name: ex.mul(*(f for f in t.args if f.is_static)) if t is not s else ex.ONE for t, s in terms.items()}


_WORDS = {"add": "diff", "sum": "total", "mean": "mean"}


def _name(program: Program, node: Expr, others: Collection[Pivot]) -> str:
    """The name that the spec gives the sum, or a free one."""
    for name, value in program.lets.items():
        if value is node:
            return name
    taken = {*program.symbols, *program.outputs, *program.lets, *(p.name for p in others)}
    word = _WORDS.get(node.op, "extreme")
    wishes = (f"{word}{k if k > 1 else ''}" for k in count(1))
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
    spec = program.spec
    place = spec.outputs[0].location
    extra = (Output(Formula(p.name, formula(p.value), place)) for p in pivots.sums)
    return replace(
        program,
        spec=replace(spec, outputs=(*spec.outputs, *extra)),
        outputs={**program.outputs, **{p.name: p.value for p in pivots.sums}},
    )
