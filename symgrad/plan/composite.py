"""What torch's autograd makes of the formulas as written: what it keeps, and what its backward costs."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from symgrad.accuracy.cost import is_product, total
from symgrad.accuracy.machine import machine
from symgrad.analysis.sizes import Sizes
from symgrad.ir import expr as ex
from symgrad.ir.expr import HALF, Expr, make
from symgrad.ir.traversal import topological, transform
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.functions.spellings import GATES
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.along import indices


def composite_saves(formulas: Iterable[Expr], fixed: frozenset[Expr] = frozenset()) -> frozenset[Expr]:
    """The values that torch's autograd keeps when it differentiates the formulas as written."""
    order = topological(*machine(_with_activations(formulas)))
    varying = _varying(order, fixed)
    kept: set[Expr] = set()
    for node in order:
        if node in varying:
            kept.update(_stored(v) for v in _kept_by(node, varying) if not v.is_static)
    return frozenset(kept)


def composite_bytes(formulas: Iterable[Expr], fixed: frozenset[Expr], sizes: Sizes) -> tuple[float, float]:
    """Bytes that the composite keeps: in all, and beside inputs and outputs, which live anyway."""
    formulas = list(formulas)
    kept, outputs = composite_saves(formulas, fixed), frozenset(machine(formulas))
    beside = (v for v in kept if v.op != "sym" and v not in outputs)
    return total(map(sizes.bytes, kept)), total(map(sizes.bytes, beside))


def _with_activations(formulas: Iterable[Expr]) -> list[Expr]:
    """The formulas in which x * sigmoid(x) and the like are one operation on x, as torch has them."""
    return [transform(formula, _activation) for formula in formulas]


def _activation(node: Expr) -> Expr:
    if node.op != "mul" or _GATES.isdisjoint(f.op for f in node.args):
        return node
    there = _powers(node)
    for x in _arguments(node):
        for gate in GATES:
            whole = x * gate(x)
            if all(0 < n <= there.get(base, 0) for base, n in _powers(whole).items()):
                rest = ex.mul(node, *(ex.power(factor, -1) for factor in whole.args))
                return ex.mul(make("activation", x), _activation(rest))
    return node


def _powers(product: Expr) -> dict[Expr, Fraction | int]:
    """The tensors among the factors of a product, with their exponents; 0 for one that is no number."""
    powers = (ex.split_power(f) for f in product.args if not f.is_static)
    return {base: exponent.number or 0 for base, exponent in powers}


_GATES = frozenset({"sigmoid", "erfc", "tanh"})  # the functions that end them


def _arguments(product: Expr) -> list[Expr]:
    """What an activation in a product may be of: its factors, and what functions among them are computed from."""
    found = dict.fromkeys(product.args)
    for factor in product.args:
        while factor.op in FUNCTIONS and len(factor.args) == 1:
            (factor,) = factor.args
            terms = (t for part in (factor, *factor.args) if part.op == "add" for t in part.args)
            found |= dict.fromkeys((factor, -factor / ex.sqrt(HALF), *terms))
    return [x for x in found if not x.is_static]


def _stored(value: Expr) -> Expr:
    """What is in memory: a transposed value is a view."""
    while value.op in TENSOR_OPS and TENSOR_OPS[value.op].view:
        value = value.args[0]
    return value


def _varying(order: Iterable[Expr], fixed: frozenset[Expr]) -> frozenset[Expr]:
    """Values with a gradient: float-valued and dependent on a float tensor."""
    found: set[Expr] = set()
    for node in order:
        own = node.op == "sym" and node["kind"] == "tensor" and node not in fixed
        if own or (not node.is_boolean and any(a in found for a in node.args) and _has_gradient(node)):
            found.add(node)
    return frozenset(found)


def _has_gradient(node: Expr) -> bool:
    """Whether any derivative passes through an operation: none does through one that detaches."""
    row = TENSOR_OPS.get(node.op)
    if row is None or not row.differentiable:
        return row is None
    return not row.view or row.vjp is None or any(v is not None for v in row.vjp(node, node))


