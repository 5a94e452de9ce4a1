"""What executing a form costs, in passes over memory: an eager operation reads, computes and writes whole tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from symgrad.expr import COMPARISONS, HALF, LOGICAL, ONE, ZERO, Expr, make
from symgrad.functions import FUNCTIONS
from symgrad.machine import machine, machine_form
from symgrad.sizes import Sizes
from symgrad.tensor_ops import TENSOR_OPS
from symgrad.tensor_ops.shaping import TRANSPOSITIONS
from symgrad.traversal import topological

# Measured on a CPU at 4 million elements, one and two threads, in passes of an addition: what fits a vector unit is
# bound by memory alone, and a Python scalar is one tensor less to read; `where` runs element by element.
_ARITHMETIC = {
    "add": 1.0,
    "sub": 1.0,
    "mul": 1.0,
    "div": 1.0,
    "neg": 0.6,
    "where": 5.0,
    "addcmul": 1.3,
    "subcmul": 1.3,
    "addcmul_scaled": 1.3,
    "add_scaled": 1.0,
    "sub_scaled": 1.0,
    "threshold_backward": 1.2,
    "masked": 2.5,
    "softmax_backward": 1.4,
    "log_softmax_backward": 3.0,
    "sigmoid_backward": 1.1,
    "tanh_backward": 1.1,
}
_VIEWS = frozenset(row.name for row in TRANSPOSITIONS)
_SCALAR = 0.7  # of an arithmetic operation, where one operand is a Python scalar
_MASK = 2.0  # a truth value as the number 1 or 0
_FILL = 0.5  # a new tensor of one number
_POWERS = {Fraction(2): 0.6, Fraction(3): 0.9, Fraction(1, 2): 0.9, Fraction(-1, 2): 0.7}


def operation_cost(node: Expr) -> float:
    """The cost of one machine operation on tensors; 0 for Python scalars and leaves."""
    if node.is_static or not node.args:
        return 0.0
    if node.op in _ARITHMETIC:
        if node.op == "where":
            filled = _FILL if node.args[1].is_static and node.args[2].is_static else 0.0
            return _MASK if node.args[1:] == (ONE, ZERO) else _ARITHMETIC["where"] + filled
        scalar = len(node.args) == 2 and any(a.is_static for a in node.args)
        return _ARITHMETIC[node.op] * (_SCALAR if scalar else 1.0)
    if node.op in COMPARISONS or node.op in LOGICAL:
        return 0.8 if node.op in COMPARISONS else 0.2
    if node.op == "pow":
        n = node.args[1].number
        return _POWERS.get(n, 4.0) if n is not None else 4.0
    row = FUNCTIONS.get(node.op)
    return row.cost if row is not None else TENSOR_OPS[node.op].cost


def scaled_cost(node: Expr, sizes: Sizes) -> float:
    """The cost of one machine operation, less for what is smaller than the largest value it could be about."""
    own = operation_cost(node)
    if not own or is_product(node):
        return own
    return own * max(sizes.share(node), *(sizes.share(a) for a in node.args))


def total(figures: Iterable[float]) -> float:
    """The sum of costs or bytes, the same in any order and in any Python (3.12 adds floats in another way).

    What decides between equal costs is then never how their sums were rounded.
    """
    return round(math.fsum(figures), 6)


def is_product(node: Expr) -> bool:
    """Whether a node is a matrix product, a convolution or the like, whose cost its size does not tell."""
    return node.op in TENSOR_OPS and not TENSOR_OPS[node.op].recompute


def cost(*forms: Expr) -> float:
    """The cost of computing the forms together, shared operations counted once."""
    lowered = [machine_form(forms[0])] if len(forms) == 1 else machine(forms)
    return total(operation_cost(node) for node in topological(*lowered))


def composite_saves(formulas: Iterable[Expr], fixed: frozenset[Expr] = frozenset()) -> frozenset[Expr]:
    """The values that torch's autograd keeps when it differentiates the formulas as written."""
    lowered = machine(formulas)
    order = topological(*lowered)
    varying = _varying(order, fixed)
    kept: set[Expr] = set()
    for node in order:
        if node in varying:
            kept.update(_stored(v) for v in _kept_by(node, varying) if not v.is_static)
    return frozenset(kept)


def _stored(value: Expr) -> Expr:
    """What is in memory: a transposed value is a view."""
    while value.op in _VIEWS:
        value = value.args[0]
    return value


def _varying(order: Iterable[Expr], fixed: frozenset[Expr]) -> frozenset[Expr]:
    """Values with a gradient: float-valued and dependent on a float tensor."""
    found: set[Expr] = set()
    for node in order:
        own = node.op == "sym" and node["kind"] == "tensor" and node not in fixed
        if own or (not node.is_boolean and any(a in found for a in node.args)):
            found.add(node)
    return frozenset(found)


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
    row = FUNCTIONS.get(node.op) or TENSOR_OPS.get(node.op)
    if row is None:
        return ()
    if "i" in row.saves:
        return (make(node.op.replace("values", "indices"), *node.args, **dict(node.attrs)),)
    return (*(node.args if "x" in row.saves else ()), *((node,) if "y" in row.saves else ()))


def backward_cost(formulas: Iterable[Expr], fixed: frozenset[Expr] = frozenset()) -> float:
    """The cost of the composite's backward: an operation for each varying operand, and sums where values fork."""
    order = topological(*machine(formulas))
    varying = _varying(order, fixed)
    passes, uses = list[float](), dict.fromkeys(varying, 0)
    sizes = Sizes.of(order)
    for node in order:
        for argument in node.args:
            if node in varying and argument in varying:
                uses[argument] += 1
                share = max(sizes.share(node), sizes.share(argument))
                passes.append(TENSOR_OPS[node.op].cost if is_product(node) else share * _BACKWARD.get(node.op, 2.5))
    return total([*passes, *(count - 1 for count in uses.values() if count > 1)])


# Passes of torch's own backward for each varying operand; 2.5 for what is not listed.
_BACKWARD = {
    "add": 0.0,
    "sub": 0.4,
    "neg": 0.8,
    "mul": 1.0,
    "div": 1.5,
    "pow": 2.6,
    "where": 5.0,
    "abs": 1.6,
    "exp": 1.0,
    "log": 1.0,
    "sigmoid": 1.0,
    "tanh": 1.0,
    "relu": 1.0,
    "softplus": 2.0,
    "logsigmoid": 2.0,
    "clamp": 3.5,
    "maximum": 4.0,
    "minimum": 4.0,
    "erf": 4.0,
    "erfc": 4.0,
    "sin": 3.0,
    "cos": 3.0,
}
