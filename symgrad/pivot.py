"""Operations of a difference: backward needs the difference alone, not both of its operands.

A loss of `input - target` reads its tensors through one sum. Autograd on the composite keeps that sum where a Function
of inputs would keep every operand. The sum may be kept without losing second derivatives if it is an output of its own,
whose incoming cotangent is used: on a plain call the operation then returns it beside its results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from symgrad import expr as ex
from symgrad.expr import Expr, make, symbol
from symgrad.parse import Program
from symgrad.spec.model import Formula, Output, Tensor
from symgrad.traversal import substitute, topological


@dataclass(frozen=True)
class Pivot:
    """`value`, a sum of tensors with Python coefficients, through which alone the outputs read these tensors.

    `inner` is the same operation as a function of the sum, whose symbol is `stand_in`.
    """

    name: str
    value: Expr
    coefficients: Mapping[str, Expr]
    stand_in: Expr
    inner: Program

    def gradient(self, of_sum: Expr, tensor: str, own: Expr) -> Expr:
        """The gradient of one tensor from that of the sum."""
        inside = of_sum.args[0] if of_sum.op == "sum_to" else of_sum
        return make("sum_to", self.coefficients[tensor] * self.outside(inside), own)

    def outside(self, expression: Expr) -> Expr:
        """An expression in the sum as one in the tensors."""
        return substitute(expression, {self.stand_in: self.value})


def find_pivot(program: Program) -> Pivot | None:
    """The sum through which an operation reads several tensors, if there is one."""
    spec = program.spec
    if program.gradients or spec.options.inplace or any(t.shape is not None for t in spec.tensors):
        return None
    roots = list(program.outputs.values())
    for node in sorted(topological(*roots), key=lambda n: -n.size):
        coefficients = _coefficients(node)
        if coefficients is None or len(coefficients) < 2:
            continue
        tensors = {t.name: t for t in spec.tensors}
        if any(tensors[name].default is not None for name in coefficients):
            continue
        name = _name(program, node)
        stand_in = symbol(name, "tensor")
        inside = {o: substitute(root, {node: stand_in}) for o, root in program.outputs.items()}
        if any(program.symbols[c] in root.symbols for root in inside.values() for c in coefficients):
            continue
        return Pivot(name, node, coefficients, stand_in, _inner(program, stand_in, coefficients, inside))
    return None


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


def _name(program: Program, node: Expr) -> str:
    """The name that the spec gives the sum, or a free one."""
    for name, value in program.lets.items():
        if value is node:
            return name
    taken = {*program.symbols, *program.outputs, *program.lets}
    wish = "diff"
    while wish in taken:
        wish += "_"
    return wish


def _inner(program: Program, stand_in: Expr, coefficients: Mapping[str, Expr], outputs: Mapping[str, Expr]) -> Program:
    spec = program.spec
    rest = tuple(t for t in spec.tensors if t.name not in coefficients)
    tensors = (Tensor(stand_in.name, spec.tensors[0].location), *rest)
    symbols = {n: s for n, s in program.symbols.items() if n not in coefficients} | {stand_in.name: stand_in}
    return replace(program, spec=replace(spec, tensors=tensors), symbols=symbols, outputs=dict(outputs))


def with_output(program: Program, pivot: Pivot) -> Program:
    """The program that also returns the sum."""
    from symgrad.formula import formula

    spec = program.spec
    extra = Output(Formula(pivot.name, formula(pivot.value), spec.outputs[0].location))
    return replace(
        program,
        spec=replace(spec, outputs=(*spec.outputs, extra)),
        outputs={**program.outputs, pivot.name: pivot.value},
    )
