"""The bodies of forward, setup_context, backward and jvp, as source lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from symgrad import expr as ex
from symgrad.backends.torch.dtypes import Operands, printed, promoted
from symgrad.backends.torch.layout import Layout, branches
from symgrad.backends.torch.printer import Printer
from symgrad.backends.torch.schedule import Scope, Target, statements
from symgrad.differentiate import is_tensor_op
from symgrad.expr import Expr, topological
from symgrad.machine import machine
from symgrad.naming import describe
from symgrad.operation import Variant, absent, cotangent, tangent
from symgrad.plan import Saved
from symgrad.shapes import shape_sources
from symgrad.tensor_ops import TENSOR_OPS


def joined(names: Sequence[str], *, trailing: bool = True) -> str:
    """`a, b`, or `a,` for a tuple of one."""
    return f"{names[0]}," if len(names) == 1 and trailing else ", ".join(names)


Leaf: TypeAlias = Callable[[Variant], "list[str]"]


class Methods:
    """Writes the methods of one operation."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def _branches(self, leaf: Leaf) -> list[str]:
        """The lines of `leaf` under the conditions of each variant."""
        return branches(self.layout.operation.body, leaf, Printer(self.layout.symbols(), self.layout.constants))

    def _stored_branches(self, leaf: Leaf) -> list[str]:
        """The lines of `leaf` under the conditions that matter to derivatives, with what was not given from ctx."""
        names = self.layout.symbols() | {absent(t): f"ctx.without_{t}" for t in self.layout.absences_on_ctx}
        return branches(self.layout.operation.derivative_body, leaf, Printer(names, self.layout.constants))

    def _scope(self, symbols: dict[Expr, str] | None = None) -> Scope:
        return Scope(self.layout.names(), symbols if symbols is not None else self.layout.symbols())

    # ------------------------------------------------------------------------------------------ forward
    def forward(self) -> list[str]:
        """The formula; with intermediates to keep, they follow the outputs."""
        return self._branches(self._forward)

    def _forward(self, variant: Variant) -> list[str]:
        layout = self.layout
        targets: list[Target] = []
        results: list[str] = []
        single = len(variant.outputs) == 1 and not layout.keeps
        scope = self._scope()
        widening, rounded = self._widening(variant, scope)
        for name, form in variant.outputs.items():
            local = layout.outputs[name]
            repeated = form.args and form in (t.value for t in targets)
            pattern = rounded[name].replace("{value}", "{value}.clone()") if repeated else rounded[name]
            value = self._complete(form, variant.formulas[name], pattern)
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
        if form.op == "sym" or form.is_static:
            return pattern.replace("{value}", "{value}.clone()")
        return pattern

    def _kept_names(self, scope: Scope) -> list[str]:
        """Local names for the intermediates that a plain call keeps."""
        layout = self.layout
        outputs = {form: layout.outputs[name] for name, form in layout.variants[0].outputs.items()}
        symbols = layout.symbols()
        return [outputs.get(s.value) or scope.names.fresh(describe(s.value, symbols)) for s in layout.keeps]

    # ------------------------------------------------------------------------------------------ setup_context
    def setup_context(self) -> list[str]:
        """Keeps what the plan says, each value only if a wanted gradient needs it."""
        layout = self.layout
        lines = []
        unpacked: list[tuple[list[str], str]] = [([layout.arguments[a] for a in layout.argument_names], "inputs")]
        if len(layout.outputs) > 1:
            unpacked.append((list(layout.outputs.values()), "outputs"))
        undifferentiable = [layout.outputs[o.name] for o in layout.spec.outputs if not o.grad]
        if undifferentiable:
            lines.append(f"ctx.mark_non_differentiable({', '.join(undifferentiable)})")
        if self._needs_shapes():
            lines.append(f"ctx.inputs = _like({', '.join(layout.tensors)})")
        if layout.multiplies:
            lines.append(f"ctx.autocast = _autocast({self._always_given()})")
        if any("_zeros(" in line for line in self.backward()):
            lines.append("ctx.outputs = [(y.shape, y.dtype, y.device) for y in outputs]")
        lines += [f"{layout.on_ctx(h)} = {layout.arguments[h]}" for h in layout.hyperparameters_on_ctx]
        lines += [f"ctx.without_{t} = {layout.arguments[t]} is None" for t in layout.absences_on_ctx]
        body = self._branches(self._setup)
        wants = [t for t in layout.differentiable if any(f"wants_{t}" in line for line in body)]
        if wants:
            lines.append(self._wants_line("_wanted(ctx)", wants))
        lines += body
        return [*(_unpacking(names, source, lines) for names, source in unpacked if _reads(lines, names)), *lines]

    def _always_given(self) -> str:
        """A tensor that is never absent."""
        layout = self.layout
        return next(layout.arguments[t.name] for t in layout.spec.tensors if t.default is None)

    def _needs_shapes(self) -> bool:
        """Whether backward or jvp read shapes and dtypes of the inputs."""
        return any("ctx.inputs" in line for line in (*self.backward(), *self.jvp()))

    def _wants_line(self, source: str, wants: Sequence[str]) -> str:
        """Unpack which arguments want a derivative, by name; `_` for those that nobody asks about."""
        layout = self.layout
        return _unpacking([f"wants_{a}" for a in layout.argument_names], source, [f"wants_{t}" for t in wants])

    def _setup(self, variant: Variant) -> list[str]:
        layout = self.layout
        scope = self._scope()
        names = {**scope.known, **{form: layout.outputs[n] for n, form in variant.outputs.items()}}
        arguments = []
        for saved in variant.plan.base:
            text = names.get(saved.value) or Printer(names, layout.constants)(machine([saved.value])[0])
            needed = self._needed_by(saved.value, variant)
            if set(needed) < set(self._wanted_tensors(variant)) or saved.source == "mask":
                text = f"{text} if {' or '.join(f'wants_{t}' for t in needed)} else None"
            arguments.append(text)
        if layout.keeps:
            arguments.append(self._saved_extras(variant))
        outputs = list(layout.outputs.values())
        results = f"({outputs[0]},)" if len(outputs) == 1 else "outputs"
        return [f"_save(ctx, {results}{''.join(f', {a}' for a in arguments)})"]

    def _saved_extras(self, variant: Variant) -> str:
        """The kept intermediates, each only if a wanted gradient reads it."""
        wants = [" or ".join(self._readers(s.value, variant)) for s in self.layout.keeps]
        if not any(wants):
            return "*kept"
        if len(set(wants)) == 1:
            return f"*(kept if {wants[0]} else ())"
        each = (f"kept[{k}] if {want} else None" if want else f"kept[{k}]" for k, want in enumerate(wants))
        return f"*(({', '.join(each)}) if kept else ())"

    def _wanted_tensors(self, variant: Variant) -> list[str]:
        """The tensors with a gradient other than zero."""
        present = {t for _, t in variant.gradients}
        present |= {t for t, o in variant.overrides.items() if o.gradient is not ex.ZERO}
        return [t for t in self.layout.differentiable if t in present]

    def _needed_by(self, value: Expr, variant: Variant) -> list[str]:
        """The tensors whose gradients read a saved value."""
        kept = frozenset(s.value for s in variant.plan.base)
        needing: set[str] = set()
        gradients = [(t, g) for (_, t), g in variant.gradients.items()]
        gradients += [(t, o.gradient) for t, o in variant.overrides.items()]
        for tensor, gradient in gradients:
            if value in data_below(gradient, kept):
                needing.add(tensor)
        return [t for t in self.layout.differentiable if t in needing]

    # ------------------------------------------------------------------------------------------ backward
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

    def _mentions(self, lines: Sequence[str], argument: str) -> bool:
        return any(self.layout.arguments[argument] in line for line in lines)

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
            lines += self._widened([*self._float_names(variant, scope), *cotangents], rounds)
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

    def _once(self, value: str) -> str:
        """The return of a derivative, which may be one that must not be differentiated."""
        spec = self.layout.spec
        return f"return {value}" if spec.options.double_backward else f'return _once("{spec.op}", {value})'

    def _fits(self, variant: Variant) -> bool:
        """Whether the only gradient has its input's shape and dtype by itself."""
        (tensor,) = (t.name for t in self.layout.spec.tensors)
        own = frozenset({self.layout.symbol(tensor)})
        pointwise = all(shape_sources(f) == own for f in variant.formulas.values())
        return pointwise and all(shape_sources(o.gradient) <= own for o in variant.overrides.values())

    def _cotangents(self, variant: Variant) -> list[str]:
        return [f"grad_{o.name}" for o in self.layout.spec.outputs if o.grad]

    def _unpack(self, variant: Variant, scope: Scope, source: str, *, with_kept: bool) -> list[str]:
        """Bring the saved values into scope by name."""
        layout = self.layout
        for t in layout.absences_on_ctx:
            scope.known[absent(t)] = f"ctx.without_{t}"
        for symbol in [s for s in scope.known if s.tensors and s["kind"] not in ("cotangent", "tangent")]:
            del scope.known[symbol]
        for i, tensor in enumerate(layout.spec.tensors):
            scope.shapes[layout.symbol(tensor.name)] = f"ctx.inputs[{i}].shape"
        names = []
        for saved in variant.plan.base:
            local = self._saved_name(saved, variant, scope)
            scope.known[saved.value] = local
            names.append(local)
        if layout.keeps and with_kept:
            names.append("*kept")
        elif layout.keeps:
            names.append("*_")
        if not names:
            return []
        if names == ["*kept"]:
            return ["kept = ctx.saved_tensors"]
        return [f"{joined(names)} = {source}" if len(names) > 1 else f"({names[0]},) = {source}"]

    def _saved_name(self, saved: Saved, variant: Variant, scope: Scope) -> str:
        layout = self.layout
        if saved.source == "input":
            return layout.symbols()[saved.value]
        for name, form in variant.outputs.items():
            if form is saved.value:
                return layout.outputs[name]
        return scope.names.for_value(saved.value, layout.symbols())

    def _float_names(self, variant: Variant, scope: Scope) -> list[str]:
        return [scope.known[s.value] for s in variant.plan.base if s.source != "mask"]

    def _widened(self, names: Sequence[str], dtype: str = "_") -> list[str]:
        helper = "_widen_all" if self.layout.wide_slopes else "_widen"
        return [f"{', '.join(names)}, {dtype} = {helper}({', '.join(names)})"]

    def _rounds(self, variant: Variant) -> bool:
        """Whether the only gradient needs no more than rounding to its input's dtype."""
        return self.layout.widens_slopes and len(self.layout.spec.tensors) == 1 and self._fits(variant)

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

    def _readers(self, value: Expr, variant: Variant) -> tuple[str, ...]:
        """The conditions under which a kept value is read; for others its operands need not have been saved."""
        values = frozenset(s.value for s in self.layout.keeps)
        gradients = [(t, g) for (_, t), g in variant.gradients.items()]
        gradients += [(t, o.gradient) for t, o in variant.overrides.items()]
        readers = {t for t, g in gradients if value in data_below(g, values)}
        if len(self.layout.differentiable) < 2 or readers == set(self._wanted_tensors(variant)):
            return ()
        return tuple(f"wants_{t}" for t in self.layout.differentiable if t in readers)

    # ------------------------------------------------------------------------------------------ jvp
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

    def _hyperparameters(self, body: Sequence[str]) -> list[str]:
        """Bring the hyperparameters that a body reads into scope."""
        layout = self.layout
        read = [h for h in layout.hyperparameters_on_ctx if self._mentions(body, h)]
        if not read:
            return []
        return [f"{', '.join(layout.arguments[h] for h in read)} = {', '.join(map(layout.on_ctx, read))}"]

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
        name = f"tangent_{tensor}"
        lines = self._unpack(variant, scope, "saved", with_kept=False)
        rounds = self._keeps_shape()
        if layout.widens_slopes:
            lines += self._widened([*self._float_names(variant, scope), name], "dtype" if rounds else "_")
        scope.shapes[tangent(tensor)] = f"{name}.shape"  # it is there
        result = "{value}" if rounds else "_total(ctx, [{value}])"
        if rounds and layout.widens_slopes:
            result = "_round({value}, dtype)"
        target = Target(name, value, template=self._once(result))
        return lines + statements([target], scope, layout.constants, fused=True)

    def _refusals(self) -> list[str]:
        """Forward mode has no meaning for a gradient rule that is not linear in the cotangent."""
        tensors = {t for v in self.layout.variants for t, o in v.overrides.items() if o.transposed is None}
        lines: list[str] = []
        for tensor in [t for t in self.layout.differentiable if t in tensors]:
            lines += [
                f"if tangent_{tensor} is not None:",
                f'    raise RuntimeError("{self.layout.spec.op}: no forward mode in {tensor}, whose gradient rule is '
                'not linear in the cotangent")',
            ]
        return lines

    def _all_tangents(self, variant: Variant) -> list[str]:
        layout = self.layout
        scope = self._scope()
        lines = self._unpack(variant, scope, "saved", with_kept=False)
        names = self._float_names(variant, scope)
        if layout.widens_slopes and names:
            if any(is_tensor_op(n) for v in variant.tangents.values() for n in topological(v)):
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
        lines += statements(targets, scope, layout.constants, fused=True)
        return [*lines, self._once(", ".join(results))]

    def _tangent_terms(self, output: str, variant: Variant) -> list[tuple[str, Expr]]:
        terms = []
        for tensor in self.layout.differentiable:
            override = variant.overrides.get(tensor)
            if override is None:
                value = variant.tangents.get((output, tensor))
            else:
                value = (override.transposed or {}).get(output)
            if value is not None:
                terms.append((tensor, value))
        return terms


def _reads(lines: Sequence[str], names: Sequence[str]) -> bool:
    return any(re.search(rf"\b{re.escape(n)}\b", line) for n in names for line in lines)


def _unpacking(names: Sequence[str], source: str, lines: Sequence[str]) -> str:
    """Unpack the names that the lines read; `_` stands for the others."""
    used = [n if _reads(lines, [n]) else "_" for n in names]
    while len(used) > 2 and used[-1] == "_" and used[-2] == "_":
        used.pop()
    if len(used) < len(names):
        used[-1] = "*_"
    return f"({used[0]},) = {source}" if len(used) == 1 else f"{', '.join(used)} = {source}"


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


def data_below(root: Expr, stop: frozenset[Expr]) -> frozenset[Expr]:
    """The values of `stop` whose data (not only shape) `root` reads."""
    found: set[Expr] = set()
    seen: set[Expr] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in stop:
            found.add(node)
            continue
        skip = TENSOR_OPS[node.op].shape_only if node.op in TENSOR_OPS else frozenset()
        stack.extend(a for k, a in enumerate(node.args) if k not in skip)
    return frozenset(found)


__all__ = ["Methods", "cotangent", "data_below", "ex", "joined", "topological"]
