"""What the writers of all methods share: names, branches, what is saved, and how it is brought into scope."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import TypeAlias

from symgrad.accuracy.machine import machine
from symgrad.compiler.operation import Body, Variant, leaves
from symgrad.ir import expr as ex
from symgrad.ir.branches import absent
from symgrad.ir.expr import Expr
from symgrad.lower.code import Code, code, constant, keyword, starred, tuple_of
from symgrad.lower.conditionals import branches
from symgrad.lower.program import Assign, Condition, Program, Return, reads, returned, unpacking, wanted
from symgrad.lower.schedule import Scope
from symgrad.ops.tensors import data_arguments, is_index
from symgrad.plan.reading import read_by
from symgrad.plan.saving import Saved
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.printer import Printer

Leaf: TypeAlias = "Callable[[Variant], Program]"


class Common:
    """Facts and phrases of one operation."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def _branches(self, body: Body, leaf: Leaf, known: Mapping[Expr, Code] | None = None) -> Program:
        """The programs of `leaf` under the conditions of each variant, in which `known` names are used first."""
        names = self.layout.symbols() | dict(known or {})
        return branches(body, leaf, Printer(names, self.layout.constants))

    def _stored_branches(self, leaf: Leaf) -> Program:
        """The programs of `leaf` under the conditions that matter to derivatives; ctx says what was not given."""
        known = {absent(t): self.layout.without(t) for t in self.layout.absences_on_ctx}
        return self._branches(self.layout.operation.derivative_body, leaf, known)

    def _in_all_variants(self, body: Body, forms: Callable[[Variant], Sequence[Expr]]) -> frozenset[Expr]:
        """The largest values that the forms of every variant are computed from: they stand before the branches."""
        variants = leaves(body)
        if len(variants) < 2:
            return frozenset()
        read = [read_by(forms(v), frozenset()) for v in variants]
        common = {n for n in read[0].intersection(*read[1:]) if n.args and not n.is_static}
        outside = {a for values in read for n in values if n not in common for a in data_arguments(n)}
        # Of what every variant returns nothing is shared; of what some do, if nothing else comes between.
        roots = [frozenset(forms(v)) for v in variants]
        own = frozenset().union(*roots) if self.layout.optional else roots[0].intersection(*roots[1:])
        return frozenset(n for n in common if n in outside and n not in own)

    def _scope(self, symbols: dict[Expr, str | Code] | None = None) -> Scope:
        known = symbols if symbols is not None else self.layout.symbols()
        return Scope(self.layout.names(), known, lets=self._names_of_forms)

    @cached_property
    def _names_of_forms(self) -> dict[Expr, str]:
        """Names that a value has in all methods: that of the spec, or the one that forward gives to a residual."""
        fullest = self._fullest
        own = zip(
            (s.value for s in self.layout.kept(fullest)), self._kept_names(self._first_scope, fullest), strict=True
        )
        return {value: name for value, name in own if value not in fullest.outputs.values()} | self.layout.lets

    @property
    def _first_scope(self) -> Scope:
        return Scope(self.layout.names(), self.layout.symbols(), lets=self.layout.lets)

    @property
    def _fullest(self) -> Variant:
        """The variant that has most residuals."""
        return max(self.layout.variants, key=lambda variant: len(self.layout.returned(variant)))

    @cached_property
    def residual_names(self) -> list[str]:
        """What forward and setup_context call the residuals: as in the variant that has most."""
        return [name for name, _ in self._returned(self._first_scope, self._fullest)]

    def _returned(self, scope: Scope, variant: Variant) -> list[tuple[str, Saved]]:
        """What forward returns beside the outputs, with its names."""
        kept, returned = self.layout.kept(variant), self.layout.returned(variant)
        named = zip(self._kept_names(scope, variant), kept, strict=True)
        chosen = ((self._saved_name(s, variant, scope), s) for s in self.layout.chosen(variant))
        return [*((name, s) for name, s in named if s in returned), *chosen]

    def _kept_names(self, scope: Scope, variant: Variant) -> list[str]:
        """Local names for the intermediates that backward reads."""
        layout = self.layout
        outputs = {form: layout.outputs[name] for name, form in variant.outputs.items()}
        values = [s.value for s in layout.kept(variant)]
        symbols = layout.symbols()
        return [outputs.get(v) or scope.names.for_value(v, symbols, layout.lets) for v in values]

    def _needs(self, source: str, read: frozenset[str]) -> Program:
        """Unpack which arguments want a derivative, by name: those that are read, if any is."""
        names = [f"needs_{a}" for a in self.layout.argument_names]
        return (unpacking(names, code(source), read),) if read.intersection(names) else ()

    def _wanted_tensors(self, variant: Variant) -> list[str]:
        """The tensors with a gradient other than zero."""
        present = {t for _, t in variant.gradients}
        present |= {t for t, o in variant.overrides.items() if o.gradient is not ex.ZERO}
        return [t for t in self.layout.differentiable if t in present]

    def _needed_by(self, value: Expr, variant: Variant) -> list[str]:
        """The tensors whose gradients read a saved value."""
        return readers(value, variant, self.layout, variant.plan.base)

    def _readers(self, kept: Saved, variant: Variant) -> tuple[Condition, ...]:
        """The conditions under which an intermediate is read; for others its operands need not have been saved."""
        return self._conditions(readers(kept.value, variant, self.layout, variant.plan.saved))

    def _kept_for(self, kept: Saved, variant: Variant) -> tuple[Condition, ...]:
        """The conditions under which an intermediate is kept."""
        return self._conditions(keepers(kept, variant, self.layout))

    def _conditions(self, tensors: Sequence[str]) -> tuple[Condition, ...]:
        """That one of some gradients is wanted; none if one always is."""
        everyone = self.layout.differentiable
        return () if len(everyone) < 2 or set(tensors) == set(everyone) else tuple(map(needs, tensors))

    def _hyperparameters(self, body: Program) -> Program:
        """Bring the hyperparameters that a body reads into scope."""
        layout = self.layout
        own = {layout.arguments[h]: layout.on_ctx(h) for h in layout.hyperparameters_on_ctx}
        read = [name for name in own if name in reads(body)]
        if len(read) > 1:
            return (Assign(tuple(read), tuple_of([own[name] for name in read])),)
        return tuple(Assign(name, own[name]) for name in read)

    @property
    def _saver(self) -> str:
        """The module that saves values."""
        return "_packing" if self.layout.is_packed else "rt"

    def _cotangents(self) -> list[str]:
        """The cotangents that backward reads."""
        return [f"grad_{o.name}" for o in self.layout.spec.outputs if o.grad]

    def _unpack(self, variant: Variant, scope: Scope, source: str, *, with_kept: bool) -> Program:
        """Bring the saved values into scope by name."""
        layout = self.layout
        for t in layout.absences_on_ctx:
            scope.known[absent(t)] = layout.without(t)
        for symbol in [s for s in scope.known if s.tensors and not s.is_differential]:
            del scope.known[symbol]
        for i, tensor in enumerate(layout.spec.tensors):
            if tensor.default is None or layout.symbol(tensor.name) in variant.tensors:
                symbol = layout.symbol(tensor.name)
                scope.shapes[symbol] = code("rt.shape(ctx, {0})", i)
                if symbol["kind"] == "tensor":  # as it is computed with, where it was not saved and so not widened
                    scope.dtypes[symbol] = code("torch.promote_types(rt.dtype(ctx, {0}), torch.float32)", i)
        names = []
        for saved in variant.plan.base:
            local = self._saved_name(saved, variant, scope)
            scope.known[saved.value] = local
            names.append(local)
        if with_kept:
            for local, kept in zip(self._kept_names(scope, variant), layout.kept(variant), strict=True):
                scope.known[kept.value] = local
                if conditions := self._readers(kept, variant):
                    scope.partly[kept.value] = frozenset(conditions)
                names.append(local)
        return (Assign(tuple(names), code(source)),) if names else ()

    def _saved_name(self, saved: Saved, variant: Variant, scope: Scope) -> str:
        layout = self.layout
        if saved.source == "input":
            return layout.arguments[saved.value.name]
        fixed = self._fixed(variant)  # which are not what is saved, though they may be of one value
        for name, form in variant.outputs.items():
            if form is saved.value and name not in fixed:
                return layout.outputs[name]
        return scope.names.for_value(saved.value, layout.symbols())

    def _fixed(self, variant: Variant) -> list[str]:
        """The outputs that are marked non-differentiable; indices are so by themselves."""
        return [o.name for o in self.layout.spec.outputs if not o.grad and not is_index(variant.formulas[o.name])]

    def _float_names(self, variant: Variant, scope: Scope) -> list[str]:
        values = [s.value for s in variant.plan.base if s.source != "mask" and not is_index(s.value)]
        whole = () if self.layout.wide_slopes else ("int_tensor",)
        return [known_name(scope, v) for v in values if v.get("kind") not in ("bool_tensor", *whole)]

    def _widened(self, unpacked: Program, names: Sequence[str], body: Program) -> Program:
        """A body, before it the unpacking of saved values and the widening of those with `names`, as far as derivatives
        need it; both at once where all are widened."""
        names = [name for name in names if name not in self.layout.places.values()]
        match unpacked:
            case [Assign(tuple() as saved, source)] if tuple(names[: len(saved)]) == saved:
                at_once = self._widening_of(names, [starred(source), *names[len(saved) :]])
                if at_once:
                    return only_read(at_once, body)
        return only_read(unpacked, (*self._widening_of(names, names), *body))

    def _widening_of(self, names: Sequence[str], values: Sequence[Code | str]) -> Program:
        layout = self.layout
        if not names:
            return ()
        if layout.mixes and not layout.wide_slopes:
            return alike(names, "float32" if layout.widens_slopes else "bool", values)
        return widening(names, "_", layout.wide_slopes, values=values) if layout.widens_slopes else ()

    def _once(self, results: Sequence[Code | str | None]) -> Return:
        """The return of a derivative, which may be one that must not be differentiated."""
        spec = self.layout.spec
        if spec.options.double_backward:
            return returned(results)
        found = [constant(r) if r is None else r for r in results]
        return Return(code("rt.once({0}, {1})", constant(spec.op), found))


