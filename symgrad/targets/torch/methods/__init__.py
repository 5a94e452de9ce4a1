"""The bodies of forward, setup_context, backward and jvp."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.compiler.operation import Variant
from symgrad.lower.code import Code, any_of, code, constant, keyword, name, tuple_of
from symgrad.lower.program import Assign, Condition, Do, If, Program, Statement, missing, reads, unpacking
from symgrad.lower.schedule import Target, statements
from symgrad.targets.torch.methods.backward import Backward
from symgrad.targets.torch.methods.common import keepers, needs
from symgrad.targets.torch.methods.forward import Forward
from symgrad.targets.torch.methods.jvp import Jvp

__all__ = ["Methods", "keepers"]


class Methods(Forward, Backward, Jvp):
    """Writes the methods of one operation."""

    def setup_context(self) -> Program:
        """Saves what the plan says, each value only if a wanted gradient needs it."""
        layout = self.layout
        body = self._branches(layout.operation.derivative_body, self._setup)
        program: Program = (
            *(self._autocast() if layout.multiplies else ()),
            *(Assign(layout.on_ctx(h), name(layout.arguments[h])) for h in layout.hyperparameters_on_ctx),
            *(Assign(layout.without(t), missing(layout.arguments[t]).code) for t in layout.absences_on_ctx),
            *self._needs("rt.needs(ctx)", reads(body)),
            *body,
        )
        arguments = [layout.arguments[a] for a in layout.argument_names]
        results = [*layout.outputs.values(), *self.residual_names]
        unpacked = [(arguments, "inputs"), *([(results, "outputs")] if len(results) > 1 else [])]
        read = reads(program)
        return (*(unpacking(n, code(source), read) for n, source in unpacked if read.intersection(n)), *program)

    def _autocast(self) -> Program:
        return (Assign(code("ctx.autocast"), code("rt.autocast({0})", self._always_given())),)

    def _always_given(self) -> str:
        """A tensor that is never absent."""
        tensors = self.layout.spec.tensors
        return self.layout.arguments[next((t.name for t in tensors if t.default is None), tensors[0].name)]

    def _setup(self, variant: Variant) -> Program:
        layout = self.layout
        scope = self._scope()
        for residual in self.residual_names:
            scope.names.reserve(residual)
        # What is without a derivative stands for nothing that has one: neither for an input nor for another output.
        ordered = sorted(layout.spec.outputs, key=lambda o: o.grad)
        named = {variant.outputs[o.name]: layout.outputs[o.name] for o in ordered}
        scope.known |= {form: name for form, name in named.items() if form.op != "sym"}
        program, saved = list[Statement](), list[Code]()
        chosen = layout.chosen(variant)
        found = self.residual_names[len(layout.returned(variant)) - len(chosen) :]
        for local, value in zip(found, chosen, strict=False):  # compilers are given no residuals
            program.append(If(missing(local).code, statements([Target(local, value.value)], scope, layout.printing)))
            scope.known[value.value] = local
        for value in variant.plan.base:
            needed = self._needed_by(value.value, variant)
            own = scope.known.get(value.value)
            if own is None:
                local = scope.names.for_value(value.value, scope.known)
                computed = statements([Target(local, value.value)], scope, layout.printing)
                if len(computed) > 1:  # parts of it are shared
                    program += [Assign(local, constant(None)), If(any_of([needs(t).code for t in needed]), computed)]
                    saved.append(name(local))
                    continue
                (last,) = computed
                assert isinstance(last, Assign)
                own = last.value
            partly = set(needed) < set(layout.differentiable) or value.source == "mask"
            saved.append(_if_any(map(needs, needed) if partly else (), code("{0}", own)))
        residuals = []
        returned = iter(self.residual_names)
        outputs_ = {form: code("{0}.detach()", layout.outputs[o]) for o, form in variant.outputs.items()}
        for extra in layout.kept(variant):
            kept = outputs_.get(extra.value) or name(next(returned))
            residuals.append(_if_any(self._kept_for(extra, variant), kept))
        outputs = list(layout.outputs.values())
        shown = tuple_of(outputs) if len(outputs) == 1 or self.residual_names else name("outputs")
        more = [keyword("residuals", tuple_of(residuals))] if residuals else []
        fixed = [layout.outputs[o.name] for o in layout.spec.outputs if not o.grad]
        more += [keyword("fixed", tuple_of(fixed))] if fixed else []
        if layout.is_packed:
            forms = [s.packing.form if s.packing else "" for s in (*variant.plan.base, *layout.kept(variant))]
            spared = tuple(k for k, s in enumerate(variant.plan.base) if s.spared)
            more += [keyword("spared", constant(spared))] if spared else []
            more = [keyword("op", constant(layout.spec.op)), keyword("forms", constant(tuple(forms))), *more]
        return (*program, Do(code(f"{self._saver}.save(ctx, inputs, {{0}}, {{1}})", shown, [*saved, *more])))


def _if_any(conditions: Iterable[Condition], value: Code) -> Code:
    """A value where one of some conditions holds, or always where there are none; else None."""
    asked = [c.code for c in conditions]
    return code("{0} if {1} else None", value, any_of(asked)) if asked else value
