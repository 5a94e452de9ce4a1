"""The complete text of a generated module: public function, Function, nn.Module and the way into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from symgrad.compiler.operation import Operation, as_written
from symgrad.lower.code import words
from symgrad.lower.program import reads
from symgrad.lower.python import lines
from symgrad.resources import environment
from symgrad.targets.constants import definitions
from symgrad.targets.formatting import format_python
from symgrad.targets.torch import dispatch, docs, public
from symgrad.targets.torch.imports import module_imports
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.methods import Methods
from symgrad.targets.torch.owner import owner

if TYPE_CHECKING:
    from symgrad.targets.fused.binding import Fused


@dataclass(frozen=True)
class Module:
    """The text of a module, formatted, and the names that it reads of torch, the standard library and the runtime."""

    text: str
    reads: frozenset[str]


@as_written
def render_module(operation: Operation, fused: Fused | None = None, proven: str = "") -> Module:
    """The module of an operation."""
    layout = Layout(operation)
    methods = Methods(layout)
    programs = {
        "forward": methods.forward(),
        "setup": methods.setup_context(),
        "backward": methods.backward(),
        "jvp": methods.jvp(),
        "surrogate": dispatch.surrogate(layout),
        "choose": fused.choose if fused else (),
    }
    inplace = dispatch.inplace(layout)
    read = {"rt", *reads(s for program in (*programs.values(), *(inplace or {}).values()) for s in program)}
    read -= {*layout.arguments.values(), *layout.outputs.values()}
    read |= {"torch"} if layout.spec.module is not None else set()
    read |= {"rtk"} if fused else set()
    read |= {"_library"} if layout.spec.options.library else set()
    read |= {"_extern"} if layout.spec.extern is not None else set()
    read = read.union(*(words(h.inside("_")) for h in layout.spec.hyperparameters))
    read |= {"Literal"} if any(h.type == "str" and h.choices for h in layout.spec.hyperparameters) else set()
    context = {
        **{name: lines(program) for name, program in programs.items()},
        "inplace": None if inplace is None else {name: lines(program) for name, program in inplace.items()},
        "overwritten": layout.arguments.get(layout.spec.options.inplace or ""),
        "imports": module_imports(read),
        **_context(layout, methods, fused, proven),
    }
    text = environment().get_template("torch/module.py.j2").render(**context)
    return Module(format_python(text), frozenset(read))


def _context(layout: Layout, methods: Methods, fused: Fused | None, proven: str) -> dict[str, Any]:
    outputs = list(layout.outputs.values())
    residuals = methods.residual_names
    single = len(outputs) == 1 and not residuals
    return {
        "op": layout.spec.op,
        "name": layout.class_name,
        "docstring": docs.module_docstring(layout, fused.note if fused else _note(layout), proven),
        "class_docstring": docs.class_docstring(layout),
        "exported": ", ".join(f'"{n}"' for n in public.exported(layout)),
        "constants": definitions(layout.constants),
        "functions": public.functions(layout),
        "returns": public.returns(layout),
        "results": _results(layout),
        "arguments": public.method_signature(layout),
        "call": ", ".join(layout.arguments[a] for a in layout.argument_names),
        "output": outputs[0] if single else "outputs",
        "cotangents": _arguments([f"grad_{o.name}" if o.grad else "_" for o in layout.spec.outputs], bool(residuals)),
        "tangents": _arguments(
            [f"tangent_{t.name}" if t.name in layout.differentiable else "_" for t in layout.spec.tensors],
            bool(layout.spec.hyperparameters),
        ),
        "module": owner(layout),
        "operator": dispatch.operator(layout),
        "extern": dispatch.extern(layout),
        "entry": dispatch.entry(layout, "_passes" if fused else ""),
        "definitions": fused.definitions if fused else (),
    }


def _note(layout: Layout) -> str:
    """What serves plain calls in place of what stands in the module."""
    if layout.spec.extern is None:
        return ""
    named = [f"{method} by {path}" for method, path in layout.spec.extern.named.items()]
    return f"Plain calls are served in {' and in '.join(named)}; the formula serves all others."


_MOST_LISTED = 6  # types of results, beyond which a line does not hold them


def _results(layout: Layout) -> str:
    """What forward returns: residuals follow the outputs; many of one type are not listed."""
    if not layout.keeps:
        return public.returns(layout)
    everywhere = min(len(layout.returned(v)) for v in layout.variants)
    residuals = ["Tensor" if k < everywhere else "Tensor | None" for k in range(layout.keeps)]
    types = ["Tensor"] * len(layout.outputs) + residuals
    listed = types if len(types) <= _MOST_LISTED or len(set(types)) > 1 else ["Tensor", "..."]
    return f"tuple[{', '.join(listed)}]"


def _arguments(names: list[str], more: bool = False) -> str:
    """Arguments that may be None; unused ones get distinct names."""
    parts = [f"{name}: Tensor | None" if name != "_" else f"_{i}: Any" for i, name in enumerate(names)]
    return ", ".join([*parts, *(["*_: Any"] if more else [])])
