"""The body of forward."""

from __future__ import annotations

from symgrad.backends.torch.dtypes import Operands, cancelled_cast, printed, promoted
from symgrad.backends.torch.methods.common import Common, joined
from symgrad.backends.torch.operations import is_number
from symgrad.backends.torch.schedule import Scope, Target, statements
from symgrad.expr import Expr, make
from symgrad.operation import Variant
from symgrad.shapes import shape_sources


class Forward(Common):
    """Writes forward."""

    def forward(self) -> list[str]:
        """The formula; with intermediates to keep, they follow the outputs."""
        return self._branches(self.layout.operation.body, self._forward)

    def _forward(self, variant: Variant) -> list[str]:
        layout = self.layout
        targets: list[Target] = []
        results: list[str] = []
        fixed = self._fixed(variant)
        single = len(variant.outputs) == 1 and not layout.keeps and not fixed
        scope = self._scope()
        widening, rounded = self._widening(variant, scope)
        for name, short in variant.outputs.items():
            local = layout.outputs[name]
            form = _whole(short, variant.formulas[name])
            repeated = form.args and form in (t.value for t in targets)
            pattern = rounded[name].replace("{value}", "{value}.clone()") if repeated else rounded[name]
            value = self._complete(form, variant.formulas[name], pattern)
            if name in fixed:  # compilers may differentiate forward
                value += ".detach()"
            if single:
                targets.append(Target(local, form, template=f"return {value}"))
            else:
                targets.append(Target(local, form))
                results.append(value.format(value=local))
        kept = self._kept_names(scope)
        outputs = frozenset(variant.outputs.values())
        own = [(local, s.value) for local, s in zip(kept, layout.keeps, strict=True) if s.value not in outputs]
        targets = [*(Target(local, value) for local, value in own), *targets]
        lines = [*widening, *statements(targets, scope, layout.constants)]
        return lines if single else [*lines, f"return {', '.join([*results, *kept])}"]

    def _widening(self, variant: Variant, scope: Scope) -> tuple[list[str], dict[str, str]]:
        """The lines that widen the tensors, and the pattern that rounds each output to its dtype."""
        layout = self.layout
        if not layout.widens:
            return [], dict.fromkeys(variant.outputs, "{value}")
        names, symbols = joined(layout.tensors, trailing=False), layout.symbols()
        helper = "_widen_all" if layout.wide_values else "_widen"
        rounded = {n: f for n, f in variant.formulas.items() if n != layout.pivot}
        sources = {name: promoted(formula) for name, formula in rounded.items()}
        present = frozenset().union(*(f.tensors for f in variant.formulas.values()))
        given = {layout.symbol(t.name) for t in layout.spec.tensors if t.default is None} | present
        if all(operands == given for operands in sources.values()):
            return [f"{names}, dtype = {helper}({names})"], dict.fromkeys(variant.outputs, "_round({value}, dtype)")
        lines, patterns, locals_ = [], dict.fromkeys(variant.outputs, "{value}"), dict[Operands, str]()
        # What autocast multiplies is of a type of its own: it is rounded only where it was widened.
        rounds = scope.names.fresh("rounded") if layout.multiplies else "_"
        condition = f"{rounds} and " if layout.multiplies else ""
        for name, operands in sources.items():
            if operands and operands not in locals_:
                local = "dtype" if len(set(sources.values())) == 1 else scope.names.fresh(f"{name}_dtype")
                locals_[operands] = local
                lines.append(f"{local} = {printed(operands, symbols)}")
            if operands:
                patterns[name] = f"_round({{value}}, {condition}{locals_[operands]})"
        return [*lines, f"{names}, {rounds} = {helper}({names})"], patterns

    def _complete(self, form: Expr, formula: Expr, pattern: str) -> str:
        """The pattern of a result that is a new tensor of the formula's full shape and dtype."""
        names = self.layout.symbols()
        if self.layout.pivot and form is formula and form is self.layout.variants[0].outputs[self.layout.pivot]:
            return "{value}"
        missing = shape_sources(formula) - shape_sources(form)
        if missing and all(s.op == "sym" for s in missing):
            everyone = sorted((names[s] for s in shape_sources(formula)), key=self.layout.tensors.index)
            return pattern.replace("{value}", f"_broadcast({{value}}, {', '.join(everyone)})")
        if form.op == "expand":
            pattern = pattern.replace("{value}", f"{{value}}{cancelled_cast(formula, names)}")
        spread = form.op == "expand" and not is_number(form.args[0])
        if form.op == "sym" or spread or form.is_static:
            return pattern.replace("{value}", "{value}.clone()")
        return pattern


def _whole(form: Expr, formula: Expr) -> Expr:
    """The form in the shape of the formula, where the tensor operations that give it have cancelled out."""
    lost = not shape_sources(form) and any(s.op != "sym" for s in shape_sources(formula))
    return make("expand", form, formula) if lost else form
