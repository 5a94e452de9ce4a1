"""The complete text of a generated module: public function, Function, variants of it, nn.Module and plumbing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symgrad.compiler.operation import Operation
from symgrad.parse.formula import formula
from symgrad.resources import environment
from symgrad.targets.constants import constant_value
from symgrad.targets.formatting import format_python
from symgrad.targets.literals import tuple_of
from symgrad.targets.torch import dispatch, docs, public
from symgrad.targets.torch.imports import module_imports
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.methods import Methods
from symgrad.targets.torch.methods.backward import PivotBackward
from symgrad.targets.torch.owner import owner
from symgrad.targets.torch.plumbing import plumbing
from symgrad.targets.torch.shape_check import shape_check

if TYPE_CHECKING:
    from symgrad.targets.fused.binding import Fused


def render_module(operation: Operation, fused: Fused | None = None) -> str:
    """The module of an operation, formatted; it imports only torch and the standard library."""
    layout = Layout(operation)
    template = environment().get_template("torch/module.py.j2")
    context = _context(layout, fused)
    draft = template.render(**context, imports="", plumbing="")
    helpers = plumbing(draft)
    text = template.render(**{**context, "imports": module_imports(draft + helpers), "plumbing": helpers})
    return format_python(text)


def _context(layout: Layout, fused: Fused | None) -> dict[str, Any]:
    methods = Methods(layout)
    pivot = _pivot(layout)
    bodies = {
        "forward": pivot["forward"] if pivot else methods.forward(),
        "setup": methods.setup_context(),
        "keep": methods.keep(),
        "passed": methods.passed,
        "backward": methods.backward(),
        "jvp": methods.jvp(),
    }
    outputs = list(layout.outputs.values())
    names = [layout.arguments[a] for a in layout.argument_names]
    call = ", ".join(names)
    inplace = dispatch.inplace(layout)
    keeping = bool(layout.keeps) or operation_keeps(layout)
    plain = methods.plain_backward() if fused is None else []
    return {
        **bodies,
        "op": layout.spec.op,
        "name": layout.class_name,
        "docstring": docs.module_docstring(layout, fused.context["note"] if fused else ""),
        "class_docstring": docs.class_docstring(layout),
        "exported": ", ".join(f'"{n}"' for n in public.exported(layout)),
        "constants": [(name, repr(constant_value(node)), formula(node)) for node, name in layout.constants.items()],
        "functions": public.functions(layout),
        "shapes": shape_check(layout),
        "returns": public.returns(layout),
        "arguments": public.method_signature(layout),
        "call": call,
        "call_tuple": tuple_of(names),
        "with_kept": f"tuple[{', '.join(['Tensor'] * len(outputs) + ['Tensor | None'] * layout.keeps)}]",
        "results": ", ".join(outputs),
        "first": "0" if len(outputs) == 1 else f":{len(outputs)}",
        "results_argument": outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})",
        "output": outputs[0] if len(outputs) == 1 else "outputs",
        "cotangents": _arguments([f"grad_{o.name}" if o.grad else "_" for o in layout.spec.outputs]),
        "tangents": _arguments(
            [f"tangent_{t.name}" if t.name in layout.differentiable else "_" for t in layout.spec.tensors],
            bool(layout.spec.hyperparameters),
        ),
        "keeping": keeping,
        "widens": layout.widens,
        "plain": plain,
        "pivot": pivot,
        "inplace": inplace,
        "detached": dispatch.detached(layout),
        "module": owner(layout),
        "dispatched": dispatch.dispatched(layout, fused=fused is not None, plain=bool(plain)),
        "fused": fused.context if fused else None,
        "several": len(outputs) > 1,
    }


def operation_keeps(layout: Layout) -> bool:
    """Whether plain calls return more outputs, which backward reads."""
    return layout.operation.keeping is not None


def _pivot(layout: Layout) -> dict[str, Any] | None:
    """The methods of the Function for plain calls that returns sums of its inputs too."""
    keeping = layout.operation.keeping
    if keeping is None:
        return None
    more = keeping.program.spec.outputs[len(layout.spec.outputs) :]
    extended = Layout(keeping, layout.constants, pivots=tuple(o.name for o in more))
    methods, plain = Methods(extended), PivotBackward(extended)
    own = _arguments([f"grad_{o.name}" if o.grad else "_" for o in layout.spec.outputs])
    read = frozenset(s for o in more for s in keeping.program.outputs[o.name].tensors)
    kept = read - {s.value for v in extended.variants for s in v.plan.base}
    return {
        "names": " and ".join(extended.outputs[name] for name in extended.pivots),
        "several": len(more) > 1,
        "replaced": docs.listed([t.name for t in layout.spec.tensors if layout.symbol(t.name) in kept]),
        "forward": methods.forward(),
        "returns": public.returns(extended),
        "setup": methods.setup_context(),
        "backward": methods.backward(),
        "jvp": methods.jvp(),
        "plain": plain.plain_backward(),
        "test": plain.test(),
        "passed": f"grad_{layout.spec.outputs[0].name}",
        "cotangents": ", ".join([own, *(f"grad_{o.name}: Tensor | None = None" for o in more)]),
    }


def _arguments(names: list[str], more: bool = False) -> str:
    """Arguments that may be None; unused ones get distinct names."""
    parts = []
    for i, name in enumerate(names):
        parts.append(f"{name}: Tensor | None" if name != "_" else f"_{i}: Any")
    return ", ".join([*parts, *(["*_: Any"] if more else [])])
