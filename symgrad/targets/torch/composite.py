"""The composite of an operation: its formulas as written, in eager torch operations that autograd differentiates.

It is the reference for what is right: generated tests and benchmarks compare with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.compiler.operation import Operation, Variant, as_written
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological, transform
from symgrad.lower.code import code, name
from symgrad.lower.conditionals import branches
from symgrad.lower.program import Program, returned
from symgrad.lower.python import lines
from symgrad.lower.schedule import Scope, Target, statements
from symgrad.ops.functions import BY_AUTOGRAD
from symgrad.ops.tensors import is_index
from symgrad.targets.constants import constant_value
from symgrad.targets.torch.dtypes import beside, cast, operands_in_order, printed, promoted, rounds_floats
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.printer import Printer


def composite(layout: Layout, form_of: Callable[[Expr], Expr] = lambda formula: formula) -> Program:
    """The body of the composite, or of another form of its formulas; constants go into `layout.constants`."""

    def leaf(variant: Variant) -> Program:
        forms = {name: _differentiable(form_of(form)) for name, form in variant.formulas.items()}
        targets = [Target(layout.outputs[name], form) for name, form in forms.items()]
        scope = Scope(layout.names(), layout.symbols(variant), lets=layout.lets)
        fixed = {o.name for o in layout.spec.outputs if not o.grad and not is_index(variant.formulas[o.name])}
        formulas = variant.formulas
        around = operands_in_order(beside(formulas.values()), scope.known)
        printing = layout.printing(around, as_written=True)
        results = []
        for o, local in layout.outputs.items():
            value = cast(name(local), formulas[o], scope.known)
            if rounds_floats(formulas[o], formulas.values()):
                value = code("{0}.to({1})", name(local), printed(promoted(formulas[o]), scope.known))
            results.append(code("{0}.detach()" if o in fixed else "{0}", value))
        return (*statements(targets, scope, printing), returned(results))

    return branches(layout.operation.body, leaf, Printer(layout.symbols(), layout.constants))


def _differentiable(form: Expr) -> Expr:
    """The form with functions as autograd differentiates them, where torch's own have no derivative."""

    def visit(node: Expr) -> Expr:
        row = BY_AUTOGRAD.get(node.op)
        return make(row.name, *node.args) if row is not None and node.tensors else node

    return transform(form, visit) if any(node.op in BY_AUTOGRAD for node in topological(form)) else form


def with_large_clamps(form: Expr) -> Expr:
    """The form with what torch.clamp bounds as large as the bounds: it has no derivative of what is smaller."""

    def visit(node: Expr) -> Expr:
        if node.op == "clamp" and any(bound.tensors for bound in node.args[1:]):
            return make("clamp", make("expand", node.args[0], node), *node.args[1:])
        return node

    return transform(form, visit) if any(node.op == "clamp" for node in topological(form)) else form


@as_written
def load_composite(operation: Operation) -> Callable[..., Any]:
    """The composite as a function of tensors and hyperparameters, positional as the spec lists them."""
    import math

    import torch
    from torch.nn import functional

    from symgrad.targets.torch.runtime import _runtime, _special

    layout = Layout(operation)
    body = "\n".join(f"    {line}" for line in lines(composite(layout)))
    arguments = ", ".join(layout.arguments[a] for a in layout.argument_names)
    source = f"def composite({arguments}):\n{body}\n"
    scope: dict[str, Any] = {"torch": torch, "math": math, "F": functional, "rt": _runtime, "_special": _special}
    scope.update({name: constant_value(node) for node, name in layout.constants.items()})
    exec(compile(source, f"<composite of {layout.spec.op}>", "exec"), scope)
    function: Callable[..., Any] = scope["composite"]
    return function
