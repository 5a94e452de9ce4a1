"""From a parsed spec to an operation: its branches taken apart, and each variant compiled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from symgrad.compiler.judges import Memory
from symgrad.compiler.operation import Operation, Variant, leaves, map_leaves
from symgrad.compiler.variant import compile_variant
from symgrad.errors import SpecError
from symgrad.ir import expr as ex
from symgrad.ir.branches import absent, split
from symgrad.ir.expr import Expr, make
from symgrad.ir.order import in_order
from symgrad.parse import Program
from symgrad.parse.absence import whether_given
from symgrad.parse.formula import formula
from symgrad.spec.yaml_source import SourceText


def compile_operation(program: Program, memory: Memory | None = None) -> Operation:
    """Differentiate, stabilise and plan a parsed spec.

    `memory` may be that of the same spec with other options for kernels: no form is measured or chosen again.
    """
    with in_order(program.orders):
        return _compiled(program, memory or Memory())


def _compiled(program: Program, memory: Memory) -> Operation:
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
    body = map_leaves(tree, partial(compile_variant, program, memory, True))
    if any(v.wide_values or v.wide_slopes or v.wide_alone for v in leaves(body)) and any(
        v.plan.extras for v in leaves(body)
    ):
        body = map_leaves(tree, partial(compile_variant, program, memory, False))  # all are computed alike
    _refuse_idle_packings(program, leaves(body))
    return Operation(program, body, memory=memory)


def _refuse_idle_packings(program: Program, variants: Sequence[Variant]) -> None:
    """Raise for values that are to be packed and are not kept: SpecError, with what is kept instead."""
    spec = program.spec
    packed = {s.packing for v in variants for s in v.plan.saved}
    read = ", ".join(dict.fromkeys(formula(s.value) for v in variants for s in v.plan.saved)) or "nothing"
    place = SourceText(spec.text, spec.path)
    mistakes = []
    for p in (p for p in spec.options.packed if p not in packed):
        message = f"backward keeps no {'numbers' if p.error else 'mask'} of {p.name}; it reads {read}"
        mistakes.append(place.mistake(p.location, f"options.save.{p.name}", message))
    if mistakes:
        raise SpecError(mistakes)
