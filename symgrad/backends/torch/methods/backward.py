"""The body of backward."""

from __future__ import annotations

from symgrad.backends.torch.methods.common import Common, widening
from symgrad.backends.torch.schedule import Scope, Target, statements
from symgrad.expr import Expr
from symgrad.operation import Variant, cotangent


class Backward(Common):
    """Writes backward."""

    def backward(self) -> list[str]:
        """The gradients that are wanted, from the cotangents that are there."""
        layout = self.layout
        grads = [f"grad_{o.name}" for o in layout.spec.outputs if o.grad]
        nothing = ", ".join(["None"] * len(layout.argument_names))
        test = " and ".join(f"{g} is None" for g in grads)
        lines = [f"if {test}:", f"    return {nothing}"] if grads else []
        body = self._stored_branches(self._backward)
        if body in ([f"return {g}"] for g in grads) or body == [f"return {nothing}"]:
            return body  # undefined in, undefined out
        wants = [t for t in layout.differentiable if any(f"wants_{t}" in line for line in body)]
        if wants and len(layout.differentiable) > 1:
            lines.append(self._wants_line("ctx.needs_input_grad", wants))
        lines += self._hyperparameters(body)
        if layout.multiplies:
            body = ["with torch.autocast(**ctx.autocast):", *(f"    {line}" for line in body)]
        return [*lines, *body]

    def _backward(self, variant: Variant) -> list[str]:
        layout = self.layout
        scope = self._scope()
        cotangents = self._cotangents(variant)
        if len(cotangents) == 1:  # which is not None then
            (name,) = (o.name for o in layout.spec.outputs if o.grad)
            scope.shapes[cotangent(name, variant.formulas[name])] = f"grad_{name}.shape"
        lines = self._unpack(variant, scope, "ctx.saved_tensors", with_kept=True)
        for saved in variant.plan.base:
            needed = self._needed_by(saved.value, variant)
            if set(needed) < set(self._wanted_tensors(variant)):
                scope.partly[saved.value] = frozenset(f"wants_{t}" for t in needed)
        if layout.widens_slopes:
            rounds = "dtype" if self._rounds(variant) else "_"
            names = [*self._float_names(variant, scope), *cotangents]
            given = len(cotangents) == 1 and not scope.partly and not layout.optional
            lines += widening(names, rounds, layout.wide_slopes, given=given)
        lines += self._recomputed(variant, scope)
        lines += self._materialised(variant)
        wanted = self._wanted_tensors(variant)
        many = len(layout.differentiable) > 1
        initial = [f"grad_{t}" for t in wanted]
        if initial and (many or len(cotangents) > 1):
            lines.append(f"{' = '.join(initial)} = None")
        targets = []
        for tensor in wanted:
            targets += self._gradient_targets(tensor, variant, many)
        lines += [*statements(targets, scope, layout.constants, fused=True), self._return(variant)]
        if any("saved[" in line for line in lines):
            lines[0] = lines[0].replace(" = ctx.saved_tensors", " = saved = ctx.saved_tensors")
        return _direct(lines)

    def _recomputed(self, variant: Variant, scope: Scope) -> list[str]:
        """Kept intermediates, or their recomputation where something differentiates this backward."""
        layout = self.layout
        if not layout.keeps:
            return []
        kept = self._kept_names(scope)
        targets = [
            Target(local, saved.value, self._readers(saved.value, variant))
            for local, saved in zip(kept, layout.keeps, strict=True)
        ]
        wants = [f"wants_{t}" for t in self._wanted_tensors(variant)]
        inner = Scope(scope.names, dict(scope.known), scope.shapes, dict(scope.partly))
        again = statements(targets, inner, layout.constants, always=wants)
        scope.known.update({saved.value: local for local, saved in zip(kept, layout.keeps, strict=True)})
        scope.partly.update({k.value: frozenset(r) for k in layout.keeps if (r := self._readers(k.value, variant))})
        taken = f"({kept[0]},) = kept" if len(kept) == 1 else f"{', '.join(kept)} = kept"
        return [
            "if kept and not _differentiated():",
            f"    {taken}",
            "else:  # a kept intermediate would lose its part of the second derivative",
            *(f"    {line}" for line in again),
        ]

    def _materialised(self, variant: Variant) -> list[str]:
        """Zeros for cotangents that an override of several outputs reads and that may be undefined."""
        outputs = [o.name for o in self.layout.spec.outputs]
        read = {s.name for o in variant.overrides.values() for s in o.gradient.symbols if s["kind"] == "cotangent"}
        if len(outputs) == 1:
            return []
        return [
            line
            for k, name in enumerate(outputs)
            if f"grad_{name}" in read
            for line in (f"if grad_{name} is None:", f"    grad_{name} = _zeros(ctx, {k})")
        ]

    def _gradient_targets(self, tensor: str, variant: Variant, many: bool) -> list[Target]:
        """The statements of one gradient: each contribution in the shape and dtype of the tensor."""
        name = f"grad_{tensor}"
        want = [f"wants_{tensor}"] if many else []
        alone = len(self.layout.spec.tensors) == 1 and self._fits(variant)
        value = "{value}" if alone else f"_fit({{value}}, {self._like(tensor, variant)})"
        override = variant.overrides.get(tensor)
        if override is not None:
            return [Target(name, _without_outer_sum(override.gradient), tuple(want), f"{{target}} = {value}")]
        terms = [(o, g) for (o, t), g in variant.gradients.items() if t == tensor]
        if len(terms) == 1 and len(self._cotangents(variant)) == 1:
            return [Target(name, _without_outer_sum(terms[0][1]), tuple(want), f"{{target}} = {value}")]
        if self._rounds_last(tensor, variant):
            value = f"_summed({{value}}, {self._like(tensor, variant)})"
        targets = []
        for i, (output, gradient) in enumerate(terms):
            condition = " and ".join([*want, f"grad_{output} is not None"])
            template = f"{{target}} = {value}" if i == 0 else f"{{target}} = _plus({{target}}, {value})"
            targets.append(Target(name, _without_outer_sum(gradient), (condition,), template))
        return targets

    def _rounds_last(self, tensor: str, variant: Variant) -> bool:
        """Whether a gradient is added up from several cotangents in a wider type than it has in the end."""
        layout = self.layout
        if not layout.widens_slopes or tensor in variant.overrides:
            return False
        alone = len(layout.spec.tensors) == 1 and self._fits(variant)
        return not alone and sum(t == tensor for _, t in variant.gradients) > 1

    def _like(self, tensor: str, variant: Variant) -> str:
        """Where backward finds the shape and dtype of a tensor: with the tensor itself, if it is always saved."""
        layout = self.layout
        own = layout.symbol(tensor)
        for k, saved in enumerate(variant.plan.base):
            if saved.value is own and tensor in self._needed_by(own, variant):
                return f"saved[{k}]"
        return f"ctx.inputs[{[t.name for t in layout.spec.tensors].index(tensor)}]"

    def _return(self, variant: Variant) -> str:
        layout = self.layout
        wanted = self._wanted_tensors(variant)
        grads = []
        for t in layout.spec.tensors:
            grad = f"grad_{t.name}" if t.name in wanted else "None"
            last = self._rounds_last(t.name, variant)
            grads.append(f"_rounded({grad}, {self._like(t.name, variant)})" if last else grad)
        rest = ", None" * (len(layout.argument_names) - len(grads))
        if not wanted:
            return f"return {', '.join(grads)}{rest}"
        if len(grads) == 1 and self._rounds(variant):
            grads = [f"_round({grads[0]}, dtype)"]
        return self._once(f"{', '.join(grads)}{rest}")


def _direct(lines: list[str]) -> list[str]:
    """`name = value` and `return name` as one statement."""
    *rest, assignment, result = lines if len(lines) > 1 else ["", *lines]
    name, equals, value = assignment.partition(" = ")
    if equals and name.isidentifier() and len(value) + len(result) < 90:
        for pattern in (f"return {name}", f"return {name}, None", f"return _round({name}, dtype)"):
            if result == pattern:
                return [*rest, result.replace(name, value, 1)]
    return lines


def _without_outer_sum(gradient: Expr) -> Expr:
    """The gradient before it is summed to its input's shape, which `_fit` does at the return."""
    return gradient.args[0] if gradient.op == "sum_to" else gradient
