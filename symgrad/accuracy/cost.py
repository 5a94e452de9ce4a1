"""What executing a form costs, in passes over memory: an eager operation reads, computes and writes whole tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from symgrad.accuracy.guards import may_need_guard
from symgrad.accuracy.machine import machine, machine_form
from symgrad.accuracy.widening import DOUBLE, NARROW, SINGLE, WIDEN
from symgrad.analysis.sizes import Sizes
from symgrad.ir.expr import COMPARISONS, LOGICAL, ONE, ZERO, Expr
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS

# Measured on a CPU at 4 million elements, one and two threads, in passes of an addition: what fits a vector unit is
# bound by memory alone, and a Python scalar is one tensor less to read; `where` runs element by element, and takes 2
# to 15 passes, as the processor foresees its mask. `benchmarks/passes.py` measures them.
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
    "leaky_relu": 1.1,
    "leaky_relu_backward": 1.2,
    "masked": 2.5,
    "guarded": 0.0,
    "softmax_backward": 1.4,
    "log_softmax_backward": 3.0,
    "sigmoid_backward": 1.1,
    "tanh_backward": 1.1,
    WIDEN: 1.0,
    DOUBLE: 1.5,
    SINGLE: 1.5,
}
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
    row = FUNCTIONS.get(NARROW.get(node.op, node.op))
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


# What operations in registers take where a pass over memory takes 1: `benchmarks/functions.py`, 0.6 ns to a pass.
_INSTRUCTION = 0.05
_SPEEDS = (
    *((0.2, "div"), (0.3, "exp"), (0.4, "expm1 cosh"), (0.5, "sigmoid asin acos"), (0.6, "tanh sin cos")),
    *((0.7, "log softplus"), (0.75, "atan"), (0.8, "log1p"), (0.9, "sinh"), (1.0, "sinc"), (1.2, "atanh")),
    *((1.5, "erf erfc erfcx"), (1.6, "hypot"), (2.1, "acosh"), (2.3, "asinh"), (2.4, "tan"), (3.0, "atan2")),
    *((4.5, "pow"), (5.5, "erfinv"), (9.7, "log_ndtr digamma"), (13.0, "lgamma")),
)
_IN_REGISTERS = {name: figure for figure, names in _SPEEDS for name in names.split()}
_FACTORS = frozenset({Fraction(2), Fraction(3), Fraction(1, 2), Fraction(-1, 2)})  # powers that are few instructions


def in_registers(forms: Iterable[Expr]) -> float:
    """What computing the forms in one fused pass takes beside the memory that it reads and writes, in passes."""
    return total(map(_register_cost, topological(*machine(forms))))


def _register_cost(node: Expr) -> float:
    if node.is_static or not node.args:
        return 0.0
    name = NARROW.get(node.op, node.op)
    if name == "pow" and node.args[1].number in _FACTORS:
        name = "div"
    row = FUNCTIONS.get(name)
    return _IN_REGISTERS.get(name, _INSTRUCTION if row is None else max(_INSTRUCTION, row.cost - 1))


_RISK = 3.0  # passes that guarding one function in a branch that may not be taken costs


def guarding(form: Expr) -> float:
    """The cost of the guards that the branches of a form may need."""
    risky: set[tuple[Expr, Expr]] = set()
    for node in topological(form):
        if node.op == "where" and not node.args[0].is_static:
            risky.update((n, node.args[0]) for b in node.args[1:] for n in topological(b) if may_need_guard(n))
    return _RISK * len(risky)


def price(form: Expr) -> float:
    """The cost of a form by itself, with its guards."""
    return cost(form) + guarding(form)
