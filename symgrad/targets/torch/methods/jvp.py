"""The body of jvp."""

from __future__ import annotations

import re

from symgrad.compiler.operation import Variant
from symgrad.differentiate.modes import is_tensor_op
from symgrad.differentiate.symbols import tangent
from symgrad.differentiate.ties import released
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.targets.torch.methods.common import Common, only_read
from symgrad.targets.torch.schedule import Target, statements


class Jvp(Common):
    """Writes jvp."""

    def jvp(self) -> list[str]:
        """The tangents of the outputs from those of the inputs that have one."""
        only = self._only_tangent()
        body = self._stored_branches(self._one_tangent if only else self._all_tangents)
        if only and body == [f"return {only}"] and self._keeps_shape():
            return [f"return None if {only} is None else {only}.clone()"]
        if len(body) == 1 and re.fullmatch(r"return (None|_zeros\(ctx, \d+\)|, )+", body[0]):
            return [*self._refusals(), *body]
        lines = self._hyperparameters(body)
        if only:
            # Another tensor, which the output does not depend on, may have the only tangent.
            nothing = "None" if len(self.layout.spec.tensors) == 1 else "_zeros(ctx, 0)"
            lines = [f"if {only} is None:", f"    return {nothing}", *lines]
        if any(re.search(r"\bsaved\b", line) for line in body):
            body = ["with _primals(ctx) as saved:", *(f"    {line}" for line in body)]
        elif not self._keeps_shape():
            body = ["with _primals(ctx):", *(f"    {line}" for line in body)]
        return [*self._refusals(), *lines, *body]

    def _only_tangent(self) -> str | None:
        """The name of the tangent, where every output of every variant depends on that one alone."""
        layout = self.layout
        if len(layout.spec.outputs) > 1:
            return None
        output = layout.spec.outputs[0].name
        found = [[t for t, _ in self._tangent_terms(output, v)] for v in layout.variants]
        return f"tangent_{found[0][0]}" if found[0] and all(f == found[0][:1] for f in found) else None

    def _keeps_shape(self) -> bool:
        """Whether the tangents have the output's shape and dtype by themselves."""
        layout = self.layout
        return len(layout.spec.tensors) == 1 and all(self._fits(v) for v in layout.variants)

    def _one_tangent(self, variant: Variant) -> list[str]:
        layout = self.layout
        ((tensor, value),) = self._tangent_terms(layout.spec.outputs[0].name, variant)
        scope = self._scope()
        scope.shared = self._in_all_variants(layout.operation.derivative_body, lambda v: list(v.tangents.values()))
        name = f"tangent_{tensor}"
        lines = self._unpack(variant, scope, "saved", with_kept=False)
        rounds = self._keeps_shape()
        lines += self._widened([*self._float_names(variant, scope), name], "dtype" if rounds else "_")
        scope.shapes[tangent(tensor)] = f"{name}.shape"  # it is there
        result = "{value}" if rounds else "_total(ctx, [{value}])"
        if rounds and layout.widens_slopes:
            result = "_round({value}, dtype)"
        target = Target(name, value, template=self._once(result))
        return only_read(lines + statements([target], scope, layout.constants, fused=True))

    def _refusals(self) -> list[str]:
        """Forward mode has no meaning for a gradient rule that is not linear in the cotangent."""
        tensors = {t for v in self.layout.variants for t, o in v.overrides.items() if o.transposed is None}
        lines: list[str] = []
        for tensor in [t for t in self.layout.differentiable if t in tensors]:
            lines += [
                f"if tangent_{tensor} is not None:",
                f'    raise RuntimeError("{self.layout.spec.op}: no forward mode in {tensor}, "'
                ' "whose gradient rule is not linear in the cotangent")',
            ]
        return lines

    def _all_tangents(self, variant: Variant) -> list[str]:
        layout = self.layout
        scope = self._scope()
        scope.shared = self._in_all_variants(layout.operation.derivative_body, lambda v: list(v.tangents.values()))
        lines = self._unpack(variant, scope, "saved", with_kept=False)
        names = self._float_names(variant, scope)
        if names:
            if any(is_tensor_op(n) for v in variant.tangents.values() for n in topological(released(v))):
                names += [f"tangent_{t}" for t in layout.differentiable]  # products want equal dtypes
            lines += self._widened(names)
        results, targets = [], []
        for k, output in enumerate(layout.spec.outputs):
            terms = self._tangent_terms(output.name, variant)
            if not output.grad:
                results.append("None")
                continue
            if not terms:
                results.append(f"_zeros(ctx, {k})")
                continue
            local = "terms" if len(layout.spec.outputs) == 1 else scope.names.fresh(f"terms_{output.name}")
            lines.append(f"{local} = []")
            targets += [
                Target(local, value, (f"tangent_{tensor} is not None",), "{target}.append({value})")
                for tensor, value in terms
            ]
            results.append(f"_total(ctx, {local}{f', {k}' if k else ''})")
        if not targets:
            return [f"return {', '.join(results)}"]
        targets.sort(key=lambda t: layout.differentiable.index(t.conditions[0].split(" ")[0].removeprefix("tangent_")))
        certain = len({t.conditions for t in targets}) == len(layout.differentiable)
        lines += statements(targets, scope, layout.constants, fused=True, certain=certain)
        return only_read([*lines, self._once(", ".join(results))])

    def _tangent_terms(self, output: str, variant: Variant) -> list[tuple[str, Expr]]:
        terms = []
        for tensor in self.layout.differentiable:
            override = variant.overrides.get(tensor)
            if override is None:
                value = variant.tangents.get((output, tensor))
            else:
                value = (override.transposed or {}).get(output)
            if value is not None:
                terms.append((tensor, value if self._keeps_shape() else _without_outer_expansion(value)))
        return terms


def _without_outer_expansion(value: Expr) -> Expr:
    """The tangent before it is expanded to its output's shape, which `_total` does at the return."""
    return value.args[0] if value.op == "expand" and value.args[0].tensors else value
