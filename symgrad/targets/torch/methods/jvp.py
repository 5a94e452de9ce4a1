"""The body of jvp."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.compiler.operation import Variant
from symgrad.differentiate.modes import is_tensor_op
from symgrad.differentiate.symbols import tangent
from symgrad.differentiate.ties import released
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.targets.torch.methods.common import Common, only_read, reads
from symgrad.targets.torch.schedule import Target, statements


class Jvp(Common):
    """Writes jvp."""

    def jvp(self) -> list[str]:
        """The tangents of the outputs from those of the inputs that have one."""
        if not any(o.grad for o in self.layout.spec.outputs):
            return [f"return {self._returned(['None'] * len(self.layout.spec.outputs))}"]
        only = self._only_tangent()
        body = self._stored_branches(self._one_tangent if only else self._all_tangents)
        lines = self._hyperparameters(body)
        if only:
            # Another tensor, which the output does not depend on, may have the only tangent.
            nothing = "None" if len(self.layout.spec.tensors) == 1 else "rt.zeros(ctx, 0)"
            lines = [f"if {only} is None:", f"    return {self._returned([nothing])}", *lines]
        name = "saved" if reads(body, ["saved"]) else ""
        body = [f"with rt.primals(ctx){' as saved' if name else ''}:", *(f"    {line}" for line in body)]
        return [*lines, *body]

    def _returned(self, tangents: Sequence[str]) -> str:
        """What jvp returns: residuals have no tangent."""
        return ", ".join([*tangents, *["None"] * self.layout.keeps])

    def _only_tangent(self) -> str | None:
        """The name of the tangent, where every output of every variant depends on that one alone."""
        layout = self.layout
        if len(layout.spec.outputs) > 1 or any(map(self._refusals, layout.variants)):
            return None
        output = layout.spec.outputs[0].name
        found = [[t for t, _ in self._tangent_terms(output, v)] for v in layout.variants]
        return f"tangent_{found[0][0]}" if found[0] and all(f == found[0][:1] for f in found) else None

    def _one_tangent(self, variant: Variant) -> list[str]:
        layout = self.layout
        ((tensor, value),) = self._tangent_terms(layout.spec.outputs[0].name, variant)
        scope = self._scope()
        scope.shared = self._in_all_variants(layout.operation.derivative_body, lambda v: list(v.tangents.values()))
        name = f"tangent_{tensor}"
        lines = self._unpack(variant, scope, "saved", with_kept=False)
        lines += self._widened([*self._float_names(variant, scope), name])
        scope.shapes[tangent(tensor)] = f"{name}.shape"  # it is there
        lines += self._refusals(variant)
        own = "{value}.clone()" if value.op == "sym" else "{value}"  # a new tensor
        target = Target(name, value, template=self._once(self._returned([f"rt.tangent(ctx, {own})"])))
        return only_read(lines + statements([target], scope, layout.constants, fused=True))

    def _refusals(self, variant: Variant) -> list[str]:
        """Forward mode has no meaning for a gradient rule that is not linear in the cotangent."""
        refused = [t for t in self.layout.differentiable if self._is_refused(t, variant)]
        return [f'rt.refuse_tangent("{self.layout.spec.op}", "{t}", tangent_{t})' for t in refused]

    def _is_refused(self, tensor: str, variant: Variant) -> bool:
        override = variant.overrides.get(tensor)
        return override is not None and override.transposed is None

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
        results, targets, start = [], [], list[str]()
        for k, output in enumerate(layout.spec.outputs):
            terms = self._tangent_terms(output.name, variant)
            if not output.grad:
                results.append("None")
                continue
            if not terms:
                results.append(f"rt.zeros(ctx, {k})")
                continue
            local = scope.names.fresh(f"tangent_{output.name}")
            start.append(f"{local} = rt.Sum(ctx{f', {k}' if k else ''})")
            targets += [
                Target(local, value, (f"tangent_{tensor} is not None",), "{target} += {value}")
                for tensor, value in terms
            ]
            results.append(f"{local}.result()")
        refusals = self._refusals(variant)
        if not targets:
            return [*refusals, f"return {self._returned(results)}"]
        lines += [*refusals, *start]
        targets.sort(key=lambda t: layout.differentiable.index(t.conditions[0].split(" ")[0].removeprefix("tangent_")))
        certain = len({t.conditions for t in targets}) == len(layout.differentiable)
        lines += statements(targets, scope, layout.constants, fused=True, certain=certain)
        return only_read([*lines, self._once(self._returned(results))])

    def _tangent_terms(self, output: str, variant: Variant) -> list[tuple[str, Expr]]:
        terms = []
        for tensor in self.layout.differentiable:
            override = variant.overrides.get(tensor)
            if override is None:
                value = variant.tangents.get((output, tensor))
            else:
                value = (override.transposed or {}).get(output)
            if value is not None:
                terms.append((tensor, _without_outer_expansion(value)))
        return terms


def _without_outer_expansion(value: Expr) -> Expr:
    """The tangent before it is expanded to its output's shape, which the runtime does at the return."""
    return value.args[0] if value.op == "expand" and value.args[0].tensors else value
