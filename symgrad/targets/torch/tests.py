"""The complete text of a generated test: the module against its formula, its rules and true values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

from symgrad.compiler.operation import Operation, Variant
from symgrad.compiler.workbench import Workbench
from symgrad.differentiate.modes import is_tensor_op
from symgrad.differentiate.ties import released
from symgrad.ir.expr import ZERO
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.parse.formula import formula
from symgrad.resources import environment
from symgrad.targets.constants import constant_value
from symgrad.targets.formatting import format_python
from symgrad.targets.literals import literal, tuple_of
from symgrad.targets.torch import dispatch, docs, public, samples
from symgrad.targets.torch.composite import composite_lines
from symgrad.targets.torch.conditionals import branches
from symgrad.targets.torch.dtypes import floated_in, is_choice_of_numbers, promoted
from symgrad.targets.torch.figures import ALLOWANCE, figures
from symgrad.targets.torch.imports import test_imports
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.methods import keepers
from symgrad.targets.torch.owner import facts_to_test
from symgrad.targets.torch.plumbing import plumbing
from symgrad.targets.torch.printer import Printer
from symgrad.targets.torch.ranges import sampled_ranges
from symgrad.targets.torch.schedule import Scope, Target, statements
from symgrad.targets.torch.special import special

__all__ = ["render_test"]

_OF_FLOATS = frozenset(row.name for row in FUNCTIONS.values() if row.of_floats)
_NOT_IN_HALF = frozenset({"erfcx", "log_ndtr"})  # which torch has on no CPU
_ONE_DTYPE = frozenset({"matmul", "einsum", "conv1d", "conv2d"})  # which torch refuses of tensors of different types


def render_test(operation: Operation, kept: int = 0, package: str = "") -> str:
    """The test of an operation's module, formatted; it imports pytest, torch and the standard library.

    `kept` is the most tensors that fused passes save beside what the plan says; `package` is where it imports the module
    from, empty where that stands beside it.
    """
    layout = Layout(operation)
    template = environment().get_template("torch/test.py.j2")
    context = _Facts(layout).context() | {"kept": kept, "package": package}
    draft = template.render(**context, imports="")
    return format_python(template.render(**context, imports=test_imports(draft)))


class _Facts:
    """What the template asks about an operation."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.spec = layout.spec
        self.places = {t.name: i for i, t in enumerate(self.spec.tensors)}
        self.constants = layout.constants
        self.settings = samples.settings(layout)
        self.shapes, self.empty = samples.shapes(layout)
        self.ranges = sampled_ranges(layout)
        self.formulas = [f for v in layout.variants for f in v.formulas.values()]
        self.operations = any(is_tensor_op(n) for f in self.formulas for n in topological(f))
        self.broadcasting = all(t.shape is None for t in self.spec.tensors) and not self.operations
        self.plain = all(t.dtype == "float" for t in self.spec.tensors)

    def context(self) -> dict[str, Any]:
        """All variables of the template."""
        layout = self.layout
        context = {
            **self._arguments(),
            **self._samples(),
            **self._values(),
            **self._conduct(),
            **self._derivatives(),
            "module": facts_to_test(layout, self.shapes[0], self.settings[0]),
        }
        formulas = [line for part in ("composite", "saved", "rule", "transposed") for line in context.get(part, ())]
        context["helpers"] = plumbing("\n".join(formulas))
        context["constants"] = [f"{name} = {constant_value(n)!r}  # {formula(n)}" for n, name in self.constants.items()]
        return context

    def _arguments(self) -> dict[str, Any]:
        """What the operation is called by and with."""
        layout, spec = self.layout, self.spec
        tensors, outputs = spec.tensors, spec.outputs
        kinds = [{"float": "torch.float64", "int": "torch.int64", "bool": "torch.bool"}[t.dtype] for t in tensors]
        return {
            "op": spec.op,
            "name": layout.class_name,
            "equations": docs.escaped(docs.equations(layout)),
            "keyword_only": "*" in public.signature(layout).replace("**", "").split(", "),
            "tensors": literal([t.name for t in tensors]),
            "many": len(tensors) > 1,
            "kinds": "" if self.plain else tuple_of(kinds),
            "masks": any(t.dtype == "bool" for t in tensors),
            "fixed": tuple(self.places[t.name] for t in tensors if t.dtype == "float" and not t.grad),
            "optional": any(t.default is not None for t in tensors),
            "head": next(i for i, t in enumerate(tensors) if t.default is None),
            "hyperparameters": literal([h.name for h in spec.hyperparameters]) if spec.hyperparameters else "",
            "outputs": len(outputs),
            "output_names": literal([o.name for o in outputs]),
            "grad_outputs": tuple(i for i, o in enumerate(outputs) if o.grad),
            "some_fixed_outputs": not all(o.grad for o in outputs),
            "arguments": ", ".join(f"{layout.arguments[a]}: Any" for a in layout.argument_names),
            "inplace": {"index": self.places[spec.options.inplace]} if spec.options.inplace else None,
            "ascii": all(map(str.isascii, self._declared())),  # torch.jit.load reads no other names
        }

    def _samples(self) -> dict[str, Any]:
        """Shapes, ranges and hyperparameters, and what is refused of each."""
        spec, first = self.spec, self.shapes[0]
        tensors = spec.tensors
        mixed = samples.shapes_to_mix(spec, self.shapes, self.formulas)
        return {
            "settings": literal(self.settings),
            "compiled_settings": literal(self._compiled()),
            "refused": self._refused(),
            "shapes": literal(self.shapes),
            "empty": literal(self.empty) if self.empty else "",
            "mixed_shapes": "SHAPES" if mixed == self.shapes else literal(mixed),
            "large_shapes": f"[(64,)] * {len(tensors)}" if self.broadcasting else "SHAPES[0]",
            "square_shapes": f"[(4, 6)] * {len(tensors)}" if self.broadcasting else "SHAPES[0]",
            "bad_shapes": literal(bad) if (bad := samples.bad_shapes(spec, first)) else "",
            "ones": literal([_ones(t.shape) for t in tensors]),
            "in_dims": literal(_in_dims([s is not None for s in first])),
            "ranges": literal(self.ranges),
            "twin": "1.5 * t + 0.25" if self._unbounded() else "t.flip(0) if t.dim() else t",
            "special": tuple_of(list(map(tuple_of, special(self.layout)))),
            "numbers": self._numbers() if self._takes_numbers() else "",
        }

    def _derivatives(self) -> dict[str, Any]:
        """Which derivatives there are, and how those that the spec gives are checked."""
        layout, spec = self.layout, self.spec
        live = any(o.grad for o in spec.outputs) and bool(layout.differentiable)
        differentiable = tuple(self.places[t] for t in layout.differentiable) if live else ()
        overridden = tuple(self.places[t] for t in self._overridden())
        derived = tuple(i for i in differentiable if i not in overridden)
        once, overrides = not spec.options.double_backward, bool(overridden)
        zero = all(o.gradient is ZERO for v in layout.variants for o in v.overrides.values())
        found = {
            "live": live,
            "differentiable": differentiable,
            "derived": derived,
            "halfless": any(n.op in _NOT_IN_HALF for f in self.formulas for n in topological(f)),
            "several": len(differentiable) > 1,
            "subsets": literal(_subsets(differentiable)),
            "dispensable": all(spec.tensors[i].default is not None for i in differentiable),
            "checked": bool(derived),
            "double_checked": live and not once and not (overrides and zero),
            "once": once and not overrides and self._sloped(),
            "twice": not once and not overrides and bool(differentiable),
            "nonlinear": dispatch.is_nonlinear(layout),
            "overrides": overrides,
            "overridden": overridden,
            "absent": any(spec.tensors[i].default is not None for i in overridden),
            "compared": not overrides,  # the composite has no part of these
        }
        if overrides:
            found |= {
                "cotangents": ", ".join(f"grad_{o.name}: Any" for o in spec.outputs),
                "tangents": ", ".join(f"tangent_{t.name}: Any" for t in spec.tensors),
                "rule": self._rule(),
                "transposed": self._transposed(),
            }
        return found

    def _values(self) -> dict[str, Any]:
        """The formula in torch, true values, and what accuracy and dtypes may be asked for."""
        return {
            "composite": composite_lines(self.layout),
            "guarded": self._guarded(),
            "allowance": ALLOWANCE,
            "figures": figures(self.layout),
            "pointwise": not self.operations,
            "sums": self.broadcasting and len(self.spec.tensors) > 1,
            "multiplies": self.layout.multiplies,
            "mixes": not any(n.op in _ONE_DTYPE for f in self.formulas for n in topological(f)),
            "half": self.spec.options.accumulate == "float32",
            "finer": self._is_finer(),
        }

    def _conduct(self) -> dict[str, Any]:
        """What is saved for backward, and in what dtype it is."""
        return {
            "saved": self._saved(),
            "rounded_slopes": not any(s.source == "output" for v in self.layout.variants for s in v.plan.base),
            **self._versions(),
        }

    # ------------------------------------------------------------------------------------------ facts
    def _joint(self) -> bool:
        """Whether the dtype of every output is that of all tensors, which decide the dtype of a number among them."""
        everyone = {self.layout.symbol(t.name) for t in self.spec.tensors}
        nodes = topological(*self.formulas)
        return not any(map(is_choice_of_numbers, nodes)) and all(promoted(f) == everyone for f in self.formulas)

    def _takes_numbers(self) -> bool:
        """Whether any tensor may be a number, and the results are as if it were a tensor without dimensions."""
        return self.broadcasting and len(self.spec.tensors) > 1 and self.plain and self._joint()

    def _numbers(self) -> str:
        """Numbers in all domains: an integer, where torch computes the formula of one, and another."""
        whole = not any(n.op in _OF_FLOATS for f in self.formulas for n in topological(f))
        domains = [t.domain for t in self.spec.tensors if t.domain is not None]
        found = [v for v in (2 if whole else 2.0, 0.5) if all(v in d for d in domains)]
        return repr(found) if found else ""

    def _sloped(self) -> bool:
        """Whether there is a derivative in the first settings."""
        variant = samples.variant_at(self.layout, self.settings[0])
        return variant is not None and bool(variant.gradients)

    def _overridden(self) -> list[str]:
        found = {t for v in self.layout.variants for t in v.overrides}
        return [t.name for t in self.spec.tensors if t.name in found]

    def _unbounded(self) -> bool:
        """Whether values may grow by half and a bit without leaving a domain."""
        floats = [t for t in self.spec.tensors if t.dtype == "float"]
        small = self.ranges == [samples.sampled_range(t, self.spec) for t in self.spec.tensors]
        small = small and all(t.name not in self.spec.test.ranges for t in floats)
        bounded = any(t.domain and (t.domain.upper < float("inf") or t.domain.lower > 0) for t in floats)
        return len(floats) == len(self.spec.tensors) and small and not bounded

    def _compiled(self) -> list[tuple[Any, ...]]:
        """Settings that take different branches of the module, at most two."""
        found: dict[int, tuple[Any, ...]] = {}
        for values in self.settings:
            found.setdefault(id(samples.variant_at(self.layout, values)), values)
        return list(found.values())[:2]

    def _is_finer(self) -> bool:
        """Whether functions of whole numbers are computed in float64, which the composite computes in float32."""
        wide = self.layout.wide_values or self.layout.wide_slopes
        return wide and any(map(floated_in, self.formulas))

    def _refused(self) -> str:
        rows = [f'("{n}", {value}, {error})' for n, value, error in samples.refused(self.spec)]
        return f"[{', '.join(rows)}]" if rows else ""

    def _versions(self) -> dict[str, Any]:
        """The places, among tensors and outputs, of what is saved in the first settings and can be changed."""
        variant = samples.variant_at(self.layout, self.settings[0])
        names = list(self.layout.outputs.values())
        found: list[tuple[int, str]] = []
        floats = {t.name: i for i, t in enumerate(self.spec.tensors) if t.dtype == "float"}
        for s in variant.plan.base if variant and self.layout.operation.keeping is None else ():
            if s.source == "input" and s.value["name"] in floats:
                found.append((floats[s.value["name"]], s.value["name"]))
            elif s.source == "output" and variant:
                k = list(variant.outputs.values()).index(s.value)
                found.append((len(self.spec.tensors) + k, names[k]))
        found.sort()
        return {
            "versions": literal([i for i, _ in found]) if found else "",
            "versions_text": docs.listed([n for _, n in found]) if found else "",
        }

    # ------------------------------------------------------------------------------------------ source
    def _branches(self, leaf: Any) -> list[str]:
        return branches(self.layout.operation.body, leaf, Printer(self.layout.symbols(), self.constants))

    def _scope(self) -> Scope:
        return Scope(self.layout.names(), self.layout.symbols(), lets=self.layout.lets)

    def _saved(self) -> list[str]:
        """Lines that return the plan's values, each with the places of the tensors whose gradients read it."""
        symbols = self.layout.symbols()

        def leaf(variant: Variant) -> list[str]:
            base = variant.plan.base
            extras = self.layout.kept(variant)
            scope = self._scope()
            targets, rows = [], []
            for saved in (*base, *extras):
                name = symbols.get(saved.value)
                if name is None:
                    name = scope.names.for_value(released(saved.value), symbols)
                    targets.append(Target(name, saved.value))
                tensors = keepers(saved, variant, self.layout)
                rows.append(f"({name}, {literal([self.places[t] for t in tensors])})")
            return [*statements(targets, scope, self.constants), f"return [{', '.join(rows)}]"]

        printer = Printer(self.layout.symbols(), self.constants)
        return branches(self.layout.operation.called.body, leaf, printer)

    def _rule(self) -> list[str]:
        tensors = self.spec.tensors

        def leaf(variant: Variant) -> list[str]:
            targets = [(f"own_{t}", o.gradient) for t, o in variant.overrides.items() if o.gradient is not ZERO]
            lines = statements([Target(n, v) for n, v in targets], self._scope(), self.constants)
            known = {n for n, _ in targets}
            results = [f"own_{t.name}" if f"own_{t.name}" in known else "None" for t in tensors]
            return [*lines, f"return [{', '.join(results)}]"]

        return self._branches(leaf)

    def _transposed(self) -> list[str]:
        spec = self.spec

        def leaf(variant: Variant) -> list[str]:
            targets, results = [], []
            for output in spec.outputs:
                terms = [
                    rule[output.name] for o in variant.overrides.values() if output.name in (rule := o.transposed or {})
                ]
                names = [f"term_{output.name}_{k}" if k else f"term_{output.name}" for k in range(len(terms))]
                targets += [Target(n, v) for n, v in zip(names, terms, strict=True)]
                local = self.layout.outputs[output.name]
                results.append(f"{' + '.join(names)} + 0 * {local}" if names else f"torch.zeros_like({local})")
            call = ", ".join(self.layout.arguments[a] for a in self.layout.argument_names)
            outputs = ", ".join(self.layout.outputs.values())
            lines = statements(targets, self._scope(), self.constants)
            return [*lines, f"{outputs} = composite({call})", f"return {', '.join(results)}"]

        return self._branches(leaf)

    def _guarded(self) -> list[str]:
        """The composite with harmless arguments in dead branches, where autograd would give NaN without them."""
        bench = Workbench(self.layout.operation.program)
        if all(bench.guarded(f) is f for v in self.layout.variants for f in v.formulas.values()):
            return []
        return composite_lines(self.layout, bench.guarded)

    def _declared(self) -> list[str]:
        """All names of the spec but those of dimensions."""
        return [*self.layout.argument_names, *self.layout.outputs, *(f.name for f in self.spec.let)]


def _subsets(places: Sequence[int]) -> list[tuple[int, ...]]:
    """Subsets of differentiable tensors: all up to four tensors, else each alone, all but each, and all."""
    n = len(places)
    sizes = range(1, n + 1) if n <= 4 else (1, n - 1, n)
    return [c for k in sizes for c in combinations(places, k)]


def _in_dims(present: Sequence[bool]) -> list[tuple[int | None, ...]]:
    n = len(present)
    if n <= 3:
        found: list[tuple[int | None, ...]] = [c for c in product((0, None), repeat=n) if 0 in c]
    else:
        found = [(0,) * n] + [tuple(0 if k == i else None for k in range(n)) for i in range(n)]
    return [*found, (-1,) * n]


def _ones(shape: Sequence[int | str] | None) -> tuple[int, ...]:
    if shape is None:
        return (16,)
    return tuple(d if isinstance(d, int) else 1 for d in shape)