def _kept_by(node: Expr, varying: frozenset[Expr]) -> tuple[Expr, ...]:
    """What the backward of one torch operation reads."""
    if node.op == "mul":
        left, right = node.args
        return (*((right,) if left in varying else ()), *((left,) if right in varying else ()))
    if node.op == "div":
        over, under = node.args
        return (under, over) if under in varying else (under,)
    if node.op == "pow":
        return (node,) if node.args[1].number in (HALF["value"], -HALF["value"]) else (node.args[0],)
    if node.op == "where":
        return (node.args[0],)
    if node.op == "activation":
        return node.args
    row = FUNCTIONS.get(node.op) or TENSOR_OPS.get(node.op)
    if row is None:
        return ()
    if "i" in row.saves:
        return (indices(node),)
    if "p" in row.saves:
        return tuple(node.args[k] for k in TENSOR_OPS[node.op].integer)
    if "d" in row.saves:
        return node.args if node.args[-1] in varying else ()
    if "o" in row.saves:
        others = [(*node.args[:k], *node.args[k + 1 :]) for k in range(len(node.args))]
        return tuple(a for a, own in zip(node.args, others, strict=True) if not varying.isdisjoint(own))
    return (*(node.args if "x" in row.saves else ()), *((node,) if "y" in row.saves else ()))


def backward_cost(formulas: Iterable[Expr], fixed: frozenset[Expr] = frozenset(), *, products: bool = True) -> float:
    """The cost of the composite's backward: an operation for each varying operand, and sums where values fork.

    Without `products` only what is beside these counts.
    """
    order = topological(*machine(_with_activations(formulas)))
    varying = _varying(order, fixed)
    passes, uses = list[float](), dict.fromkeys(varying, 0)
    sizes = Sizes.of(order)
    for node in order:
        for argument in node.args:
            if node in varying and argument in varying:
                uses[argument] += 1
                share = max(sizes.share(node), sizes.share(argument))
                if not _multiplies(node):
                    passes.append(share * _passes(node, argument))
                elif products:
                    passes.append(TENSOR_OPS[node.op].cost)
    return total([*passes, *(count - 1 for count in uses.values() if count > 1)])


def _multiplies(node: Expr) -> bool:
    """Whether backward is a product, too: what is chosen by its place is put there again instead."""
    return is_product(node) and "i" not in TENSOR_OPS[node.op].saves


def _passes(node: Expr, operand: Expr) -> float:
    """Passes of torch's own backward for a varying operand: none where the transposed of a view is one."""
    if node.op in ("mul", "div") and any(a.is_static for a in node.args):
        return _SCALED if operand is node.args[0] or node.op == "mul" else _BACKWARD["div"]
    if node.op == "div" and operand is node.args[0]:
        return _BACKWARD["mul"]
    if node.op == "pow" and operand is node.args[0] and node.args[1].number in _POWERS:
        return _POWERS[node.args[1].number]
    row = TENSOR_OPS.get(node.op)
    return _BACKWARD.get(node.op, 0.0 if row is not None and row.view else 2.5)


# For each varying operand; 2.5 for what is not listed. `benchmarks/passes.py --backward` measures them;
# what chooses by a mask counts as much as `where` does in our own backward, and as it is measured beside that.
_SCALED = 0.7  # a product with a Python number
_POWERS = {Fraction(2): 2.6, Fraction(3): 2.8, HALF.number: 2.5, Fraction(-1, 2): 3.5}
_BACKWARD = {
    "add": 0.0,
    "sub": 0.4,
    "neg": 0.8,
    "mul": 1.0,
    "div": 4.5,  # of the divisor
    "pow": 7.0,
    "where": 5.0,
    "abs": 1.6,
    **dict.fromkeys(("exp", "log", "sigmoid", "tanh", "relu"), 1.0),
    **dict.fromkeys(("softplus", "logsigmoid"), 2.0),
    "clamp": 5.5,
    **dict.fromkeys(("maximum", "minimum"), 7.0),
    **dict.fromkeys(("erf", "erfc", "logaddexp"), 4.0),
    **dict.fromkeys(("sin", "cos", "atan"), 3.0),
    **dict.fromkeys(("atan2", "xlogy"), 6.0),
    "lgamma": 23.0,
    **dict.fromkeys(("floor", "ceil", "round"), 0.6),
    **dict.fromkeys(("amax", "amin"), 4.5),
    "cumsum": 4.0,
    "cumprod": 7.0,
    "logcumsumexp": 130.0,
    **dict.fromkeys(("sum", "mean"), 0.0),  # broadcast by what reads it
    **dict.fromkeys(("slice", "between", "chunk", "part", "select", "diagonal"), 1.0),  # put among zeros
    **dict.fromkeys(("softmax", "log_softmax"), 1.4),
    "logsumexp": 3.0,
}
