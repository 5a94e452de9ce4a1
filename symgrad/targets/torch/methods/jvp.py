"""The body of jvp."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter

from symgrad.compiler.operation import Variant
from symgrad.differentiate.modes import is_tensor_op
from symgrad.differentiate.symbols import tangent
from symgrad.differentiate.ties import released
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, code, constant
from symgrad.lower.program import Assign, Augment, Do, If, Program, Statement, With, given, missing, reads, returned
from symgrad.lower.schedule import Target, statements
from symgrad.targets.torch.methods.common import Common


class Jvp(Common):
    """Writes jvp."""

    def jvp(self) -> Program:
        """The tangents of the outputs from those of the inputs that have one."""
        if not any(o.grad for o in self.layout.spec.outputs):
            return (returned(self._results([None] * len(self.layout.spec.outputs))),)
        only = self._only_tangent()
        body = self._stored_branches(self._one_tangent if only else self._all_tangents)
        first: Program = ()
        if only:
            # Another tensor, which the output does not depend on, may have the only tangent.
            nothing = None if len(self.layout.spec.tensors) == 1 else code("rt.zeros(ctx, 0)")
            first = (If(missing(only).code, (returned(self._results([nothing])),)),)
        name = "saved" if "saved" in reads(body) else ""
        return (*first, *self._hyperparameters(body), With(code("rt.primals(ctx)"), body, name))

    def _results(self, tangents: Sequence[Code | str | None]) -> list[Code | str | None]:
        """What jvp returns: residuals have no tangent."""
        return [*tangents, *[None] * self.layout.keeps]

    def _only_tangent(self) -> str | None:
        """The name of the tangent, where every output of every variant depends on that one alone."""
        layout = self.layout
        if len(layout.spec.outputs) > 1 or any(map(self._refusals, layout.variants)):
            return None
        output = layout.spec.outputs[0].name
        found = [[t for t, _ in self._tangent_terms(output, v)] for v in layout.variants]
        return f"tangent_{found[0][0]}" if found[0] and all(f == found[0][:1] for f in found) else None

    def _one_tangent(self, variant: Variant) -> Program:
        layout = self.layout
        ((tensor, value),) = self._tangent_terms(layout.spec.outputs[0].name, variant)
        scope = self._scope()
        scope.shared = self._in_all_variants(layout.operation.derivative_body, lambda v: list(v.tangents.values()))
        name = f"tangent_{tensor}"
        unpacked = self._unpack(variant, scope, "saved", with_kept=False)
        names = [*self._float_names(variant, scope), name]
        scope.shapes[tangent(tensor)] = code("{0}.shape", name)  # it is there
        own = "rt.tangent(ctx, {0}.clone())" if value.op == "sym" else "rt.tangent(ctx, {0})"  # a new tensor

        def result(value: Code) -> Statement:
            return self._once(self._results([code(own, value)]))

        printing = layout.printing_derivatives([name])
        target = Target(name, value, (), result)
        program = statements([target], scope, printing, fused=True)
        return self._widened(unpacked, names, (*self._refusals(variant), *program))

    def _refusals(self, variant: Variant) -> Program:
        """Forward mode has no meaning for a gradient rule that is not linear in the cotangent."""
        op, refused = self.layout.spec.op, [t for t in self.layout.differentiable if self._is_refused(t, variant)]
        template = "rt.refuse_tangent({0}, {1}, {2})"
        return tuple(Do(code(template, constant(op), constant(t), f"tangent_{t}")) for t in refused)

    def _is_refused(self, tensor: str, variant: Variant) -> bool:
        override = variant.overrides.get(tensor)
        return override is not None and override.transposed is None

    def _all_tangents(self, variant: Variant) -> Program:
        layout = self.layout
        scope = self._scope()
        scope.shared = self._in_all_variants(layout.operation.derivative_body, lambda v: list(v.tangents.values()))
        unpacked = self._unpack(variant, scope, "saved", with_kept=False)
        names = self._float_names(variant, scope)
        if names and any(is_tensor_op(n) for v in variant.tangents.values() for n in topological(released(v))):
            names += [f"tangent_{t}" for t in layout.differentiable]  # products want equal dtypes
        results, targets, start = list[Code | str | None](), list[tuple[int, Target]](), list[Statement]()
        for k, output in enumerate(layout.spec.outputs):
            terms = self._tangent_terms(output.name, variant)
            if not output.grad:
                results.append(None)
                continue
            if not terms:
                results.append(code("rt.zeros(ctx, {0})", k))
                continue
            local = scope.names.fresh(f"tangent_{output.name}")
            start.append(Assign(local, code("rt.Sum(ctx, {0})", [constant(k)] if k else [])))
            targets += [
                (
                    layout.differentiable.index(tensor),
                    Target(local, value, ((given(f"tangent_{tensor}"),),), partial(Augment, local)),
                )
                for tensor, value in terms
            ]
            results.append(code("{0}.result()", local))
        refusals = self._refusals(variant)
        if not targets:
            return (*refusals, returned(self._results(results)))
        tangents = [f"tangent_{t}" for t in layout.differentiable]
        printing = layout.printing_derivatives(tangents)
        targets.sort(key=itemgetter(0))
        certain = len({place for place, _ in targets}) == len(layout.differentiable)
        sums = statements([t for _, t in targets], scope, printing, fused=True, certain=certain)
        return self._widened(unpacked, names, (*refusals, *start, *sums, self._once(self._results(results))))

    def _tangent_terms(self, output: str, variant: Variant) -> list[tuple[str, Expr]]:
        terms = ((tensor, variant.tangent_of(output, tensor)) for tensor in self.layout.differentiable)
        return [(tensor, value) for tensor, value in terms if value is not None]