def needs(tensor: str) -> Condition:
    """That the gradient of a tensor is wanted."""
    return wanted(f"needs_{tensor}")


def known_name(scope: Scope, value: Expr) -> str:
    """The local name of a value that has one."""
    name = scope.known[value]
    assert isinstance(name, str)
    return name


def widening(
    names: Sequence[str],
    dtype: str,
    wide: bool,
    groups: Iterable[Collection[str]] = (),
    values: Sequence[Code | str] | None = None,
) -> Program:
    """Widen `values` (those of the names), to float64 if `wide`, else to what they promote to, float32 at least;
    `dtype` is what to round to, or None if they are as they should be. Where the tensors of one of the `groups` are
    integers, floats are made of them.
    """
    made = tuple(tuple(k for k, name in enumerate(names) if name in group) for group in groups)
    options = [keyword("floats", constant(made))] if made else []
    template = "rt.widen_to_double({0}, {1})" if wide else "rt.widen({0}, {1})"
    return (Assign((*names, dtype), code(template, names if values is None else values, options)),)


def alike(names: Sequence[str], least: str, values: Sequence[Code | str]) -> Program:
    """Give values, those of the names, one dtype, no narrower than `least`."""
    return (Assign(tuple(names), code(f"rt.alike(torch.{least}, {{0}})", values)),) if len(names) > 1 else ()


