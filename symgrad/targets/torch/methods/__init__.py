"""The bodies of forward, setup_context, backward and jvp, as source lines."""

from __future__ import annotations

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
        """Saves what the plan says, each value only if a wanted gradient needs it."""
        layout = self.layout
        body = self._branches(layout.operation.derivative_body, self._setup)
        needed = [t for t in layout.differentiable if any(f"needs_{t}" in line for line in body)]
        lines = []
        if layout.multiplies:
            lines.append(f"ctx.autocast = rt.autocast({self._always_given()})")
        lines += [f"{layout.on_ctx(h)} = {layout.arguments[h]}" for h in layout.hyperparameters_on_ctx]
        lines += [f"ctx.without_{t} = {layout.arguments[t]} is None" for t in layout.absences_on_ctx]
        if needed:
            lines.append(self._needs_line("rt.needs(ctx)", needed))
        lines += body
        arguments = [layout.arguments[a] for a in layout.argument_names]
        results = [*layout.outputs.values(), *self.residual_names]
        unpacked = [(arguments, "inputs"), *([(results, "outputs")] if len(results) > 1 else [])]
        return [*(unpacking(names, source, lines) for names, source in unpacked if reads(lines, names)), *lines]

    def _always_given(self) -> str:
        """A tensor that is never absent."""
        tensors = self.layout.spec.tensors
        return self.layout.arguments[next((t.name for t in tensors if t.default is None), tensors[0].name)]

    def _setup(self, variant: Variant) -> list[str]:
        layout = self.layout
        scope = self._scope()
        for name in self.residual_names:
            scope.names.reserve(name)
        # What is without a derivative stands for nothing that has one: neither for an input nor for another output.
        ordered = sorted(layout.spec.outputs, key=lambda o: o.grad)
        named = {variant.outputs[o.name]: layout.outputs[o.name] for o in ordered}
        scope.known |= {form: name for form, name in named.items() if form.op != "sym"}
        lines, saved = list[str](), list[str]()
        for value in variant.plan.base:
            needed = self._needed_by(value.value, variant)
            condition = " or ".join(f"needs_{t}" for t in needed)
            own = scope.known.get(value.value)
            if own is None:
                name = scope.names.for_value(value.value, scope.known)
                *before, last = statements([Target(name, value.value)], scope, layout.constants)
                if before:  # parts of it are shared
                    lines += [f"{name} = None", f"if {condition}:", *(f"    {line}" for line in (*before, last))]
                    saved.append(name)
                    continue
                own = last.partition(" = ")[2]
            if set(needed) < set(layout.differentiable) or value.source == "mask":
                own = f"{own} if {condition} else None"
            saved.append(own)
        residuals = []
        returned = iter(self.residual_names)
        outputs_ = {form: f"{layout.outputs[name]}.detach()" for name, form in variant.outputs.items()}
        for extra in layout.kept(variant):
            name = outputs_.get(extra.value) or next(returned)
            condition = " or ".join(self._kept_for(extra, variant))
            residuals.append(f"{name} if {condition} else None" if condition else name)
        outputs = list(layout.outputs.values())
        shown = tuple_of(outputs) if len(outputs) == 1 or self.residual_names else "outputs"
        parts = ["ctx", "inputs", shown, *saved]
        if residuals:
            parts.append(f"residuals={tuple_of(residuals)}")
        fixed = [layout.outputs[o.name] for o in layout.spec.outputs if not o.grad]
        if fixed:
            parts.append(f"fixed={tuple_of(fixed)}")
        return [*lines, f"rt.save({', '.join(parts)})"]
