"""The body of backward."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from symgrad.compiler.operation import Variant
from symgrad.differentiate.symbols import cotangent
from symgrad.ir.expr import Expr
from symgrad.plan.saving import Saved
from symgrad.targets.torch.methods.common import Common, alike, only_read
from symgrad.targets.torch.overwrite import Room
from symgrad.targets.torch.schedule import Scope, Target, joined, statements

_OVERWRITES = re.compile(r"\.\w+_\(")
_WORTHWHILE = 2  # temporaries that are overwritten, for a backward of its own


class Backward(Common):
    """Writes backward."""

    def backward(self) -> list[str]:
        """The gradients that are wanted, from the cotangents that are there."""
        return self._whole(self._stored_branches(self._backward))

    def plain_backward(self) -> list[str]:
        """Backward where nothing differentiates or batches it: reads what is kept, and overwrites its temporaries.

        Empty where that would gain nothing.
        """
        layout = self.layout
        if layout.operation.keeping is not None or layout.pivots or not any(o.grad for o in layout.spec.outputs):
            return []
        body = self._stored_branches(self._plain_backward)
        if not layout.keeps and sum(len(_OVERWRITES.findall(line)) for line in body) < _WORTHWHILE:
            return []
        lines = self._whole(body, defined=self._overwrites)  # an undefined cotangent is no tensor
        outputs = layout.spec.outputs
        # Autocast gives products a dtype of their own.
        casts = ["ctx.autocast.enabled"] if layout.multiplies else []
        tests = [*casts, f"not _is_plain(grad_{outputs[0].name})"] if self._overwrites else ["_differentiated()"]
        return [f"if {' or '.join(tests)}:", f"    {self._general_backward('ctx')}", *lines]

    def _general_backward(self, ctx: str) -> str:
        """The backward that serves every call, from a plain one."""
        outputs = self.layout.spec.outputs
        grads = ", ".join(f"grad_{o.name}" if o.grad else f"_{k}" for k, o in enumerate(outputs))
        return f"return {self.layout.class_name}Function.backward({ctx}, {grads})"

    @property
    def _overwrites(self) -> bool:
        """Whether a plain backward may overwrite its temporaries."""
        return len(self.layout.spec.outputs) == 1

    def _whole(self, body: list[str], *, defined: bool = False) -> list[str]:
        """A body of all variants, with what precedes it; the cotangent may surely be `defined`."""
        layout = self.layout
        grads = [f"grad_{o.name}" for o in layout.spec.outputs if o.grad]
        nothing = ", ".join(["None"] * len(layout.argument_names))
        test = " and ".join(f"{g} is None" for g in grads)
        lines = [f"if {test}:", f"    return {nothing}"] if grads and not defined else []
        if body in ([f"return {g}"] for g in grads) or body == [f"return {nothing}"]:
            return body  # undefined in, undefined out
        wants = [t for t in layout.differentiable if any(f"wants_{t}" in line for line in body)]
        if wants and len(layout.differentiable) > 1:
            lines.append(self._wants_line("ctx.needs_input_grad", wants))
        lines += self._hyperparameters(body)
        if layout.multiplies:
            body = ["with _autocast_as(ctx.autocast):", *(f"    {line}" for line in body)]
        return [*lines, *body]

    def _plain_backward(self, variant: Variant) -> list[str]:
        return self._backward(variant, plain=True)

    def _backward(self, variant: Variant, plain: bool = False) -> list[str]:
        layout = self.layout
        scope = self._scope(layout.symbols(variant))
        scope.shared = self._in_all_variants(
            layout.operation.derivative_body, lambda v: [g for t in layout.differentiable for g in v.gradients_of(t)]
        )
        cotangents = self._cotangents()
        if len(cotangents) == 1:  # which is not None then
            name = next(o.name for o in layout.spec.outputs if f"grad_{o.name}" in cotangents)
            scope.shapes[cotangent(name, variant.formulas[name])] = f"grad_{name}.shape"
        lines = self._unpack(variant, scope, "ctx.saved_tensors", with_kept=plain)
        kept = layout.kept(variant) if plain else ()
        if kept and layout.widens:  # of what is rounded, nothing is kept
            sure = [s for s in kept if s.value not in scope.partly and not s.without][:1]
            nothing = " and ".join(f"{scope.known[s.value]} is None" for s in sure or kept)
            lines += [f"if {nothing}:", f"    {self._general_backward('_Unpacked(ctx, saved)')}"]
        for saved in variant.plan.base:
            needed = self._needed_by(saved.value, variant)
            if set(needed) < set(layout.differentiable):
                scope.partly[saved.value] = frozenset(f"wants_{t}" for t in needed)
        rounds = self._rounds(variant)
        names = [*self._float_names(variant, scope), *cotangents]
        if kept:  # nothing was widened
            rounds = False
            if layout.mixes:
                floats = [scope.known[s.value] for s in kept if not s.value.is_boolean]
                lines += alike([*dict.fromkeys([*names[: -len(cotangents)], *floats, *cotangents])], "bool")
        else:
            given = len(cotangents) == 1 and not scope.partly and not layout.optional
            lines += self._widened(names, "dtype" if rounds else "_", given=given)
        lines += self._recomputed(scope, kept)
        lines += self._materialised(variant)
        wanted = self._wanted_tensors(variant)
        many = len(layout.differentiable) > 1
        initial = [f"grad_{t}" for t in wanted]
        if initial and (many or len(cotangents) > 1):
            lines.append(f"{' = '.join(initial)} = None")
        targets = []
        for tensor in wanted:
            targets += self._gradient_targets(tensor, variant, many)
        fits = Room(variant).fits if plain and self._overwrites else None
        certain = len(wanted) == len(layout.differentiable)
        lines += statements(targets, scope, layout.constants, fused=True, fits=fits, certain=certain)
        lines.append(self._return(variant, rounds=rounds, plain=plain))
        if any("saved[" in line or ", saved)" in line for line in lines):
            lines[0] = lines[0].replace(" = ctx.saved_tensors", " = saved = ctx.saved_tensors")
        return _direct(only_read(lines))

    def _recomputed(self, scope: Scope, kept: Sequence[Saved]) -> list[str]:
        """The intermediates that are not kept for what is wanted, computed again."""
        layout = self.layout
        lines = list[str]()
        missing = sorted((s for s in kept if s.without), key=lambda s: s.value.order)
        for k, saved in enumerate(missing):
            name, wants = scope.known[saved.value], [f"wants_{t}" for t in layout.differentiable if t in saved.without]
            later = [s.value for s in missing[k:]]
            there = {value: known for value, known in scope.known.items() if value not in later}
            body = statements(
                [Target(name, saved.value)], replace(scope, known=there, partly={}), layout.constants, fused=True
            )
            lines += [f"if {joined('and', [joined('or', wants), f'{name} is None'])}:", *(f"    {b}" for b in body)]
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
            for line in (f"if grad_{name} is None:", f"    grad_{name} = _zeros(ctx, {k})")
        ]

    def _gradient_targets(self, tensor: str, variant: Variant, many: bool) -> list[Target]:
        """The statements of one gradient: each contribution in the shape and dtype of the tensor."""
        name = f"grad_{tensor}"
        want = [f"wants_{tensor}"] if many else []
        alone = len(self.layout.spec.tensors) == 1 and self._fits(variant)
        shape, dtype = (self._of_input(attribute, tensor, variant) for attribute in ("shape", "dtype"))
        value = "{value}" if alone else f"_fit({{value}}, {shape}, {dtype})"
        override = variant.overrides.get(tensor)
        if override is not None and not override.terms:
            return [Target(name, _without_outer_sum(override.gradient), tuple(want), f"{{target}} = {value}")]
        terms = self._terms(tensor, variant)
        if len(terms) == 1 and len(self._cotangents()) == 1:
            return [Target(name, _without_outer_sum(terms[0][1]), tuple(want), f"{{target}} = {value}")]
        if self._rounds_last(tensor, variant):
            value = f"_summed({{value}}, {shape})"
        targets = []
        for i, (output, gradient) in enumerate(terms):
            condition = " and ".join([*want, f"grad_{output} is not None"] if output else want)
            template = f"{{target}} = {value}" if i == 0 else f"{{target}} = _plus({{target}}, {value})"
            conditions = (condition,) if condition else ()
            targets.append(Target(name, _without_outer_sum(gradient), conditions, template))
        return targets

    def _rounds_last(self, tensor: str, variant: Variant) -> bool:
        """Whether a gradient is added up from several cotangents in a wider type than it has in the end."""
        layout = self.layout
        if not layout.widens_slopes:
            return False
        alone = len(layout.spec.tensors) == 1 and self._fits(variant)
        return not alone and len(self._terms(tensor, variant)) > 1

    def _terms(self, tensor: str, variant: Variant) -> list[tuple[str | None, Expr]]:
        """What each output contributes to a gradient, and first what several do together."""
        override = variant.overrides.get(tensor)
        if override is not None:
            return list(override.terms.items())
        return [(o, g) for (o, t), g in variant.gradients.items() if t == tensor]

    def _of_input(self, attribute: str, tensor: str, variant: Variant) -> str:
        """Where its gradient finds the shape or dtype of a tensor: with the tensor itself, if that is saved for it."""
        own = self.layout.symbol(tensor)
        for k, saved in enumerate(variant.plan.base):
            if saved.value is own and tensor in self._needed_by(own, variant):
                return f"saved[{k}].{attribute}"
        return f"ctx.{attribute}s[{self.layout.argument_names.index(tensor)}]"

    def _return(self, variant: Variant, *, rounds: bool, plain: bool) -> str:
        layout = self.layout
        wanted = self._wanted_tensors(variant)
        grads = []
        for k, t in enumerate(layout.spec.tensors):
            grad = f"grad_{t.name}" if t.name in wanted else "None"
            last = self._rounds_last(t.name, variant)
            grads.append(f"_rounded({grad}, ctx.dtypes[{k}])" if last else grad)
        rest = ", None" * (len(layout.argument_names) - len(grads))
        if not wanted:
            return f"return {', '.join(grads)}{rest}"
        if len(grads) == 1 and rounds:
            given = "" if len(self._cotangents()) == 1 else f"{grads[0]} if {grads[0]} is None else "
            grads = [f"{given}_round({grads[0]}, dtype)"]
        found = f"{', '.join(grads)}{rest}"
        return f"return {found}" if plain else self._once(found)


class PivotBackward(Backward):
    """Writes the backward of a plain call that returned sums of its inputs, which nothing else has used."""

    def plain_backward(self) -> list[str]:
        """The gradients by way of the outputs that users see; empty where overwriting temporaries gains nothing."""
        body = self._stored_branches(self._plain_backward) if self._overwrites else []
        if sum(len(_OVERWRITES.findall(line)) for line in body) < _WORTHWHILE:
            return []
        return self._whole(body, defined=True)

    def test(self) -> str:
        """Whether it serves."""
        grad = f"grad_{self.layout.spec.outputs[0].name}"
        unused = [f"grad_{name} is None" for name in self.layout.pivots]
        casts = ["not ctx.autocast.enabled"] if self.layout.multiplies else []
        return " and ".join([*unused, *casts, f"_is_plain({grad})"])

    @property
    def _overwrites(self) -> bool:
        return len(self.layout.spec.outputs) == 1 + len(self.layout.pivots)

    def _cotangents(self) -> list[str]:
        unused = {f"grad_{name}" for name in self.layout.pivots}
        return [c for c in super()._cotangents() if c not in unused]

    def _wanted_tensors(self, variant: Variant) -> list[str]:
        wanted = super()._wanted_tensors(variant)
        return [t for t in wanted if t in variant.overrides or self._terms(t, variant)]

    def _terms(self, tensor: str, variant: Variant) -> list[tuple[str | None, Expr]]:
        return [(o, g) for o, g in super()._terms(tensor, variant) if o not in self.layout.pivots]


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
