"""The body of backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from symgrad.accuracy.machine import machine, machine_form
from symgrad.compiler.operation import Variant
from symgrad.differentiate.symbols import cotangent
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, all_of, any_of, code, constant, source
from symgrad.lower.growth import divisors
from symgrad.lower.program import Assign, If, Program, Return, Statement, With, given, missing, reads, returned
from symgrad.lower.python import lines
from symgrad.lower.schedule import Case, Scope, Target, statements
from symgrad.ops.tensors import data_arguments
from symgrad.plan.meeting import Accumulated
from symgrad.plan.reading import read_by
from symgrad.plan.saving import Saved
from symgrad.targets.torch.layout import PrintingOf
from symgrad.targets.torch.methods.common import Common, known_name, needs


class Backward(Common):
    """Writes backward."""

    def backward(self) -> Program:
        """The gradients that are wanted, from the cotangents that are there."""
        return self._whole(self._stored_branches(self._backward))

    def _whole(self, body: Program) -> Program:
        """A body of all variants, with what precedes it."""
        layout = self.layout
        grads = self._cotangents()
        nothing = returned([None] * len(layout.argument_names))
        if body in [(returned([g]),) for g in grads] or body == (nothing,):
            return body  # undefined in, undefined out
        first = (If(all_of([missing(g).code for g in grads]), (nothing,)),) if grads else ()
        needed = self._needs("ctx.needs_input_grad", reads(body)) if len(layout.differentiable) > 1 else ()
        hyperparameters = self._hyperparameters(body)
        if layout.multiplies:
            body = (With(code("rt.autocast_as(ctx.autocast)"), body),)
        return (*first, *needed, *hyperparameters, *body)

    def _backward(self, variant: Variant) -> Program:
        layout = self.layout
        scope = self._scope(layout.symbols(variant))
        scope.shared = self._in_all_variants(
            layout.operation.derivative_body, lambda v: [g for t in layout.differentiable for g in v.gradients_of(t)]
        )
        cotangents = self._cotangents()
        if len(cotangents) == 1:  # which is not None then
            name = next(o.name for o in layout.spec.outputs if f"grad_{o.name}" in cotangents)
            scope.shapes[cotangent(name, variant.formulas[name])] = code("{0}.shape", f"grad_{name}")
        unpacked = self._unpack(variant, scope, f"{self._saver}.saved(ctx)", with_kept=True)
        kept = layout.kept(variant)
        for saved in variant.plan.base:
            needed = self._needed_by(saved.value, variant)
            if set(needed) < set(layout.differentiable):
                scope.partly[saved.value] = frozenset(map(needs, needed))
        floats = [known_name(scope, s.value) for s in kept if not s.value.is_boolean]
        names = [*dict.fromkeys([*self._float_names(variant, scope), *floats, *cotangents])]
        program = [*self._needed_anyway(scope, kept, variant)]
        program += self._recomputed(scope, kept, variant)
        program += self._materialised(variant)
        wanted = self._wanted_tensors(variant)
        many = len(layout.differentiable) > 1
        gradients = self._accumulated(variant, scope)
        initial = [f"grad_{t}" for t in wanted if many or self._is_accumulated(t, variant)]
        initial += [m.symbol.name for m in gradients.meetings]
        if initial:
            program.append(Assign(initial[0], constant(None), tuple(initial[1:])))
        targets = self._meeting_targets(gradients, many)
        for tensor in wanted:
            targets += self._gradient_targets(tensor, variant, gradients, many)
        certain = len(wanted) == len(layout.differentiable)
        program += statements(targets, scope, self._printing, fused=True, certain=certain)
        program.append(self._return(variant))
        return _direct(self._widened(unpacked, names, tuple(program)))

    @property
    def _printing(self) -> PrintingOf:
        return self.layout.printing_derivatives(self._cotangents())

    def _needed_anyway(self, scope: Scope, kept: Sequence[Saved], variant: Variant) -> Program:
        """What all gradients read and intermediates are computed from: it stands once, before these."""
        if not kept:
            return ()
        forms = [g for t in self._wanted_tensors(variant) for g in variant.gradients_of(t)]
        base, values = [s.value for s in variant.plan.base], [s.value for s in kept]
        lowered = machine([*base, *values, *forms])
        given, own = frozenset(lowered[: len(base)]), lowered[len(base) : len(base) + len(values)]
        absent = set(own)  # and what is computed from it
        for node in topological(*own, leaves=given):
            if not absent.isdisjoint(node.args):
                absent.add(node)
        below = read_by(own, given) - absent
        at_hand = given.union(own)
        above = [read_by([form], at_hand) for form in lowered[len(base) + len(values) :]]
        common = {n for n in below.intersection(*above) if n.args and not n.is_static and not n.is_differential}
        common -= at_hand
        users = below.union(*above) - common
        ends = {n for user in users for n in data_arguments(user)} & common
        ends = {n for n in ends if not (n.op in ("T", "mT") and n.args[0] in ends | given)}
        unsure = frozenset(machine(scope.partly))  # what other gradients are computed from, where none of these is
        ends = {n for n in ends if unsure.isdisjoint(topological(n, leaves=given))}
        known = {v: name for v, name in scope.known.items() if v not in values}
        there = replace(scope, known=known, shared=frozenset())
        lets = {machine_form(value): name for value, name in scope.lets.items()}
        called, targets = {**lets, **there.known}, list[Target]()
        for value in sorted(ends, key=lambda n: n.order):
            called[value] = local = scope.names.for_value(value, called, lets)
            targets.append(Target(local, value))
        program = statements(targets, there, self._printing, fused=True)
        scope.known.update((t.value, t.name) for t in targets)
        return program

    def _recomputed(self, scope: Scope, kept: Sequence[Saved], variant: Variant) -> Program:
        """The intermediates that are not there, computed again: those for the same gradients in one step."""
        groups: dict[tuple[Case, Case], list[Saved]] = {}
        for saved in sorted(kept, key=lambda s: s.value.order):
            key = self._readers(saved, variant), self._kept_for(saved, variant)
            groups.setdefault(key, []).append(saved)
        program = list[Statement]()
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
            targets = [Target(known_name(scope, s.value), _again(s, variant)) for s in group]
            wanted = frozenset(readers)
            partly = {v: c for v, c in scope.partly.items() if v not in later and not (wanted and wanted <= c)}
            own = replace(scope, known=there, partly=partly)
            body = statements(targets, own, self._printing, fused=True, divisors=self._divisors(group, variant))
            needed = [any_of([r.code for r in readers])] if readers else []
            # What is an output as well is there where forward returned no residuals.
            outputs = frozenset(variant.outputs.values())
            told = next((t for t, s in zip(targets, group, strict=True) if s.value not in outputs), targets[0])
            program.append(If(all_of([*needed, missing(told.name).code]), body))
        return tuple(program)

    def _divisors(self, group: Sequence[Saved], variant: Variant) -> frozenset[Expr]:
        """The values of a group by which gradients only divide."""
        gradients = [g for t in self.layout.differentiable for g in variant.gradients_of(t)]
        lowered = machine([*(s.value for s in group), *gradients])
        found = divisors(lowered[len(group) :], topological(*lowered[len(group) :]))
        return frozenset(_again(s, variant) for s, low in zip(group, lowered, strict=False) if low in found)

    def _materialised(self, variant: Variant) -> Program:
        """Zeros for cotangents that may be undefined and that an override reads in more than a factor."""
        outputs = [o.name for o in self.layout.spec.outputs]
        read = {s.name for o in variant.overrides.values() for s in o.rest.symbols if s["kind"] == "cotangent"}
        if len(outputs) == 1:
            return ()
        grads = {f"grad_{name}": k for k, name in enumerate(outputs)}
        return tuple(
            If(missing(g).code, (Assign(g, code("rt.zeros(ctx, {0})", k)),)) for g, k in grads.items() if g in read
        )

    def _accumulated(self, variant: Variant, scope: Scope) -> Accumulated:
        """The gradients, with local names for the sums of cotangents that they read."""
        gradients = variant.accumulated.renamed([scope.names.fresh("cotangent") for _ in variant.accumulated.meetings])
        scope.known.update((m.symbol, m.symbol.name) for m in gradients.meetings)
        return gradients

    def _meeting_targets(self, gradients: Accumulated, many: bool) -> list[Target]:
        """The statements that add up cotangents where their ways meet."""
        targets = []
        for meeting in gradients.meetings:
            name = meeting.symbol.name
            wants = [(needs(t),) for t in gradients.readers(meeting)] if many else [()]
            for place, (giver, term) in enumerate(meeting.terms):
                cases = self._cases(wants, gradients, giver)
                targets.append(Target(name, term, cases, partial(_added, name, place > 0)))
        return targets

    def _cases(self, wants: Sequence[Case], gradients: Accumulated, giver: str) -> tuple[Case, ...]:
        """The cases in which one of some gradients is wanted and what a cotangent or a sum of such gives is there."""
        sources, cotangents = gradients.sources(giver) if giver else frozenset[str](), self._cotangents()
        there: list[Case] = [(given(c),) for c in cotangents if c in sources < frozenset(cotangents)]
        cases = tuple((*want, *one) for want in wants for one in there or [()])
        return cases if any(cases) else ()

    def _gradient_targets(self, tensor: str, variant: Variant, gradients: Accumulated, many: bool) -> list[Target]:
        """The statements of one gradient: each contribution in the shape and dtype of the tensor."""
        name = f"grad_{tensor}"
        want = (needs(tensor),) if many else ()
        place = self.layout.argument_names.index(tensor)

        def fitted(value: Code) -> Statement:
            return Assign(name, code("rt.fit(ctx, {0}, {1})", place, value))

        def accumulated(value: Code) -> Statement:
            return Assign(name, code("rt.accumulate(ctx, {0}, {1}, {2})", place, name, value))

        override = variant.overrides.get(tensor)
        terms = gradients.of(tensor)
        if override is not None:
            terms = [(f"grad_{o}" if o else "", g) for o, g in override.terms.items()]
        if not self._is_accumulated(tensor, variant):
            only = override.gradient if override is not None and not override.terms else terms[0][1]
            return [Target(name, _without_outer_sum(only), (want,) if want else (), fitted)]
        return [
            Target(name, _without_outer_sum(gradient), self._cases([want], gradients, giver), accumulated)
            for giver, gradient in terms
        ]

    def _return(self, variant: Variant) -> Return:
        layout = self.layout
        wanted = self._wanted_tensors(variant)
        grads: list[Code | str | None] = [None] * len(layout.argument_names)
        for k, t in enumerate(layout.spec.tensors):
            if t.name in wanted:
                summed = self._is_accumulated(t.name, variant)
                grads[k] = code("rt.fit(ctx, {0}, {1})", k, f"grad_{t.name}") if summed else f"grad_{t.name}"
        return self._once(grads) if wanted else returned(grads)

    def _is_accumulated(self, tensor: str, variant: Variant) -> bool:
        """Whether a gradient is added up from several cotangents, of which some may be absent, and rounded last."""
        override, cotangents = variant.overrides.get(tensor), self._cotangents()
        if override is not None:
            return bool(override.terms) and (len(override.terms) > 1 or len(cotangents) > 1)
        names = [name for name, _ in variant.accumulated.of(tensor)]
        return len(names) > 1 or variant.accumulated.sources(names[0]) < frozenset(cotangents)


def _added(name: str, several: bool, value: Code) -> Statement:
    """The statement that gives a sum of cotangents one more term."""
    return Assign(name, code("rt.added({0}, {1})", name, value) if several else value)


def _again(saved: Saved, variant: Variant) -> Expr:
    """What is computed for an intermediate that is not there: for autograd to differentiate."""
    return variant.guarded.get(saved.value, saved.value)


def _direct(program: Program) -> Program:
    """`name = value` and `return name` as one statement."""
    *before, last = program
    match before:
        case [*rest, Assign(str() as name, value, ())] if len(source(value)) + len(*lines((last,))) < _LONGEST:
            for results in ([name], [name, None]):
                if last == returned(results):
                    return (*rest, returned([value, *results[1:]]))
    return program


_LONGEST = 99  # characters of a value and of its return, which then needs no name


def _without_outer_sum(gradient: Expr) -> Expr:
    """The gradient before it is summed to its input's shape, which `_fit` does at the return."""
    return gradient.args[0] if gradient.op == "sum_to" else gradient
