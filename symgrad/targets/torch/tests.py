"""The text of a generated test: a class that states the facts which symgrad.testing checks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from symgrad.compiler.operation import Operation, Variant, as_written
from symgrad.compiler.workbench import Workbench
from symgrad.differentiate.modes import is_tensor_op
from symgrad.differentiate.ties import released
from symgrad.ir.expr import ZERO, Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, code, constant, keyword, tuple_of
from symgrad.lower.conditionals import branches
from symgrad.lower.program import Assign, Program, Return, reads
from symgrad.lower.python import lines
from symgrad.lower.schedule import Scope, Target, statements
from symgrad.ops.functions import FUNCTIONS
from symgrad.plan.saving import Saved
from symgrad.resources import environment
from symgrad.targets.constants import definitions
from symgrad.targets.formatting import format_python
from symgrad.targets.literals import quoted
from symgrad.targets.torch import docs, samples
from symgrad.targets.torch.composite import composite, with_large_clamps
from symgrad.targets.torch.dtypes import floated_in, is_choice_of_numbers, promoted
from symgrad.targets.torch.figures import figures
from symgrad.targets.torch.imports import test_imports
from symgrad.targets.torch.layout import Layout, wants_one_dtype
from symgrad.targets.torch.methods import keepers
from symgrad.targets.torch.owner import facts_to_test
from symgrad.targets.torch.printer import Printer
from symgrad.targets.torch.ranges import sampled_ranges
from symgrad.targets.torch.settings import settings, variant_at
from symgrad.targets.torch.special import in_domain, special

__all__ = ["render_test"]

_OF_FLOATS = frozenset(row.name for row in FUNCTIONS.values() if row.of_floats)
_TAKEN = frozenset({"torch", "math", "F", "Any", "Accuracy", "FunctionTests", "Input", "collections", "functools"})
_NOTES = {"jit = False": "  # torch.jit.load reads no such names"}
_WIDE = 1e-5  # where the composite computes functions of whole numbers in float32


@as_written
def render_test(operation: Operation, kept: int = 0, package: str = "") -> str:
    """The test of an operation's module, formatted; it imports torch and symgrad.testing.

    `kept` is the most tensors that fused passes save beside what the plan says; `package` is where the module is
    imported from, empty where that stands beside it.
    """
    layout = Layout(operation)
    template = environment().get_template("torch/test.py.j2")
    context = _Facts(layout, kept).context() | {"package": package}
    return format_python(template.render(**context))


class _Facts:
    """What is stated about an operation."""

    def __init__(self, layout: Layout, kept: int) -> None:
        self.layout = layout
        self.spec = layout.spec
        self.kept = kept
        self.constants = layout.constants
        self.settings = settings(layout)
        self.shapes, self.empty = samples.shapes(layout)
        self.formulas = layout.formulas
        self.figures = figures(layout)
        self.nodes = topological(*self.formulas)
        self.pointwise = not any(map(is_tensor_op, self.nodes))
        self.broadcasting = self.pointwise and all(t.shape is None for t in self.spec.tensors)

    def context(self) -> dict[str, Any]:
        """All variables of the template."""
        layout, spec = self.layout, self.spec
        rule = self._rule() if any(v.overrides for v in layout.variants) else ()
        bodies, facts, accuracy = (composite(layout), self._guarded(), rule), list(self._facts()), self.figures
        read = reads([*facts, *(statement for body in bodies for statement in body)])
        return {
            **dict(zip(("composite", "guarded", "rule"), map(lines, bodies), strict=True)),
            "imports": test_imports(read | ({"Accuracy"} if accuracy else frozenset())),
            "runtime": "rt" in read,
            "op": spec.op,
            "name": layout.class_name,
            "equations": docs.escaped(docs.equations(layout)),
            "names": ", ".join(sorted(self._imported(), key=_as_ruff_sorts)),
            "arguments": ", ".join(f"{layout.arguments[a]}: Any" for a in layout.argument_names),
            "cotangents": ", ".join(f"grad_{o.name}: Any" for o in spec.outputs),
            "facts": [f"{line}{_NOTES.get(line, '')}" for line in lines(facts)],
            "figures": [
                {"quantity": quoted(f.quantity), "rows": f.rows, "float32": f.float32, "float64": f.float64}
                for f in accuracy
            ],
            "constants": definitions(self.constants),
        }

    # ------------------------------------------------------------------------------------------ names
    @property
    def _function(self) -> str:
        return f"{self.spec.op} as operation" if self.spec.op in _TAKEN else self.spec.op

    def _imported(self) -> Iterator[str]:
        name = self.layout.class_name
        yield self._function
        yield f"{name}Function"
        if self.spec.module is not None:
            yield name
        if self.spec.options.inplace:
            yield f"{self.spec.op}_"

    def _facts(self) -> Iterator[Assign]:
        """The attributes of the class, those that are not as usual."""
        called = {"call": self._function.rpartition(" ")[2], "function": f"{self.layout.class_name}Function"}
        if self.spec.module is not None:
            called["module"] = self.layout.class_name
        if self.spec.options.inplace:
            called["inplace"] = f"{self.spec.op}_"
        yield Assign(tuple(called), tuple_of(list(called.values())))
        if called["call"] != self.spec.op:
            yield Assign("name", constant(self.spec.op))
        if self.spec.options.inplace:
            yield Assign("inplace_of", constant(self.spec.options.inplace))
        for facts in (self._arguments, self._samples, self._results, self._derivatives, self._owner):
            yield from (Assign(name, value) for name, value in facts())

    # ------------------------------------------------------------------------------------------ facts
    def _arguments(self) -> Iterator[tuple[str, Code]]:
        special_of = special(self.layout) if self.pointwise else [None] * len(self.spec.tensors)
        rows = []
        for t, (low, high), values in zip(self.spec.tensors, sampled_ranges(self.layout), special_of, strict=True):
            cells: dict[str, Code] = {}
            if t.dtype != "bool":
                cells |= {"low": _number(low), "high": _number(high)}
            if t.dtype != "float":
                cells["dtype"] = constant(t.dtype)
            if not t.grad:
                cells["grad"] = constant(False)
            if t.default is not None:
                cells["optional"] = constant(True)
            if t.domain is not None:
                cells["domain"] = tuple_of([_number(t.domain.lower), _number(t.domain.upper)])
            if values is not None and t.dtype == "float" and values != in_domain(t):
                cells["special"] = tuple_of(list(map(code, values)))
            rows.append(code("Input({0}, {1})", constant(t.name), [keyword(*cell) for cell in cells.items()]))
        yield "inputs", tuple_of(rows)

    def _samples(self) -> Iterator[tuple[str, Code]]:
        spec, first = self.spec, self.shapes[0]
        yield "shapes", constant([*self.shapes, *self.empty])
        if large := samples.large_shapes(self.layout):
            yield "large", constant(large)
        names = [h.name for h in spec.hyperparameters]
        if names:
            rows = [dict(zip(names, values, strict=True)) for values in self.settings]
            yield "settings", constant(rows)
        if renamed := {h: self.layout.arguments[h] for h in names if self.layout.arguments[h] != h}:
            yield "renamed", constant(renamed)
        if refused := samples.refused(spec):
            yield "refused", tuple_of([code(f"({{0}}, {value}, {error})", constant(n)) for n, value, error in refused])
        if bad := samples.bad_shapes(spec, first):
            yield "bad_shapes", constant(bad)
        if self._takes_numbers() and (numbers := self._numbers()):
            yield "numbers", constant(numbers)
        ones = tuple(_ones(t.shape) for t in spec.tensors)
        if not samples.accepted(self.layout)(ones):  # another output may not be of such sizes
            ones = tuple(own if own is not None else usual for own, usual in zip(first, ones, strict=True))
        if any(own != (16,) for own in ones) and (self.pointwise or self.figures):
            yield "ones_shapes", constant(list(ones))

    def _results(self) -> Iterator[tuple[str, Code]]:
        spec, layout = self.spec, self.layout
        if [o.name for o in spec.outputs] != ["y"]:
            yield "outputs", constant([o.name for o in spec.outputs])
        if fixed := [o.name for o in spec.outputs if not o.grad]:
            yield "fixed", constant(fixed)
        if not self.pointwise:
            yield "pointwise", constant(False)
        if any(map(wants_one_dtype, self.nodes)):
            yield "mixes", constant(False)
        wide = layout.wide_values or any(v.wide_slopes or v.wide_alone for v in layout.variants)
        if wide and any(map(floated_in, self.formulas)):
            yield "tolerance", constant(_WIDE)
        from_outputs = any(s.source == "output" for v in layout.variants for s in v.plan.base)
        widened = spec.options.accumulate == "float32" and not layout.rounds_products
        if not widened or from_outputs:
            yield "rounded_once", constant((widened, widened and not from_outputs))
        declared = [*layout.argument_names, *layout.outputs, *(f.name for f in spec.let)]
        if not all(map(str.isascii, declared)):
            yield "jit", constant(False)
        if spec.options.library:
            yield "library", constant(spec.options.library)

    def _derivatives(self) -> Iterator[tuple[str, Code]]:
        layout, spec = self.layout, self.spec
        residuals = [self._residuals(variant_at(layout, values)) for values in self.settings]
        same = all(r == residuals[0] for r in residuals)
        yield "residuals", constant(residuals[0] if same else residuals)
        extern = len(spec.tensors) if spec.extern is not None and spec.extern.backward else 0
        packed = dict.fromkeys(s.packing for v in layout.variants for s in v.plan.saved if s.packing is not None)
        if packed:
            yield "packed", constant({p.name: p.form for p in packed})
        if most := max(self.kept, extern, len(packed)):
            yield "kernel_residuals", constant(most)
        if overridden := [t.name for t in spec.tensors if any(t.name in v.overrides for v in layout.variants)]:
            yield "overridden", constant(overridden)
            if not layout.operation.is_linear:
                yield "linear", constant(False)
        if not spec.options.double_backward:
            yield "double_backward", constant(False)
        if any(n.op == "detach" for n in self.nodes):
            yield "detached", constant(True)

    def _owner(self) -> Iterator[tuple[str, Code]]:
        facts = facts_to_test(self.layout, self.shapes[0], self.settings[0])
        if facts is None:
            return
        for name in ("parameters", "attributes", "constructor", "arguments"):
            if facts[name]:
                yield name, constant(facts[name])
        if facts["shapes"] != self.shapes[0]:
            yield "module_shapes", constant(facts["shapes"])

    def _residuals(self, variant: Variant | None) -> dict[str, tuple[str, ...]]:
        """What a call saves, by name, each with the tensors whose gradients read it."""
        found: dict[str, tuple[str, ...]] = {}
        if variant is None:
            return found
        layout = self.layout
        names = {layout.symbol(t.name): t.name for t in self.spec.tensors}
        scope = Scope(layout.names(), layout.symbols(), lets=layout.lets)
        kept: tuple[Saved, ...] = (*variant.plan.base, *layout.kept(variant))
        for saved in (s for s in kept if not s.spared):
            name = names.get(saved.value)
            if name is None:
                name = scope.names.for_value(released(saved.value), layout.symbols())
            if saved.packing is not None:  # the tensor itself is not what is saved
                name = f"{name} as {saved.packing.form}"
            found[name] = tuple(keepers(saved, variant, layout))
        return found

    # ------------------------------------------------------------------------------------------ questions
    def _joint(self) -> bool:
        """Whether the dtype of every output is that of all tensors, which decide the dtype of a number among them."""
        everyone = {self.layout.symbol(t.name) for t in self.spec.tensors}
        return not any(map(is_choice_of_numbers, self.nodes)) and all(promoted(f) == everyone for f in self.formulas)

    def _takes_numbers(self) -> bool:
        """Whether any tensor may be a number, and the results are as if it were a tensor without dimensions."""
        floats = all(t.dtype == "float" for t in self.spec.tensors)
        return self.broadcasting and len(self.spec.tensors) > 1 and floats and self._joint()

    def _numbers(self) -> list[float]:
        """Numbers in all domains: an integer, where torch computes the formula of one, and another."""
        whole = not any(n.op in _OF_FLOATS for n in self.nodes)
        domains = [t.domain for t in self.spec.tensors if t.domain is not None]
        return [v for v in (2 if whole else 2.0, 0.5) if all(v in d for d in domains)]

    # ------------------------------------------------------------------------------------------ programs
    def _rule(self) -> Program:
        """A program that returns the gradients which the spec gives, None where there is none in a variant."""
        layout = self.layout
        overridden = [t.name for t in self.spec.tensors if any(t.name in v.overrides for v in layout.variants)]

        def leaf(variant: Variant) -> Program:
            given = {t: o.gradient for t, o in variant.overrides.items() if o.gradient is not ZERO}
            scope = Scope(layout.names(), layout.symbols(), lets=layout.lets)
            targets = [Target(f"own_{t}", value) for t, value in given.items()]
            cotangents = [f"grad_{o.name}" for o in layout.spec.outputs if o.grad]
            printing = layout.printing(cotangents)
            results = [f"own_{t}" if t in given else constant(None) for t in overridden]
            return (*statements(targets, scope, printing), Return(code("({0},)", results)))

        return branches(layout.operation.body, leaf, Printer(layout.symbols(), self.constants))

    def _guarded(self) -> Program:
        """The composite as autograd differentiates it rightly, where it does not do so of the formula as written.

        Dead branches have harmless arguments, where autograd would give NaN without them, and what is clamped is as
        large as its bounds.
        """
        bench = Workbench(self.layout.operation.program)

        def safe(form: Expr) -> Expr:
            return with_large_clamps(bench.guarded(form))

        if all(safe(f) is f for f in self.formulas):
            return ()
        return composite(self.layout, safe)


def _as_ruff_sorts(name: str) -> tuple[int, str]:
    """Constants, classes, functions."""
    bare = name.partition(" ")[0]
    return (0 if bare.isupper() and len(bare) > 1 else 1 if bare[:1].isupper() else 2, bare)


def _number(value: float) -> Code:
    """A number: infinities by name, whole numbers without a fraction."""
    whole = not math.isinf(value) and value == int(value) and abs(value) < 1e6
    return constant(int(value) if whole else value)


def _ones(shape: Any) -> tuple[int, ...]:
    if shape is None:
        return (16,)
    return tuple(d if isinstance(d, int) else 1 for d in shape if d != "...")
