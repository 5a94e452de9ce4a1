"""The body of backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.compiler.operation import Variant
from symgrad.differentiate.symbols import cotangent
from symgrad.ir.expr import Expr
from symgrad.plan.saving import Saved
from symgrad.targets.torch.methods.common import Common, only_read
from symgrad.targets.torch.schedule import Scope, Target, joined, statements


class Backward(Common):
    """Writes backward."""

    def backward(self) -> list[str]:
        """The gradients that are wanted, from the cotangents that are there."""
        return self._whole(self._stored_branches(self._backward))

    def _whole(self, body: list[str]) -> list[str]:
        """A body of all variants, with what precedes it."""
        layout = self.layout
        grads = [f"grad_{o.name}" for o in layout.spec.outputs if o.grad]
        nothing = ", ".join(["None"] * len(layout.argument_names))
        test = " and ".join(f"{g} is None" for g in grads)
        lines = [f"if {test}:", f"    return {nothing}"] if grads else []
        if body in ([f"return {g}"] for g in grads) or body == [f"return {nothing}"]:
            return body  # undefined in, undefined out
        needed = [t for t in layout.differentiable if any(f"needs_{t}" in line for line in body)]
        if needed and len(layout.differentiable) > 1:
            lines.append(self._needs_line("ctx.needs_input_grad", needed))
        lines += self._hyperparameters(body)
        if layout.multiplies:
            body = ["with rt.autocast_as(ctx.autocast):", *(f"    {line}" for line in body)]
        return [*lines, *body]

    def _backward(self, variant: Variant) -> list[str]:
        layout = self.layout
        scope = self._scope(layout.symbols(variant))
        scope.shared = self._in_all_variants(
            layout.operation.derivative_body, lambda v: [g for t in layout.differentiable for g in v.gradients_of(t)]
        )
        cotangents = self._cotangents()
        if len(cotangents) == 1:  # which is not None then
            name = next(o.name for o in layout.spec.outputs if f"grad_{o.name}" in cotangents)
            scope.shapes[cotangent(name, variant.formulas[name])] = f"grad_{name}.shape"
        lines = self._unpack(variant, scope, "rt.saved(ctx)", with_kept=True)
        kept = layout.kept(variant)
        for saved in variant.plan.base:
            needed = self._needed_by(saved.value, variant)
            if set(needed) < set(layout.differentiable):
                scope.partly[saved.value] = frozenset(f"needs_{t}" for t in needed)
        floats = [scope.known[s.value] for s in kept if not s.value.is_boolean]
        lines += self._widened([*dict.fromkeys([*self._float_names(variant, scope), *floats, *cotangents])])
        lines += self._recomputed(scope, kept, variant)
        lines += self._materialised(variant)
        wanted = self._wanted_tensors(variant)
        many = len(layout.differentiable) > 1
        initial = [f"grad_{t}" for t in wanted]
        if initial and (many or len(cotangents) > 1):
            lines.append(f"{' = '.join(initial)} = None")
        targets = []
        for tensor in wanted:
            targets += self._gradient_targets(tensor, variant, many)
        certain = len(wanted) == len(layout.differentiable)
        lines += statements(targets, scope, layout.constants, fused=True, certain=certain)
        lines.append(self._return(variant))
        return _direct(only_read(lines))

    def _recomputed(self, scope: Scope, kept: Sequence[Saved], variant: Variant) -> list[str]:
        """The intermediates that are not there, computed again: those for the same gradients in one step."""
        groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Saved]] = {}
        for saved in sorted(kept, key=lambda s: s.value.order):
            key = self._readers(saved, variant), self._kept_for(saved, variant)
            groups.setdefault(key, []).append(saved)
        lines = list[str]()
        pending = list(groups.items())
        for k, ((readers, _), group) in enumerate(pending):
            later = {s.value for _, others in pending[k:] for s in others}
            later |= {  # what may be absent where this group is wanted
                s.value
                for (others, _), own in pending[:k]
                for s in own
                if others and not (readers and set(readers) <= set(others))
            }
            there = {value: known for value, known in scope.known.items() if value not in later}
            targets = [Target(scope.known[s.value], s.value) for s in group]
            body = statements(targets, replace(scope, known=there, partly={}), self.layout.constants, fused=True)
            needed = [joined("or", readers)] if readers else []
            lines += [f"if {joined('and', [*needed, f'{targets[0].name} is None'])}:", *(f"    {b}" for b in body)]
        return lines

    def _materialised(self, variant: Variant) -> list[str]:
        """Zeros for cotangents that may be undefined and that an override reads in more than a factor."""
        outputs = [o.name for o in self.layout.spec.outputs]
        read = {s.name for o in variant.overrides.values() for s in o.rest.symbols if s["kind"] == "cotangent"}
        if len(outputs) == 1:
            return []
        return [
            line
            for k, name in enumerate(outputs)
            if f"grad_{name}" in read
            for line in (f"if grad_{name} is None:", f"    grad_{name} = rt.zeros(ctx, {k})")
        ]

    def _gradient_targets(self, tensor: str, variant: Variant, many: bool) -> list[Target]:
        """The statements of one gradient: each contribution in the shape and dtype of the tensor."""
        name = f"grad_{tensor}"
        want = [f"needs_{tensor}"] if many else []
        place = self.layout.argument_names.index(tensor)
        value = f"rt.fit(ctx, {place}, {{value}})"
        override = variant.overrides.get(tensor)
        if override is not None and not override.terms:
            return [Target(name, _without_outer_sum(override.gradient), tuple(want), f"{{target}} = {value}")]
        terms = self._terms(tensor, variant)
        if len(terms) == 1 and len(self._cotangents()) == 1:
            return [Target(name, _without_outer_sum(terms[0][1]), tuple(want), f"{{target}} = {value}")]
        targets = []
        for output, gradient in terms:
            condition = " and ".join([*want, f"grad_{output} is not None"] if output else want)
            template = f"{{target}} = rt.accumulate(ctx, {place}, {{target}}, {{value}})"
            conditions = (condition,) if condition else ()
            targets.append(Target(name, _without_outer_sum(gradient), conditions, template))
        return targets

    def _terms(self, tensor: str, variant: Variant) -> list[tuple[str | None, Expr]]:
        """What each output contributes to a gradient, and first what several do together."""
        override = variant.overrides.get(tensor)
        if override is not None:
            return list(override.terms.items())
        return [(o, g) for (o, t), g in variant.gradients.items() if t == tensor]

    def _return(self, variant: Variant) -> str:
        layout = self.layout
        wanted = self._wanted_tensors(variant)
        grads = []
        for k, t in enumerate(layout.spec.tensors):
            grad = f"grad_{t.name}" if t.name in wanted else "None"
            summed = t.name in wanted and self._is_accumulated(t.name, variant)
            grads.append(f"rt.fit(ctx, {k}, {grad})" if summed else grad)
        found = ", ".join([*grads, *["None"] * (len(layout.argument_names) - len(grads))])
        return self._once(found) if wanted else f"return {found}"

    def _is_accumulated(self, tensor: str, variant: Variant) -> bool:
        """Whether a gradient is added up from several cotangents, and rounded last."""
        override = variant.overrides.get(tensor)
        if override is not None and not override.terms:
            return False
        return len(self._terms(tensor, variant)) > 1 or len(self._cotangents()) > 1


def _direct(lines: list[str]) -> list[str]:
    """`name = value` and `return name` as one statement."""
    *rest, assignment, result = lines if len(lines) > 1 else ["", *lines]
    name, equals, value = assignment.partition(" = ")
    if equals and name.isidentifier() and len(value) + len(result) < 90:
        for pattern in (f"return {name}", f"return {name}, None"):
            if result == pattern:
                return [*rest, result.replace(name, value, 1)]
    return lines


def _without_outer_sum(gradient: Expr) -> Expr:
    """The gradient before it is summed to its input's shape, which `_fit` does at the return."""
    return gradient.args[0] if gradient.op == "sum_to" else gradient
