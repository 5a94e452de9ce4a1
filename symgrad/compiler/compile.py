"""From a parsed spec to an operation: its branches taken apart, and each variant compiled."""

from __future__ import annotations

from functools import partial

from symgrad.compiler.operation import Operation, leaves, map_leaves
from symgrad.compiler.variant import compile_variant
from symgrad.compiler.workbench import Memory
from symgrad.ir import expr as ex
from symgrad.ir.branches import absent, split
from symgrad.ir.expr import Expr, make
from symgrad.parse import Program
from symgrad.parse.absence import whether_given


def compile_operation(program: Program) -> Operation:
    """Differentiate, stabilise and plan a parsed spec."""
    spec = program.spec
    roots: dict[str, Expr] = {**program.outputs, **{f"grad of {t}": g for t, g in program.gradients.items()}}
    for tensor, value in program.optional.items():
        own = roots.pop(f"grad of {tensor.name}", None)
        roots = {n: whether_given(r, tensor, value, program.given) for n, r in roots.items()}
        if own is not None:  # nobody wants the gradient of what is not there
            roots[f"grad of {tensor.name}"] = make("where", absent(tensor.name), ex.ZERO, own)
    texts = [h for h in spec.hyperparameters if h.type == "str"]
    choices = {program.symbols[h.name]: tuple(map(str, h.choices or ())) for h in texts}
    tree = split(roots, choices, {absent(tensor.name) for tensor in program.optional})
    memory = Memory()
    body = map_leaves(tree, partial(compile_variant, program, memory, True))
    if any(v.wide_values or v.wide_slopes for v in leaves(body)) and any(v.plan.extras for v in leaves(body)):
        body = map_leaves(tree, partial(compile_variant, program, memory, False))  # all are computed alike
    return Operation(program, body, memory=memory)
