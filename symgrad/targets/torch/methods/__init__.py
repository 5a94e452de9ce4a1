"""The bodies of forward, setup_context, backward and jvp, as source lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from symgrad.compiler.operation import Variant
from symgrad.targets.literals import tuple_of
from symgrad.targets.torch.methods.backward import Backward
from symgrad.targets.torch.methods.common import keepers, reads, unpacking
from symgrad.targets.torch.methods.forward import Forward
from symgrad.targets.torch.methods.jvp import Jvp
from symgrad.targets.torch.schedule import Target, statements

__all__ = ["Methods", "keepers"]


class Methods(Forward, Backward, Jvp):
    """Writes the methods of one operation."""

    def setup_context(self) -> list[str]:
        """Keeps what the plan says, each value only if a wanted gradient needs it."""
        outputs = list(self.layout.outputs.values())
        unpacked = [([self.layout.arguments[a] for a in self.layout.argument_names], "inputs")]
        if len(outputs) > 1:
            unpacked.append((outputs, "outputs"))
        lines = self._setup_lines(self.passed)
        return [*(unpacking(names, source, lines) for names, source in unpacked if reads(lines, names)), *lines]

    @cached_property
    def passed(self) -> list[str]:
        """The intermediates that a forward which keeps them passes to setup_context; none where that is short."""
        lines = self._setup_lines(self._kept)
        short = len(self.layout.outputs) == 1 and not any("wants_" in line for line in lines)
        return [] if short and len(self.layout.variants) == 1 else self._kept

    @cached_property
    def _kept(self) -> list[str]:
        """What forward and setup_context call the intermediates that are kept: as in the variant that keeps most."""
        scope = self._scope()
        outputs = list(self.layout.outputs.values())
        fullest = max(self.layout.variants, key=lambda variant: len(self.layout.kept(variant)))
        return [scope.names.fresh(f"kept_{k}") if k in outputs else k for k in self._kept_names(scope, fullest)]

    def keep(self) -> list[str]:
        """The body of a forward that keeps intermediates: what setup_context does is a call, unless it is short."""
        layout = self.layout
        arguments = [layout.arguments[a] for a in layout.argument_names]
        outputs = list(layout.outputs.values())
        results = ", ".join(outputs)
        if self.passed:
            passed = f"{tuple_of(arguments)}, {results if len(outputs) == 1 else f'({results})'}"
            lines = [f"{layout.class_name}Function.setup_context(ctx, {', '.join([passed, *self.passed])})"]
        else:
            lines = self._setup_lines(self._kept)
        return [f"{', '.join([results, *self._kept])} = _forward({', '.join(arguments)})", *lines, f"return {results}"]

    def _setup_lines(self, kept: Sequence[str]) -> list[str]:
        """The lines of setup_context, which save what is `kept` too."""
        layout = self.layout
        lines = []
        undifferentiable = [layout.outputs[o.name] for o in layout.spec.outputs if not o.grad]
        if undifferentiable:
            mark = "_mark_fixed(ctx, " if self._fixed(layout.variants[0]) else "ctx.mark_non_differentiable("
            lines.append(f"{mark}{', '.join(undifferentiable)})")
        lines += [line for attribute in ("shape", "dtype") for line in self._of_inputs(attribute)]
        if layout.multiplies:
            lines.append(f"ctx.autocast = _autocast({self._always_given()})")
        if any("_zeros(" in line for line in self._derivatives["backward"]):
            lines.append("ctx.outputs = [(y.shape, y.dtype, y.device) for y in outputs]")
        lines += [f"{layout.on_ctx(h)} = {layout.arguments[h]}" for h in layout.hyperparameters_on_ctx]
        lines += [f"ctx.without_{t} = {layout.arguments[t]} is None" for t in layout.absences_on_ctx]
        body = self._branches(layout.operation.derivative_body, lambda variant: self._setup(variant, kept))
        wants = [t for t in layout.differentiable if any(f"wants_{t}" in line for line in body)]
        if wants:
            lines.append(self._wants_line("_wanted(ctx)", wants))
        return [*lines, *_saving(body, list(layout.outputs.values()))]

    def _always_given(self) -> str:
        """A tensor that is never absent."""
        tensors = self.layout.spec.tensors
        return self.layout.arguments[next((t.name for t in tensors if t.default is None), tensors[0].name)]

    @cached_property
    def _derivatives(self) -> dict[str, list[str]]:
        """The bodies of the methods that read what setup_context keeps."""
        return {"backward": self.backward(), "plain_backward": self.plain_backward(), "jvp": self.jvp()}

    def _of_inputs(self, attribute: str) -> list[str]:
        """Keep the shapes, or the dtypes, of the inputs of which the lines of a derivative read them."""
        pattern = rf"ctx\.{attribute}s\[(\d+)\]"
        lines = [line for body in self._derivatives.values() for line in body]
        read = {int(place) for line in lines for place in re.findall(pattern, line)}
        kept = ["None"] * (max(read, default=-1) + 1)
        for k in read:
            tensor = self.layout.tensors[k]
            optional = self.layout.spec.tensors[k].default is not None
            kept[k] = f"None if {tensor} is None else {tensor}.{attribute}" if optional else f"{tensor}.{attribute}"
        return [f"ctx.{attribute}s = {tuple_of(kept)}"] if kept else []

    def _setup(self, variant: Variant, kept: Sequence[str]) -> list[str]:
        layout = self.layout
        scope = self._scope()
        # What is without a derivative stands for nothing that has one: neither for an input nor for another output.
        ordered = sorted(layout.spec.outputs, key=lambda o: o.grad)
        named = {variant.outputs[o.name]: layout.outputs[o.name] for o in ordered}
        scope.known |= {form: name for form, name in named.items() if form.op != "sym"}
        lines, arguments = list[str](), list[str]()
        for saved in variant.plan.base:
            needed = self._needed_by(saved.value, variant)
            wants = " or ".join(f"wants_{t}" for t in needed)
            own = scope.known.get(saved.value)
            if own is None:
                name = scope.names.for_value(saved.value, scope.known)
                *before, last = statements([Target(name, saved.value)], scope, layout.constants)
                if before:  # parts of it are shared
                    lines += [f"{name} = None", f"if {wants}:", *(f"    {line}" for line in (*before, last))]
                    arguments.append(name)
                    continue
                own = last.partition(" = ")[2]
            if set(needed) < set(layout.differentiable) or saved.source == "mask":
                own = f"{own} if {wants} else None"
            arguments.append(own)
        for name, extra in zip(kept, layout.kept(variant), strict=False):  # nothing is kept, or all
            wants = " or ".join(self._kept_for(extra, variant))
            arguments.append(f"{name} if {wants} else None" if wants else name)
        return [*lines, f"saved = [{', '.join(arguments)}]"]


def _saving(body: list[str], outputs: Sequence[str]) -> list[str]:
    """Saves for backward and, where forward mode may be on, for jvp, what a body calls `saved`."""
    *before, last = body
    values = last.removeprefix("saved = [").rstrip("]").split(", ")
    if last == "saved = []":
        body, values = before, []
    elif last.startswith("saved = [") and all(v.isidentifier() for v in values):
        body = before
    else:
        values = ["*saved"]
    results = tuple_of(outputs) if len(outputs) == 1 else "outputs"
    return [
        *body,
        "ctx.set_materialize_grads(False)",
        *([f"ctx.save_for_backward({', '.join(values)})"] if values else []),
        "if _forward_mode():",
        f"    _save_for_jvp({', '.join(['ctx', results, *values])})",
    ]