def only_read(unpacked: Program, program: Program) -> Program:
    """A program after the unpacking of saved values, with `_` for those that it does not read."""
    read = reads(program)
    return (
        *(
            replace(s, target=tuple(n if n in read else "_" for n in s.target))
            if isinstance(s, Assign) and isinstance(s.target, tuple) and len(s.target) > 1
            else s
            for s in unpacked
        ),
        *program,
    )


def keepers(saved: Saved, variant: Variant, layout: Layout) -> list[str]:
    """The tensors for whose gradients a value is kept."""
    intermediate = saved.source == "intermediate"
    found = readers(saved.value, variant, layout, variant.plan.saved if intermediate else variant.plan.base)
    return [t for t in found if t not in saved.without]


def readers(value: Expr, variant: Variant, layout: Layout, saved: Sequence[Saved]) -> list[str]:
    """The tensors whose gradients read a value, where the `saved` ones are at hand.

    It is asked of the machine form, in which a part of a product may be a value.
    """
    gradients = {t: list(variant.gradients_of(t)) for t in layout.differentiable}
    kept, forms = [s.value for s in saved], [g for own in gradients.values() for g in own]
    lowered = iter(machine([value, *kept, *forms]))
    one, at_hand = next(lowered), frozenset(islice(lowered, len(kept)))
    return [t for t, own in gradients.items() if one in read_by(list(islice(lowered, len(own))), at_hand)]
