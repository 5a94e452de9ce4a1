"""The bodies of forward, setup_context, backward and jvp."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from symgrad.analysis.signs import measured
from symgrad.compiler.operation import Variant
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, any_of, code, constant, keyword, name, tuple_of
from symgrad.lower.program import Assign, Condition, Do, If, Program, Statement, missing, reads, unpacking
from symgrad.lower.schedule import Scope, Target, statements
from symgrad.targets.torch.methods.backward import Backward
from symgrad.targets.torch.methods.common import keepers, needs, only_read, widening
from symgrad.targets.torch.methods.forward import Forward
from symgrad.targets.torch.methods.jvp import Jvp
from symgrad.targets.torch.roundings import roundings

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
            program.append(If(missing(local).code, self._mask(local, value.value, scope, variant)))
            scope.known[value.value] = local
        for value in variant.plan.base:
            needed = self._needed_by(value.value, variant)
            own = scope.known.get(value.value)
            if own is None:
                local = scope.names.for_value(value.value, scope.known)
                computed = self._mask(local, value.value, scope, variant)
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

    def _mask(self, local: str, value: Expr, scope: Scope, variant: Variant) -> Program:
        """A mask, or indices, under a name: of what forward compared, before it was rounded.

        What an output was rounded from is computed again where it was; its sign is that of the output.
        """
        layout = self.layout
        outputs = {form: own for form, own in scope.known.items() if form.args}
        signs = frozenset(outputs).difference(measured(value, frozenset(outputs)))
        same = layout.spec.options.accumulate == "same" or (layout.multiplies and not layout.widens)
        if same or not roundings(value, signs):
            return statements([Target(local, value)], scope, self.printing_formulas(variant, scope.known))
        tensors = {form: own for form, own in scope.known.items() if own in layout.computed_wide}
        wide = {form: scope.names.fresh(f"wide_{own}") for form, own in tensors.items()}
        widened = widening(list(wide.values()), "_", layout.wide_values, values=list(tensors.values()))
        program = list[Statement]()
        rounded = {form: own for form, own in outputs.items() if form not in signs}
        there = replace(scope, known={f: wide.get(f, own) for f, own in scope.known.items() if f not in rounded})
        printing = self.printing_formulas(variant, there.known)
        beside = frozenset(topological(value, leaves=frozenset(rounded)))
        for form, own in rounded.items():
            for operand in (a for a in form.args if a in beside and a.args and a not in there.known):
                name_ = scope.names.for_value(operand, there.known, scope.lets)
                program += statements([Target(name_, operand)], there, printing)
                there.known[operand] = name_
            name_ = scope.names.fresh(f"wide_{own}")
            program.append(Assign(name_, code("rt.unrounded({0}, {1})", own, list(wide.values()))))
            program.append(If(missing(name_).code, statements([Target(name_, form)], there, printing)))
            there.known[form] = name_
        program += statements([Target(local, value)], there, printing)
        return only_read(widened, tuple(program))


def _if_any(conditions: Iterable[Condition], value: Code) -> Code:
    """A value where one of some conditions holds, or always where there are none; else None."""
    asked = [c.code for c in conditions]
    return code("{0} if {1} else None", value, any_of(asked)) if asked else value
